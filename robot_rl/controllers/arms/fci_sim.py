"""A simulated FR3 behind its real wire: starts the robot of `sim/fci`, and drives it as `franka.py` drives a real one.

What the simulation adds, the truth about the world and its reset, does not go over that wire.
"""

from dataclasses import replace

from robot_rl.clock import ClockKind
from robot_rl.config import ArmConfig
from robot_rl.controllers.arms import franka
from robot_rl.controllers.arms._panda import PANDA
from robot_rl.sim.fci.process import Simulation
from robot_rl.sim.panda import Unmodelled
from robot_rl.types import Array, Load, Use, WorldState


class Arm:
    """Implements `interfaces.SimulatedArm`.

    The options are those of `franka.py`, of which `ip` may be left out (a free one is taken), and the fields of
    `sim/panda.py: Unmodelled`, which are the simulated robot's.
    """

    joints = franka.JOINTS
    paced = True
    facts = PANDA

    def __init__(self, config: ArmConfig, scene: Use | None = None, clock: ClockKind = "real"):
        simulated = Unmodelled.among(config.options)
        Unmodelled.of(simulated, source=f"arm '{config.name}': options")  # before a process is started
        frankas = {name: value for name, value in config.options.items() if name not in simulated}
        self._simulation = Simulation(replace(config, options=simulated), scene, clock)
        try:
            self._arm = franka.Arm(replace(config, options={**frankas, "ip": self._simulation.ip}))
        except BaseException:
            self._simulation.close()
            raise
        self.read, self.write = self._arm.read, self._arm.write

    @property
    def lost_cycles(self) -> int:
        """Cycles of the robot that went by unseen."""
        return self._arm.lost_cycles

    def set_tool(self, pose_flange_tool: Array) -> None:
        self._arm.set_tool(pose_flange_tool)

    def set_load(self, load: Load) -> None:
        self._arm.set_load(load)

    def recover(self) -> None:
        self._arm.recover()

    def world(self) -> WorldState:
        """The truth: exact in lockstep, a hundredth of a second old on the real clock."""
        return self._simulation.world()

    def reset(self, seed: int) -> None:
        """Torque control ends, the arm is at home and at rest, the objects are where the seed says."""
        self._arm.rest()
        self._simulation.reset(seed)
        self._arm.read()  # what was still on its way
        self._arm.rest()

    def close(self) -> None:
        """Let go of the robot, then end it."""
        self._arm.close()
        self._simulation.close()
