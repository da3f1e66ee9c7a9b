"""A simulated FR3 behind its real wire: starts the robot of `sim/fci`, and drives it as `franka.py`
drives a real one.

What the simulation adds, the truth about the world and its reset, does not go over that wire.
"""

from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from robot_rl import interfaces
from robot_rl.controllers.arms import franka
from robot_rl.interfaces import ArmReading, Given
from robot_rl.sim.fci.process import Simulation
from robot_rl.sim.panda import Unmodelled
from robot_rl.types import Array, Load, WorldState


@dataclass(frozen=True)
class Options(franka.Options, Unmodelled):
    """The driver's part of a hardware file: that of `franka.py`, and what the simulated joints and
    hand are like.
    """

    ip: str = ""
    """Address of the simulated robot on this machine; "": a free one."""

    def __post_init__(self) -> None:
        franka.Options.__post_init__(self)
        Unmodelled.__post_init__(self)


class Arm(interfaces.Arm):
    """The simulated robot's joints may rub, and it may carry an unknown load."""

    joints = franka.JOINTS
    paced = True
    facts = franka.Arm.facts
    simulated = True

    def __init__(self, options: Options, given: Given):
        config = given.arm
        assert config is not None, "an arm is given its entry of the hardware file"
        simulated = replace(config, options=Unmodelled.among(asdict(options)))
        self._simulation = Simulation(simulated, given.scene, given.clock)
        frankas = {field.name: getattr(options, field.name) for field in fields(franka.Options)}
        try:
            self._arm = franka.Arm(franka.Options(**{**frankas, "ip": self._simulation.ip}), given)
        except BaseException:
            self._simulation.close()
            raise

    def read(self) -> ArmReading:
        return self._arm.read()

    def write(self, tau: Array) -> None:
        self._arm.write(tau)

    def journal(self) -> dict[str, Any]:
        return self._arm.journal()

    @property
    def lost_cycles(self) -> int:  # type: ignore[override]
        """Cycles of the robot that went by unseen."""
        return self._arm.lost_cycles

    @property
    def success_rate(self) -> float | None:  # type: ignore[override]
        """Share of the last 100 commands that the robot says it got; NaN outside torque control."""
        return self._arm.success_rate

    def ask(self, what: str, value: Any = None) -> Any:
        """Ask the simulation for a fault, or how it stands (`sim.fci.process.Simulation.ask`)."""
        return self._simulation.ask(what, value)

    def set_tool(self, pose_flange_tool: Array) -> None:
        self._arm.set_tool(pose_flange_tool)

    def set_load(self, load: Load) -> None:
        self._arm.set_load(load)

    def recover(self) -> None:
        self._arm.recover()

    def rest(self) -> None:
        """End torque control until the next `write`."""
        self._arm.rest()

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
