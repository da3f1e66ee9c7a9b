"""The sockets: what a file must offer to be an arm, a camera, a teleop device, a reward or an agent.

A folder is a kind, a file is which. Each file holds one class named like its kind (`Arm`, `Camera`, `Teleop`,
`Reward`, `Agent`), found by the file's name: `config.find("cameras", "realsense").Camera`.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from robot_rl.types import (
    ArmState,
    Array,
    Compliance,
    Feel,
    GripperReading,
    Handover,
    Load,
    Observation,
    Outcome,
    RewardResult,
    Use,
    WorldState,
)


class ArmReading:
    """What an arm driver measures each tick, in buffers that are written in place (1 kHz: no allocation).

    `q, dq, coriolis (n,)`; `pose (7,)` of the TCP in the base; `jacobian (6, n)` of the TCP in base axes;
    `wrench (6,)` from the world on the tool, base axes, at the TCP. Gravity is compensated below the driver. `tau (n,)`
    are the torques [Nm] that were in force when the arm was opened or recovered: the first command starts from them.
    `twist (6,)` is None unless the driver measures it itself, for want of a Jacobian; `mass (n, n)` [kg m^2] is the
    inertia of the joints, None unless the driver knows it: with it a hold stops the arm quicker.
    """

    def __init__(self, joints: int):
        import numpy as np

        self.q = np.zeros(joints)
        self.dq = np.zeros(joints)
        self.coriolis = np.zeros(joints)
        self.pose = np.zeros(7)
        self.jacobian = np.zeros((6, joints))
        self.wrench = np.zeros(6)
        self.tau = np.zeros(joints)
        self.twist: Array | None = None
        self.mass: Array | None = None


class Arm(Protocol):
    """A torque-controlled arm. `controllers/loop.py` owns it and is the only caller:

    ```
    while running:                      # 1 kHz
        reading = arm.read()
        arm.write(torque_law(reading))  # [Nm], without gravity
    ```

    A driver is built with `Arm(config, scene)` and may offer more, which the loop looks for by name:

    - `paced = True`: `read` waits for the arm's own next cycle (Franka), so that nobody else keeps time; `lost_cycles`
      counts the cycles that went by without a command of ours.
    - `facts`: an `ArmFacts`, what its maker says of it. A hardware file beyond that is refused; with its kinematics the
      links are guarded, and joint moves are looked through before they begin.
    - `tick_s`: the period of its control [s], if it is not a millisecond.
    - `success_rate`: the share of our commands that the robot says it has got lately; NaN if it cannot say now.
    - `journal()`: what the robot itself recorded of its last moments, for the black box: plain data, JSON can hold it.
    - `examine()`: what its own settings say against the hardware file, asked by `robot-rl check` before it is driven.
    - `set_load(load)`: the load of the hardware file, once, before anything moves. (The simulated arm has none: its
      hand and peg are bodies of the model, and their weight is compensated exactly.)
    - `recover()`: somebody has acknowledged a fault of the arm's own; make it ready again. Raises DeviceError if it is
      not to be had, and the fault stays.
    """

    joints: int

    def set_tool(self, pose_flange_tool: Array) -> None:
        """Move the controlled point to `pose_flange_tool (7,)`: pose, Jacobian and wrench belong to it from now on."""
        ...

    def read(self) -> ArmReading:
        """Measure. The same buffers are returned each time.

        Called again before the next `write`, it measures the same cycle again (with the tool as it is now) and waits
        for nothing. Raises DeviceError if the arm is gone; ArmDriverError with the kind of the fault if it has stopped
        (REFLEX, COMMUNICATION, USER_STOP), the message in the robot's own words. Both may come from `write` as well.
        """
        ...

    def write(self, tau: Array) -> None:
        """Send joint torques `(n,)` [Nm]. For a simulated arm this is what makes the world go on by a tick."""
        ...

    def close(self) -> None:
        """Let go of the arm, which is then held by its own controller or brakes."""
        ...


class PoseArm(Protocol):
    """An arm whose own controller follows poses (UR, xArm, franky): lease, limits and faults stand above it.

    ```
    while running:                    # at the driver's own rate, once in `tick_s`
        reading = arm.read()          # `jacobian` of the TCP in base axes, or `twist (6,)` if there is none to be had
        arm.follow(next_reference)    # inside the workspace, at most the reference speed away from the last one
    ```
    What is pressed with is the arm's own matter: `set_compliance`, if the driver offers it, gets the task's values;
    the limits on force and moment hold above it. Everything else is as for `Arm`.
    """

    mode: str
    """"pose": how the loop tells it from an `Arm`."""

    joints: int

    def set_tool(self, pose_flange_tool: Array) -> None: ...

    def read(self) -> ArmReading: ...

    def follow(self, pose_base_tcp: Array) -> None:
        """Go to the pose `(7,)` of the TCP, which is near the last one: the next comes in `tick_s`."""
        ...

    def set_compliance(self, compliance: Compliance) -> None:
        """Optional: be as stiff as the task wants it. Raises ConfigError for what this arm cannot be."""
        ...

    def set_load(self, load: Load) -> None:
        """Optional: see `Arm`."""
        ...

    def close(self) -> None: ...


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


@dataclass(frozen=True)
class Simulation:
    """What a simulated camera draws: the world, and the scene that the task says stands there."""

    world: World
    scene: Use | None


class Gripper(Protocol):
    """A gripper. Each call blocks until the fingers are through, so that `controllers/gripper.py` gives it a process.

    A driver is built with `Gripper(name, **options)`. Any call raises DeviceError if the hand is gone or cannot.
    """

    def read(self) -> GripperReading:
        """Measure."""
        ...

    def home(self) -> None:
        """Find out the largest width; nothing may be between the fingers."""
        ...

    def move(self, width_m: float, speed: float) -> bool:
        """Go to a width [m] at a speed [m/s]; whether it got there."""
        ...

    def grasp(self, width_m: float, speed: float, force_n: float, tolerance_m: float) -> bool:
        """Close with a force [N] upon something `width_m` wide, give or take `tolerance_m`; whether it is held."""
        ...

    def stop(self) -> None:
        """Stand still."""
        ...

    def close(self) -> None:
        """Let go of the hand, not of what it holds."""
        ...


class Camera(Protocol):
    """A camera. The newest frame, never an old one: `actor/env.py` calls `read` once per step.

    A driver is built with `Camera(config, image_size, simulation)`: the hardware file's entry, (height, width) of the
    frames that are wanted, and what there is to draw, which is None on a real bench. It raises DeviceError if there is
    no such camera, ConfigError if its options do not fit. Drivers of real cameras are `cameras/_live.py: LiveCamera`
    around a device, which has the picture before crop and resizing as well, `whole`, for the console; such a file also
    offers `found() -> list[FoundCamera]`.
    """

    def read(self) -> Array:
        """The newest frame, `(H, W, 3)` uint8 RGB, or CameraStaleError if it is older than the camera's own limit."""
        ...

    def close(self) -> None: ...


