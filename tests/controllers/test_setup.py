"""An arm refuses what it must not run with, and says what is allowed."""

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_rl.config.compliance import default_within
from robot_rl.controllers.setup import check_compliance, check_setup
from robot_rl.types import Compliance, ConfigError
from tests.controllers.bench import HARDWARE, LIMITS, SETUP

WIDER: dict[str, Any] = {
    "workspace_low": (0.0, -0.2, 0.0),
    "workspace_high": (0.65, 0.2, 0.5),
    "workspace_angle": LIMITS.workspace_angle + 0.1,
    "workspace_margin_m": LIMITS.workspace_margin_m * 2,
    "workspace_quat": (0.0, 1.0, 0.0, 0.0),
    "max_reference_speed": 1.0,
    "max_reference_rotation_speed": 9.0,
    "max_tcp_speed": 3.0,
    "max_joint_speed": (9.0,) * 7,
    "max_torque": (87.0,) * 7,
    "max_torque_rate": 2000.0,
    "max_force": 500.0,
}


def test_the_task_peg_insert_is_accepted():
    check_setup(SETUP, LIMITS, 7)


@pytest.mark.parametrize("name", WIDER)
def test_a_limit_wider_than_the_hardware_is_refused(name):
    with pytest.raises(ConfigError):
        check_setup(replace(SETUP, limits=replace(LIMITS, **{name: WIDER[name]})), LIMITS, 7)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1.0, 0.0])
@pytest.mark.parametrize("name", ["stiffness", "damping", "error_clip"])
def test_a_gain_that_is_not_finite_and_positive_is_refused(name, bad):
    gains: Any = (bad, *getattr(SETUP.compliance, name)[1:])
    with pytest.raises(ConfigError, match=name):
        check_setup(
            replace(SETUP, compliance=replace(SETUP.compliance, **{name: gains})), LIMITS, 7
        )


@pytest.mark.parametrize("bad", [math.nan, -1.0, 0.0])
def test_a_limit_that_is_not_finite_and_positive_is_refused(bad):
    with pytest.raises(ConfigError, match="max_force"):
        check_setup(replace(SETUP, limits=replace(LIMITS, max_force=bad)), LIMITS, 7)


def test_a_tool_without_a_unit_quaternion_is_refused():
    with pytest.raises(ConfigError, match="pose_flange_tool"):
        check_setup(replace(SETUP, pose_flange_tool=SETUP.pose_flange_tool * 2.0), LIMITS, 7)


# --------------------------------------------------------------------------------- the law's ranges

STIFFNESS, CLIP = (2000.0,) * 3 + (150.0,) * 3, (0.01,) * 3 + (0.05,) * 3


def law_with(**changes: Any) -> Compliance:
    return replace(Compliance(), **changes)


def six(values: tuple[float, ...], axis: int, value: float) -> tuple[float, ...]:
    return (*values[:axis], value, *values[axis + 1 :])


@pytest.mark.parametrize("axis", range(6))
@pytest.mark.parametrize("name", ["error_clip", "error_clip_minus"])
def test_no_axis_presses_harder_than_what_stops_the_arm(name, axis):
    most = (LIMITS.max_force if axis < 3 else LIMITS.max_moment) / STIFFNESS[axis]
    check_compliance(law_with(**{name: six(CLIP, axis, most)}), 7, LIMITS)
    with pytest.raises(
        ConfigError,
        match=rf"compliance.{name}\[{axis}\] = .*: stiffness x clip is .* wanted at most",
    ):
        check_compliance(law_with(**{name: six(CLIP, axis, 1.01 * most)}), 7, LIMITS)


def test_the_limits_in_force_count_and_not_the_hardware_files():
    gentle = replace(LIMITS, max_force=15.0)
    with pytest.raises(ConfigError, match=r"max_force is 15 N: wanted at most 0\.0075"):
        check_setup(replace(SETUP, limits=gentle), LIMITS, 7)


@pytest.mark.parametrize("axis", range(6))
def test_what_pulls_is_damped_at_least_half_critically(axis):
    inertia = 1.0 if axis < 3 else 0.1
    least = 2.0 * 0.5 * math.sqrt(STIFFNESS[axis] * inertia)
    damping = Compliance().damping
    check_compliance(Compliance(damping=six(damping, axis, 1.001 * least)), 7)
    with pytest.raises(
        ConfigError, match=rf"compliance.damping\[{axis}\] = .*: wanted at least {least:.4g}"
    ):
        check_compliance(Compliance(damping=six(damping, axis, 0.999 * least)), 7)


@pytest.mark.parametrize("joint", range(7))
def test_the_elbow_is_pulled_to_no_posture_beyond_the_joints(joint):
    check_compliance(Compliance(posture=HARDWARE.home), 7, LIMITS)
    for end, sign in ((LIMITS.joint_low[joint], 1.0), (LIMITS.joint_high[joint], -1.0)):
        inside, beyond = (
            six(HARDWARE.home, joint, end + sign * LIMITS.joint_margin * share)
            for share in (1.01, 0.99)
        )
        check_compliance(Compliance(posture=inside), 7, LIMITS)
        with pytest.raises(ConfigError, match=rf"compliance.posture\[{joint}\] = "):
            check_compliance(Compliance(posture=beyond), 7, LIMITS)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        (
            {"stiffness": (20_000.0,) * 6},
            r"stiffness\[0\] = 20000: wanted more than 0, at most 6000 N/m",
        ),
        (
            {"error_clip": (10.0,) * 6},
            r"error_clip\[0\] = 10: wanted more than 0, at most 0.1 m; 10 mm are 0.01 m",
        ),
        ({"gain_time_s": 0.0}, r"gain_time_s = 0: wanted 0.02 to 2 s"),
        ({"filter_time_s": math.nan}, r"filter_time_s = nan: wanted 0 to 2 s"),
        ({"nullspace_stiffness": -1.0}, r"nullspace_stiffness = -1: wanted 0 to 100 Nm/rad"),
        ({"integral": (0.0,) * 5}, r"integral has 5 numbers: wanted 6"),
        ({"posture": (0.0,) * 6}, r"posture needs 7 joint angles \[rad\]; it has 6"),
    ],
)
def test_a_law_out_of_range_is_refused_with_what_is_allowed(changes, complaint):
    with pytest.raises(ConfigError, match=complaint):
        check_compliance(Compliance(**changes), 7, LIMITS)


@pytest.mark.parametrize("leash", [0.0, 0.51, math.nan, math.inf])
def test_a_leash_has_a_length(leash):
    with pytest.raises(ConfigError, match="leash_translation = "):
        check_setup(replace(SETUP, leash_translation=leash), LIMITS, 7)


@given(force=st.floats(0.5, 300.0), moment=st.floats(0.1, 100.0))
def test_the_law_before_any_task_suits_every_bench(force, moment):
    """An arm that may press with 5 N alone can be started, and is held with no more."""
    limits = replace(
        LIMITS, max_force=force, max_moment=moment, retreat_force=1000.0, retreat_moment=300.0
    )
    law = default_within(limits)
    check_compliance(law, 7, limits)
    assert (law.stiffness, law.damping) == (Compliance().stiffness, Compliance().damping)
    assert all(
        clip <= usual for clip, usual in zip(law.error_clip, Compliance().error_clip, strict=True)
    )
