"""What a file must offer to be an arm, a camera, a gripper, a teleop device, a reward, a scene or
an agent.

A folder is a kind, a file is which. Each file holds one class named like its kind (`Arm`, `Camera`,
`Gripper`, `Teleop`, `Reward`, `Scene`), built as `Driver(options, given)`: its options are what the
dataclass `Options` beside it makes of a hardware or task file, `given` is a `Given`. What is
abstract here a class has to offer; everything else has a default, which `kinds.driver` adds to a
class that does not derive from it.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from robot_rl.types import (
    ArmFacts,
    ArmState,
    Array,
    Compliance,
    FoundCamera,
    GripperReading,
    JudgeInputs,
    Load,
    Observation,
    OperatorCommand,
    RewardResult,
    TeleopEvent,
    TeleopMapping,
    Use,
    WorldState,
)

if TYPE_CHECKING:
    from robot_rl.types.files import ArmConfig, Task


@dataclass(frozen=True)
class NoOptions:
    """The options of a driver that has none."""


@dataclass(frozen=True)
class Given:
    """What the program hands to a driver beside its options; a kind that has no use for something
    gets the default.
    """

    name: str = ""
    """Name of the device in the hardware file, for messages."""
    arm: "ArmConfig | None" = None
    """Arms: the entry of the hardware file, with home, tool and limits."""
    arms: tuple[str, ...] = ()
    """Teleop: the names of the bench's arms, in the order of the hardware file."""
    clock: Literal["real", "lockstep"] = "real"
    """Arms: the clock of the run; simulated time stands still between targets in lockstep."""
    scene: Use | None = None
    """Arms and cameras that are simulated: the scene of the task; None: an empty table."""
    world: "World | None" = None
    """Cameras, teleop, rewards: the simulated world; None where the arm is real."""
    image_size: tuple[int, int] | None = None
    """Cameras: height and width of the frames that are wanted; None: as they come."""
    task: "Task | None" = None
    """Teleop and rewards: the task, if there is one."""
    mode: Literal["demonstrate", "correct", "collect"] = "correct"
    """Teleop: what the operator is there for; "collect": to show a classifier successes and
    failures."""
    seed: int = 0
    """Teleop: of whatever a simulated operator draws."""
    desk: Any = None
    """Teleop: the link to the console's page (`links/console_link.py`), if one is open."""


class Driver(ABC):
    """What all kinds have in common: how one is built."""

    def __init__(self, options: Any, given: Given) -> None:
        """A driver that opens nothing and keeps nothing needs no constructor of its own."""


