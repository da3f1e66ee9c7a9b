"""An arm refuses what it must not run with, and says what is allowed."""

import math
from dataclasses import replace
from typing import Any

import pytest

from robot_rl.controllers.setup import check_setup
from robot_rl.types import ConfigError
from tests.controllers.bench import LIMITS, SETUP

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
        check_setup(replace(SETUP, compliance=replace(SETUP.compliance, **{name: gains})), LIMITS, 7)


@pytest.mark.parametrize("bad", [math.nan, -1.0, 0.0])
def test_a_limit_that_is_not_finite_and_positive_is_refused(bad):
    with pytest.raises(ConfigError, match="max_force"):
        check_setup(replace(SETUP, limits=replace(LIMITS, max_force=bad)), LIMITS, 7)


def test_a_tool_without_a_unit_quaternion_is_refused():
    with pytest.raises(ConfigError, match="pose_flange_tool"):
        check_setup(replace(SETUP, pose_flange_tool=SETUP.pose_flange_tool * 2.0), LIMITS, 7)
