"""Numbers that nobody can mean get no further than the door that they come to: arm, link, log, learner, checkpoint."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from robot_rl.controllers.arms.mujoco import Arm
from robot_rl.controllers.loop import ArmLoop
from robot_rl.controllers.recorder import Ring, columns
from robot_rl.controllers.setup import ArmSetup, check_setup
from robot_rl.types import Array, Compliance, ConfigError, Fault
from tests.controllers.bench import HARDWARE, LIMITS, SETUP, TASK, moved, run

HUGE = (1e12, 1e30, 1e100, 1e300, 1.7e308, -1.7e308)
"""Finite, and sums or squares of them are not."""

# ------------------------------------------------------------------------------------------------------------ the arm


def with_tool(*position: float) -> ArmSetup:
    return replace(SETUP, pose_flange_tool=np.array([*position, 0.0, 0.0, 0.0, 1.0]))


def with_law(**changes: Any) -> ArmSetup:
    return replace(SETUP, compliance=replace(TASK.compliance, **changes))


def hostile_setups(number: float) -> list[ArmSetup]:
    """Set-ups with one number that cannot be meant, in each place where a client may write one."""
    six = (number,) * 6
    laws = [
        *({name: six} for name in ("stiffness", "damping", "error_clip", "error_clip_minus", "integral")),
        {"posture": (number,) * 7, "nullspace_stiffness": 100.0},
        {"nullspace_stiffness": abs(number)},
    ]
    quat = np.array([*SETUP.pose_flange_tool[:3], number, 0.0, 0.0, 1.0])
    return [
        *(with_law(**changes) for changes in laws),
        with_tool(0.0, 0.0, number),
        replace(SETUP, pose_flange_tool=quat),
        replace(SETUP, leash_translation=abs(number)),
    ]


@pytest.mark.parametrize("number", [*HUGE, math.nan, math.inf])
def test_a_set_up_that_nobody_can_mean_is_refused(number: float) -> None:
    turned = replace(SETUP, limits=replace(LIMITS, workspace_quat=(number, 1.0, 0.0, 0.0)))
    for setup in (*hostile_setups(number), turned):
        with pytest.raises(ConfigError):
            check_setup(setup, LIMITS, 7)


def test_a_tool_in_millimetres_is_called_that() -> None:
    with pytest.raises(ConfigError, match=r"pose_flange_tool = 103.4: wanted 0 to 1 m; 103.4 mm are 0.1034 m"):
        check_setup(with_tool(0.0, 0.0, 103.4), LIMITS, 7)


def torques(ring: Ring) -> Array:
    """The torques `(ticks, 7)` that the arm was given, as the black box has them."""
    at = [column.startswith("tau") for column in columns(7)]
    return ring.rows[: ring.count[0], at]


@pytest.fixture(scope="module")
def arm() -> Arm:
    return Arm(HARDWARE, TASK.scene)


@pytest.mark.parametrize("number", [1e30, 1.7e308, -1.7e308])
def test_no_set_up_makes_torques_that_are_no_numbers_and_a_good_one_makes_the_arm_work_again(
    arm: Arm, number: float
) -> None:
    """Also where it came past the door: the loop has the last word."""
    for setup in hostile_setups(number):
        arm.reset(0)
        ring = Ring(7)
        loop = ArmLoop(arm, SETUP, ring)
        loop.configure(setup)
        for _ in range(4):
            loop.command(moved(loop, 0.002, 0.0, 0.0), loop.t + 0.3)
            run(loop, 100)
        loop.configure(SETUP)
        run(loop, 100)
        loop.acknowledge()
        run(loop, 100)
        assert loop.fault == Fault.NONE and loop.holding
        start = loop.state().pose_base_tcp[0]
        for _ in range(5):
            loop.command(moved(loop, 0.004, 0.0, 0.0), loop.t + 0.3)
            run(loop, 100)
        assert loop.state().pose_base_tcp[0] > start + 0.01
        given = torques(ring)
        assert len(given) == 1100 and np.isfinite(given).all()
        assert (np.abs(given) <= np.array(LIMITS.max_torque) + 1e-9).all()
        assert np.abs(np.diff(given, axis=0)).max() <= LIMITS.max_torque_rate * 0.001 + 1e-9


@pytest.mark.parametrize("number", [math.nan, math.inf, 1e300])
def test_a_law_that_comes_to_no_number_is_a_latched_fault_and_the_arm_is_braked(arm: Arm, number: float) -> None:
    arm.reset(0)
    loop = ArmLoop(arm, SETUP)
    loop.command(moved(loop, 0.02, 0.0, 0.0), loop.t + 1.0)
    run(loop, 60)
    loop.tune(Compliance(stiffness=(number,) * 6))
    loop.command(moved(loop, 0.02, 0.0, 0.0), loop.t + 1.0)
    run(loop, 400)
    assert loop.fault == Fault.TORQUE_NOT_FINITE and loop.holding and "compliance" in loop.reason
    assert np.isfinite(loop._tau).all() and np.abs(loop.observe().dq).max() < 0.02
    loop.tune(TASK.compliance)
    loop.acknowledge()
    loop.command(moved(loop, 0.0, 0.0, 0.0), loop.t + 1.0)
    run(loop, 400)
    assert loop.fault == Fault.NONE and not loop.holding and np.isfinite(loop._tau).all()
