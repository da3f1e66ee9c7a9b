"""The simulated Panda of `sim/arm.py`, as a driver: the arm loop calls it as it calls a real one."""

from collections.abc import Sequence

import numpy as np

from robot_rl.geometry import IDENTITY
from robot_rl.interfaces import Given
from robot_rl.sim.arm import JOINTS, SimulatedPanda
from robot_rl.sim.franka_facts import PANDA
from robot_rl.sim.panda import Unmodelled
from robot_rl.sim.world import SimulatedWorld
from robot_rl.types import ConfigError, Use

Options = Unmodelled
"""The driver's part of a hardware file: what the simulated joints and hand are like."""


class Arm(SimulatedPanda):
    """A Panda in a scene of `sim/scenes` (an empty table if there is none)."""

    facts = PANDA
    one_world = True

    def __init__(self, options: Options, given: Given, world: SimulatedWorld | None = None):
        """Alone in its world, or one of several in theirs."""
        config = given.arm
        assert config is not None, "an arm is given its entry of the hardware file"
        if len(config.home) != JOINTS:
            raise ConfigError(
                f"arm '{config.name}': home needs {JOINTS} joint angles [rad]; it has"
                f" {len(config.home)}"
            )
        there = world or SimulatedWorld(given.scene, PANDA, [options])
        super().__init__(
            np.array(config.home), np.array(config.pose_flange_tcp), there, options.unknown_load_kg
        )
        if world is None:
            there.begin()

    @classmethod
    def together(cls, arms: Sequence[tuple[Options, Given]]) -> "list[Arm]":
        """The arms of one hardware file, in one world, in the order of the scene's stands."""
        options, given = zip(*arms, strict=True)
        world = SimulatedWorld(given[0].scene, PANDA, options)
        opened = [cls(own, it, world) for own, it in arms]
        world.begin()
        return opened


def warm_up() -> None:
    """Compile, or load, what simulated arms call in each tick beside the law, alone or two in a
    world: for an installation, so that nobody's first run waits for it.
    """
    world = SimulatedWorld(Use("handover"))
    arms = [SimulatedPanda(np.zeros(JOINTS), IDENTITY, world) for _ in range(world.stands)]
    world.begin()
    for arm in arms:
        arm.write(np.zeros(JOINTS))