class ArmReading:
    """What an arm driver measures each tick, in buffers that are written in place (1 kHz: no
    allocation).

    `q, dq, coriolis (n,)`; `pose (7,)` of the TCP in the base; `jacobian (6, n)` of the TCP in base
    axes; `wrench (6,)` from the world on the tool, base axes, at the TCP. Gravity is compensated
    below the driver. `tau (n,)` are the torques [Nm] that were in force when the arm was opened or
    recovered: the first command starts from them. `twist (6,)` is None unless the driver measures
    it itself, for want of a Jacobian; `mass (n, n)` [kg m^2] is the inertia of the joints, None
    unless the driver knows it: with it a hold stops the arm quicker.
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


class Arm(Driver):
    """An arm, owned and called by `controllers/loop.py` alone. By `mode` it takes joint torques:

    ```
    while running:                      # 1 kHz, or every `tick_s`
        reading = arm.read()
        arm.write(torque_law(reading))  # [Nm], without gravity
    ```

    or poses, for an arm with a controller of its own (UR, xArm, franky); command timeout, limits
    and faults stand above that, what is pressed with is the arm's own matter:

    ```
    while running:                      # every `tick_s`
        # `jacobian` of the TCP in base axes, or `twist (6,)` if there is none
        reading = arm.read()
        # in the workspace, at most the reference speed away from the last one
        arm.follow(next_reference)
    ```
    """

    joints: int

    mode: Literal["torque", "pose"] = "torque"
    """What it takes: joint torques (`write`) or poses (`follow`)."""
    tick_s: float = 0.001
    """The period of its control [s]."""
    paced: bool = False
    """Whether `read` waits for the arm's own next cycle (Franka), so that nobody else keeps time."""
    simulated: bool = False
    """Whether there is a world around it: then it has `world` and `reset`, and can run in lockstep."""
    facts: ArmFacts | None = None
    """What its maker says of it. A hardware file beyond that is refused; with its kinematics the
    links are guarded, and joint moves are looked through before they begin."""
    fingers: Any = None
    """Simulated: the `sim/hand.py: Hand` whose fingers move in its world, if they do."""
    one_world: bool = False
    """Simulated: whether a file's arms of this driver stand in one world, opened by `together`."""
    lost_cycles: int = 0
    """How many cycles of its own went by without a command."""
    success_rate: float | None = None
    """The share of our commands that the robot says it has got lately; NaN if it cannot say now,
    None if never.
    """

    @abstractmethod
    def set_tool(self, pose_flange_tool: Array) -> None:
        """Move the controlled point to `pose_flange_tool (7,)`, for all that is measured there."""

    @abstractmethod
    def read(self) -> ArmReading:
        """Measure. The same buffers are returned each time.

        Called again before the next `write`, it measures the same cycle again (with the tool as it
        is now) and waits for nothing. Raises DeviceError if the arm is gone; ArmDriverError with
        the kind of the fault if it has stopped (REFLEX, COMMUNICATION, USER_STOP), the message in
        the robot's own words. Both may come from `write` as well.
        """

    @abstractmethod
    def close(self) -> None:
        """Let go of the arm, which is then held by its own controller or brakes."""

    def write(self, tau: Array) -> None:
        """Mode "torque": send joint torques `(n,)` [Nm]. A simulated arm's world goes on by a tick."""
        raise NotImplementedError("an arm of mode 'torque' has `write`")

    def follow(self, pose_base_tcp: Array) -> None:
        """Mode "pose": go to the TCP's pose `(7,)`, near the last one: the next comes in `tick_s`."""
        raise NotImplementedError("an arm of mode 'pose' has `follow`")

    def set_load(self, load: Load) -> None:
        """The load of the hardware file, once, before anything moves, if the arm has to know it."""

    def set_compliance(self, compliance: Compliance) -> None:
        """Be as stiff as the task wants it. Raises ConfigError for what this arm cannot be."""

    def recover(self) -> None:
        """Somebody has acknowledged a fault of the arm's own: make it ready again. Raises
        DeviceError if it is not to be had, and the fault stays."""

    def rest(self) -> None:
        """Only readings follow: end torque control until the next `write`."""

    def journal(self) -> dict[str, Any]:
        """What the robot itself recorded of its last moments, for the black box: plain JSON data."""
        return {}

    def examine(self) -> Iterable[tuple[str, bool, str, str]]:
        """What the robot's own settings say against the hardware file, for `robot-rl check`: each
        is (what was tried, whether it is right, what was found, what to do)."""
        return ()

    def world(self) -> WorldState:
        """Simulated: the truth, now."""
        raise NotImplementedError("a simulated arm has `world`")

    def reset(self, seed: int) -> None:
        """Simulated: put the arm at its home posture and the objects where the seed says."""
        raise NotImplementedError("a simulated arm has `reset`")


class World(Protocol):
    """The simulator's truth as the actor sees it (`controllers/world.py`): asked once per step,
    then read by any thread.
    """

    latest: WorldState

    def refresh(self) -> WorldState:
        """Ask the simulation for its state now and keep it as `latest`."""
        ...

    def reset(self, seed: int) -> WorldState:
        """Reset the scene; the arm is at its home posture afterwards."""
        ...


class Gripper(Driver):
    """A gripper. Each call blocks until the fingers are through, so that `controllers/gripper.py`
    gives it a process.

    Any call raises DeviceError if the hand is gone or cannot.
    """

    simulated: bool = False
    """Whether its fingers are those of a simulated arm's world, where these move."""

    @abstractmethod
    def read(self) -> GripperReading:
        """Measure."""

    @abstractmethod
    def home(self) -> None:
        """Find out the largest width; nothing may be between the fingers."""

    @abstractmethod
    def move(self, width_m: float, speed: float) -> bool:
        """Go to a width [m] at a speed [m/s]; whether it got there."""

    @abstractmethod
    def grasp(self, width_m: float, speed: float, force_n: float, tolerance_m: float) -> bool:
        """Close with a force [N] upon something `width_m` wide, give or take `tolerance_m`; whether
        it is held.
        """

    @abstractmethod
    def stop(self) -> None:
        """Stand still."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the hand, not of what it holds."""


class Camera(Driver):
    """A camera. The newest frame, never an old one: `env/robot.py` calls `read` once per step. Its
    constructor raises DeviceError if there is no such camera, ConfigError if its options do not
    fit. `cameras/_live.py: LiveCamera` around a device grabs in the background, and comes back when
    it is lost; `robot-rl cameras` measures its rate and the age of its frames.
    """

    simulated: bool = False
    """Whether it draws a simulated world, so that it needs one to be opened."""
    taken_t: float | None = None
    """When the frame of the last `read` was taken, in `time.monotonic`'s seconds; None: just now."""
    whole: Array | None = None
    """The newest picture before crop and resizing, `(H, W, 3)` uint8 RGB, for the console."""

    @abstractmethod
    def read(self) -> Array:
        """The newest frame, `(H, W, 3)` uint8 RGB of `given.image_size`; CameraStaleError: too old."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the camera; twice is once."""

    @classmethod
    def found(cls) -> Sequence[FoundCamera]:
        """The cameras of this driver that are plugged in, for `robot-rl cameras`."""
        return ()

    @classmethod
    def problem(cls) -> str:
        """Why this machine cannot run the driver, with what to do; "": it can."""
        return ""


