"""The socket as a task file states it."""

import math
from dataclasses import fields

import pytest

from robot_rl import config
from robot_rl.config.kinds import make_options
from robot_rl.sim.socket import Socket
from robot_rl.types import ConfigError, Use


def socket_of(use: Use) -> Socket:
    """What the scene itself was given."""
    options = make_options("sim/scenes", use)
    return Socket(**{field.name: getattr(options, field.name) for field in fields(Socket)})


def test_it_is_what_the_scene_is_built_with():
    for task in ("peg_insert", "peg_insert_hard"):
        use = config.load_task(task).scene or Use("empty")
        assert Socket.of(use) == socket_of(use)
    assert Socket.of(use) == Socket(0.00025, 0.025, 0.024, (0.5, 0.0), 0.050, math.radians(20.0))
    assert Socket.of(None) == Socket() == socket_of(Use("peg_insert"))


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"clearance_m": 0.0}, "clearance_m is 0.0; it must be more than 0"),
        ({"depth_m": 0.02}, r"success_depth_m is 0.024; it must be .* at most depth_m, 0.02"),
        ({"socket_range_m": -0.01}, "socket_range_m is -0.01; it must be 0 or more"),
        ({"socket_range_rad": -0.01}, "socket_range_rad is -0.01; it must be 0 or more"),
    ],
)
def test_a_socket_that_cannot_be_is_refused_wherever_it_is_read(options, complaint):
    for read in (Socket.of, socket_of):
        with pytest.raises(ConfigError, match=complaint):
            read(Use("peg_insert", options))


def test_a_text_is_named_as_such():
    for read in (Socket.of, socket_of):
        with pytest.raises(ConfigError, match="clearance_m"):
            read(Use("peg_insert", {"clearance_m": "tight"}))
