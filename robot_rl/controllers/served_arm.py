"""An arm as the network side has it, on the clock that was asked for."""

from collections.abc import Sequence

import numpy as np

from robot_rl.config import ArmConfig, driver
from robot_rl.config.compliance import default_within
from robot_rl.controllers.arm_loops import stand_of
from robot_rl.controllers.lockstep import LockstepArm, LockstepWorld
from robot_rl.controllers.realtime import RealTimeArm
from robot_rl.controllers.setup import DEFAULT_LEASH, ArmSetup, check_setup, open_drivers
from robot_rl.machine.clock import ClockKind
from robot_rl.types import ConfigError, Use

ServedArm = LockstepArm | RealTimeArm
"""What the network side needs of an arm, whichever clock it runs on: both have the same calls."""


def open_arm(config: ArmConfig, scene: Use | None, clock: ClockKind) -> ServedArm:
    """Open an arm that has a process of its own, on the clock that was asked for."""
    return open_arms([config], scene, clock)[0]


def open_arms(
    configs: Sequence[ArmConfig], scene: Use | None, clock: ClockKind
) -> Sequence[ServedArm]:
    """Open the arms of a hardware file that one process serves, on the clock that was asked for:
    one, or those that stand in one world.
    """
    setups = [_first_setup(config) for config in configs]
    simulated = driver("controllers/arms", configs[0].driver).simulated
    if clock == "lockstep":
        if not simulated:
            raise ConfigError(
                f"arm '{configs[0].name}' ({configs[0].driver}) is not simulated: its clock can"
                " only be 'real'"
            )
        arms, world = open_drivers(configs, scene, clock), LockstepWorld()
        return [
            LockstepArm(arm, setup, config.guards, world, stand_of(config))
            for arm, setup, config in zip(arms, setups, configs, strict=True)
        ]
    if not simulated:
        return RealTimeArm.together(configs, scene, setups)
    from robot_rl.sim.stage import size_of  # loads MuJoCo, which a real arm's process does without

    return RealTimeArm.together(configs, scene, setups, *size_of(scene))


def _first_setup(config: ArmConfig) -> ArmSetup:
    """Of an arm that no program has set up yet."""
    setup = ArmSetup(
        np.array(config.pose_flange_tcp),
        default_within(config.limits),
        config.limits,
        *DEFAULT_LEASH,
    )
    check_setup(setup, config.limits, len(config.home))
    return setup
