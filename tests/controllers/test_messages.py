"""Messages: what goes in comes out, and nothing else gets in."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_rl.controllers import messages
from robot_rl.controllers.messages import ArmInfo, Kind
from robot_rl.types import ArmState, ArmTarget, DataError, Fault
from tests.controllers.bench import SETUP


def test_a_state_survives_the_wire():
    rng = np.random.default_rng(0)
    q, dq, pose, target = rng.normal(size=(4, 7))
    twist, wrench = rng.normal(size=(2, 6))
    state = ArmState(5, 1.5, q, dq, pose, twist, wrench, target, True, Fault.FORCE)
    layout = messages.state_layout(7)
    back = messages.to_state(messages.body_as(layout, messages.record(layout, state).tobytes()))
    for name in layout.names or ():
        np.testing.assert_array_equal(getattr(back, name), getattr(state, name))
    assert isinstance(back.fault, Fault)


def test_a_setup_survives_the_wire():
    layout = messages.setup_layout(7)
    back = messages.to_setup(messages.body_as(layout, messages.record(layout, SETUP).tobytes()))
    np.testing.assert_array_equal(back.pose_flange_tool, SETUP.pose_flange_tool)
    assert (back.compliance, back.limits) == (SETUP.compliance, SETUP.limits)


def test_the_info_survives_the_wire():
    info = ArmInfo("panda", 7, 1, 8, "lockstep", True)
    assert (
        messages.to_info(messages.body_as(messages.INFO, messages.info_record(info).tobytes()))
        == info
    )


def test_a_target_of_the_wrong_size_is_refused_before_it_is_sent():
    with pytest.raises(DataError, match="pose_base_tcp"):
        messages.record(messages.TARGET, ArmTarget(np.zeros(6), 0.1))


@given(st.binary(max_size=64))
def test_garbage_is_refused(junk):
    with pytest.raises(DataError):
        messages.decode(junk)


@given(st.binary(max_size=200))
def test_a_body_of_the_wrong_size_is_refused(body):
    with pytest.raises(DataError, match="body"):
        messages.body_as(messages.TARGET, body + b"x" * (messages.TARGET.itemsize + 1))


def test_a_message_says_what_it_is():
    message = messages.encode(Kind.COMMAND, 5, 77, b"abc", setup=3, client=9, secret=b"s" * 16)
    assert tuple(messages.decode(message)) == (
        Kind.COMMAND,
        messages.OK,
        3,
        5,
        9,
        77,
        b"abc",
        b"s" * 16,
    )