class Teleop(Protocol):
    """An operator's device. `actor/handover.py` turns what it says into actions and is the only caller:

    ```
    earlier = device.begin_episode()    # what was said since the episode before
    while not done:
        said = device.read(arms)        # a Handover: how far it is deflected, clutch, buttons
    ```
    A driver is built with the options of the hardware file and, if its constructor names them, with `task`, `world`,
    `mode` and `seed` (the scripted operator). It raises DeviceError if the device is absent, busy or not permitted; a
    device that goes while it is in use is opened again in the background, and the readings say so meanwhile.
    """

    name: str
    """What was found: model, where it is connected."""

    controls: Mapping[str, str]
    """What each button or key does, by its name on the device."""

    @property
    def held(self) -> Collection[str]:
        """Which of them are down now."""
        ...

    reports: int
    """How many reports or events it has sent."""

    feel: Feel
    """How it feels unless the hardware file says otherwise."""

    def begin_episode(self) -> Sequence[Outcome]:
        """A new episode starts; forget the last one. Returns the words that were said and not read."""
        ...

    def take_words(self) -> Sequence[Outcome]:
        """Between two episodes, as often as one likes: the words that were said and not read."""
        ...

    def read(self, arms: Sequence[ArmState]) -> Handover:
        """What the device says now, looking at the arm that it drives as it is. Never blocks."""
        ...

    def close(self) -> None: ...


class Reward(Protocol):
    """A judge of success. Called once per step, after the observation."""

    needs_operator: bool
    """Whether it cannot judge without the operator's word: then a device is opened for evaluations, too."""

    @property
    def probability(self) -> float | None:
        """Of success, in the observation that was judged last; None if it knows only yes and no. For the console."""
        ...

    def judge(self, observation: Observation, arms: Sequence[ArmState], outcome: Outcome) -> RewardResult:
        """Reward of the step, whether the task is over (which terminates the episode), and whether it succeeded.

        `arms` are the states that the observation was made from, `outcome` the operator's word since the last step.
        """
        ...