class Teleop(Driver):
    """An operator's device. `operator/mapping.py` turns what it says into actions and is the only
    caller:

    ```
    earlier = device.begin_episode()    # what was said since the episode before
    while not done:
        said = device.read(arms)        # how far it is deflected, clutch, buttons
    ```
    The constructor raises DeviceError if the device is absent, busy or not permitted; a device that
    goes while it is in use is opened again in the background, and the readings say so meanwhile.
    """

    name: str = "a device without a name"
    """What was found: model, where it is connected."""
    controls: Mapping[str, str] = {}
    """What each button or key does, by its name on the device."""
    held: Collection[str] = ()
    """Which of the controls are down now."""
    reports: int = 0
    """How many reports or events it has sent."""
    feel: TeleopMapping = TeleopMapping()
    """How it feels unless the hardware file says otherwise; the fields of `TeleopMapping` are
    options of every device.
    """
    is_person: bool = True
    """Whether somebody holds the device; a simulated operator is a program."""
    all_arms: bool = False
    """Whether it drives every arm of the bench, instead of one."""

    def begin_episode(self) -> Sequence[OperatorCommand]:
        """A new episode starts; forget the last one. Returns the words that were said and not read."""
        return self.take_words()

    def end_episode(self, success: bool) -> None:
        """The episode is over, and this is what the judge has said of it."""

    def take_words(self) -> Sequence[OperatorCommand]:
        """Between two episodes, as often as one likes: the words that were said and not read."""
        return ()

    @abstractmethod
    def read(self, arms: Sequence[ArmState]) -> TeleopEvent | Mapping[str, TeleopEvent]:
        """What the device says now, looking at the arm that it drives as it is: one that drives
        `all_arms` says it to each by the arm's name. Never blocks."""

    def close(self) -> None:
        """Let go of the device."""


class Reward(Driver):
    """Decides success. `env/robot.py` calls it once per step, after the observation:

    ```
    reward.begin_episode()
    while not done:
        value, done, success = reward.judge(observation, arms, outcome)
    ```
    """

    needs_operator: bool = False
    """Whether it cannot judge without the operator's word: evaluations open a device then."""
    probability: float | None = None
    """Of success, in the observation judged last, for the console; None: it knows yes and no."""
    doubtful: bool = False
    """Whether it cannot tell what the observation that was judged last shows. For the console."""
    strangeness: float | None = None
    """How far what it saw in this episode lies from what it learnt from; None if it cannot tell."""
    version: int = 0
    """Which version of a learned judge this is; 0: it has none."""

    @classmethod
    def inputs(cls, options: Any, task: "Task") -> JudgeInputs:
        """What it looks at beside what the policy sees: it stands under `judge/...` in the
        observation, or under `image/NAME` where the policy sees that camera at the same size.
        """
        return JudgeInputs()

    def load(self, version: int) -> None:
        """Between two episodes: go on with that version of what was learnt."""

    def begin_episode(self) -> None:
        """A new episode starts: forget the last one, however it ended."""

    @abstractmethod
    def judge(
        self, observation: Observation, arms: Sequence[ArmState], outcome: OperatorCommand
    ) -> RewardResult:
        """Reward of the step, whether the task is over (which terminates the episode), and whether
        it succeeded.

        `arms` are the states that the observation was made from, `outcome` the operator's word
        since the last step.
        """


class Scene(Driver):
    """What a simulated arm stands in, added to a MuJoCo model that holds the arm (docs/scenes.md)."""

    way_back: Any = None
    """`goal_base_tool`, `success` and `phases` of `Task.backward`, if the scene has such a way."""
    looks: Any = None
    """`sim/looks.py: Looks`: how light, cameras and colours differ between episodes, if they do."""
    fingers: bool = False
    """Whether the hand's fingers move, and grip by friction alone; else the tool is part of it."""
    stands: Sequence[Sequence[float]] = ((0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0),)
    """The pose `(7,)` of each arm's base in the first one's, which is the scene's."""

    @abstractmethod
    def add_to(self, spec: Any, hand: Any) -> None:
        """Add table, light, objects, cameras to the `MjSpec`, the tool to body `hand` (or to several)."""

    def place(self, model: Any, data: Any, seed: int) -> None:
        """A reset has put everything where `add_to` did, at rest: move what the seed is to move."""

    @abstractmethod
    def goal_base_tool(self, data: Any, pose_flange_tool: Array) -> Array:
        """Pose `(7,)` of the tool when the task is done; as long as something has to be fetched, there."""

    @abstractmethod
    def success(self, data: Any) -> bool:
        """Whether the task is done now."""

    def phases(self, data: Any) -> Sequence[Any]:
        """The way to success as `sim/phases.py: Phase`, as things stand now: always as many."""
        return ()
