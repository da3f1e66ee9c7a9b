"""The sockets: what a file must offer to be an arm, a camera, a teleop device, a reward or an agent.

A folder is a kind, a file is which. Each file holds one class named like its kind (`Arm`, `Camera`, `Teleop`,
`Reward`, `Agent`), found by the file's name: `config.find("cameras", "realsense").Camera`.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from robot_rl.types import ArmState, Array, Observation, TeleopReading, WorldState


class ArmReading:
    """What an arm driver measures each tick, in buffers that are written in place (1 kHz: no allocation).

    `q, dq, coriolis (n,)`; `pose (7,)` of the TCP in the base; `jacobian (6, n)` of the TCP in base axes;
    `wrench (6,)` from the world on the tool, base axes, at the TCP. Gravity is compensated below the driver.
    """

    def __init__(self, joints: int):
        import numpy as np

        self.q = np.zeros(joints)
        self.dq = np.zeros(joints)
        self.coriolis = np.zeros(joints)
        self.pose = np.zeros(7)
        self.jacobian = np.zeros((6, joints))
        self.wrench = np.zeros(6)


class Arm(Protocol):
    """A torque-controlled arm. `controllers/loop.py` owns it and is the only caller:

    ```
    while running:                      # 1 kHz
        reading = arm.read()
        arm.write(torque_law(reading))  # [Nm], without gravity
    ```
    """

    joints: int

    def set_tool(self, pose_flange_tool: Array) -> None:
        """Move the controlled point to `pose_flange_tool (7,)`: pose, Jacobian and wrench belong to it from now on."""
        ...

    def read(self) -> ArmReading:
        """Measure. The same buffers are returned each time. Raises DeviceError if the arm is gone."""
        ...

    def write(self, tau: Array) -> None:
        """Send joint torques `(n,)` [Nm]. For a simulated arm this is what makes the world go on by a tick."""
        ...

    def close(self) -> None:
        """Let go of the arm, which is then held by its own controller or brakes."""
        ...


class SimulatedArm(Arm, Protocol):
    """An arm with a world around it: what the `world` channel serves."""

    def world(self) -> WorldState:
        """The truth, now."""
        ...

    def reset(self, seed: int) -> None:
        """Put the arm at its home posture and the objects where the seed says."""
        ...


class World(Protocol):
    """The simulator's truth as the actor sees it (`sim/world.py`): asked once per step, then read by whoever may."""

    latest: WorldState

    def refresh(self) -> WorldState:
        """Ask the simulation for its state now and keep it as `latest`."""
        ...

    def reset(self, seed: int) -> WorldState:
        """Reset the scene; the arm is at its home posture afterwards."""
        ...


class Camera(Protocol):
    """A camera. The newest frame, never an old one: `actor/observe.py` calls `read` once per step."""

    def read(self) -> Array:
        """The newest frame, `(H, W, 3)` uint8 RGB. Raises DeviceError if it is older than the camera's own limit."""
        ...

    def close(self) -> None: ...


class Teleop(Protocol):
    """An operator's device. `actor/intervene.py` decides from its readings who acts, before the step."""

    def begin_episode(self) -> None:
        """A new episode starts; forget the last one."""
        ...

    def read(self, arms: Sequence[ArmState]) -> TeleopReading:
        """What the operator does now, looking at the arms as they are. Never blocks."""
        ...

    def close(self) -> None: ...


class Reward(Protocol):
    """A judge of success. Called once per step, after the observation."""

    def judge(self, observation: Observation) -> tuple[float, bool]:
        """Reward of the step, and whether the task is done (which terminates the episode)."""
        ...


class Agent(Protocol):
    """A learning algorithm: `learner/loop.py` feeds it batches, the actor runs its policy.

    `update(batch)` works on tensors alone, in the order of the paper, and returns metrics as tensors.
    """

    def update(self, batch: Any) -> dict[str, Any]: ...
