"""The simulated Panda of `sim/arm.py`, as a driver: the arm loop calls it as it calls a real one."""

import numpy as np

from robot_rl.interfaces import Given
from robot_rl.sim.arm import JOINTS, SimulatedPanda
from robot_rl.sim.franka_facts import PANDA
from robot_rl.sim.panda import Unmodelled
from robot_rl.types import ConfigError

Options = Unmodelled
"""The driver's part of a hardware file: what the simulated joints and hand are like."""


class Arm(SimulatedPanda):
    """A Panda in a scene of `sim/scenes` (an empty table if there is none)."""

    facts = PANDA

    def __init__(self, options: Options, given: Given):
        config = given.arm
        assert config is not None, "an arm is given its entry of the hardware file"
        if len(config.home) != JOINTS:
            raise ConfigError(
                f"arm '{config.name}': home needs {JOINTS} joint angles [rad]; it has"
                f" {len(config.home)}"
            )
        super().__init__(
            np.array(config.home), np.array(config.pose_flange_tcp), given.scene, options
        )
