"""An arm as the network side has it, on the clock that was asked for."""

import numpy as np

from robot_rl.config import ArmConfig, driver
from robot_rl.config.compliance import default_within
from robot_rl.controllers.lockstep import LockstepArm
from robot_rl.controllers.realtime import RealTimeArm
from robot_rl.controllers.setup import DEFAULT_LEASH, ArmSetup, check_setup, open_driver
from robot_rl.machine.clock import ClockKind
from robot_rl.types import ConfigError, Use

ServedArm = LockstepArm | RealTimeArm
"""What the network side needs of an arm, whichever clock it runs on: both have the same calls."""


def open_arm(config: ArmConfig, scene: Use | None, clock: ClockKind) -> ServedArm:
    """Open the arm of a hardware file on the clock that was asked for."""
    setup = ArmSetup(
        np.array(config.pose_flange_tcp),
        default_within(config.limits),
        config.limits,
        *DEFAULT_LEASH,
    )
    check_setup(setup, config.limits, len(config.home))
    simulated = driver("controllers/arms", config.driver).simulated
    if clock == "lockstep":
        if not simulated:
            raise ConfigError(
                f"arm '{config.name}' ({config.driver}) is not simulated: its clock can only be"
                " 'real'"
            )
        return LockstepArm(open_driver(config, scene, clock), setup, config.guards)
    if not simulated:
        return RealTimeArm(config, scene, setup, len(config.home))
    from robot_rl.sim.stage import size_of  # loads MuJoCo, which a real arm's process does without

    return RealTimeArm(config, scene, setup, len(config.home), *size_of(scene))
