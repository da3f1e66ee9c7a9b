"""Does a driver keep the contract of its kind (`interfaces.py`)? `robot-rl check --driver
rewards/mine` asks here.

The tests ask the same of every driver of the package. Nothing is commanded of an arm or a gripper
that is real.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from robot_rl import config, interfaces
from robot_rl.config import ArmConfig
from robot_rl.config.hardware_problems import feel_problems
from robot_rl.config.kinds import (
    KINDS,
    driver,
    line_in,
    make_options,
    options_class,
    short_name,
    texts_of,
)
from robot_rl.interfaces import Given
from robot_rl.machine.validation import dotted, nearest
from robot_rl.tools.findings import Finding
from robot_rl.types import (
    ArmState,
    Array,
    ConfigError,
    Fault,
    OperatorCommand,
    RobotRLError,
    TeleopEvent,
    Use,
)

Looked = Iterator[tuple[str, str]]
"""What was looked at, and what is wrong with it, or ""."""

LEARNT = {"learner/agents": "check_agent", "networks/encoders": "check_encoder"}
"""Kinds that `learner/contracts.py` looks at, by the name of its check."""
SIZE = (48, 64)
STEPS = 20


def parse_driver(what: str) -> tuple[str, str]:
    """Kind and name of `rewards/mine` or `cameras/package.module:Class`. Raises ConfigError for
    another kind.
    """
    short, _, name = what.rpartition("/")
    kinds = {short_name(kind): kind for kind in [*_CHECKS, *LEARNT]}
    kind = kinds.get(short_name(short))
    if kind is None:
        raise ConfigError(
            f"--driver {what!r} is no KIND/NAME as rewards/mine; kinds: {nearest(short, kinds)}"
        )
    return kind, name


def check_driver(kind: str, name: str, options: Mapping[str, Any]) -> list[Finding]:
    """Find the driver, look at its options, build it and use it once. Nothing raises: what is wrong
    is a finding.
    """
    part, done = f"{short_name(kind)}/{name}", list[Finding]()
    if kind in LEARNT:
        from robot_rl.learner import contracts  # loads torch

        wrong = [*getattr(contracts, LEARNT[kind])(name)]
        advice = "docs/algorithms.md and docs/seeing.md say what an algorithm and an encoder offer"
        return [Finding(part, "contract", False, each, advice) for each in wrong] or [
            Finding(part, "contract", True, "as it says")
        ]
    try:
        cls = driver(kind, name)
        path = inspect.getfile(cls)
        done.append(Finding(part, "class", True, f"{cls.__name__} in {path}"))
        done += _check_options(part, options_class(kind, cls))
        built = make_options(kind, Use(name, options))
        try:
            done += _used(part, kind, cls, built)
        except RobotRLError:
            raise
        except Exception as error:
            raise ConfigError(
                f"{path}:{line_in(path, error)}: {type(error).__name__}: {error}"
            ) from error
    except RobotRLError as error:
        done.append(Finding(part, "driver", False, "cannot be used", str(error)))
    return done


def _used(part: str, kind: str, cls: Any, options: Any) -> Iterator[Finding]:
    """What was found while it was open."""
    opened = cls(options, _given(kind, cls))
    try:
        for what, wrong in _CHECKS[kind](opened):
            yield Finding(part, what, not wrong, wrong or "as the contract says", wrong and ADVICE)
    finally:
        if not isinstance(opened, interfaces.Reward | interfaces.Scene):
            opened.close()


ADVICE = "robot_rl/interfaces.py says what each member is for"


def _check_options(part: str, options: type) -> Iterator[Finding]:
    """Each option with its default, and whether it says what it is for."""
    for name, default, text in texts_of(options):
        needed = f"default: {default}" if default else "it must be given"
        advice = "write a text under the field of Options: it is what people read here"
        if text:
            advice = needed
        yield Finding(part, f"option {name}", True, text or "without a text", advice)


def _given(kind: str, cls: Any) -> Given:
    """A bench to try a driver at: the simulated arm at home in the scene of peg_insert."""
    task, arm = config.load_task("peg_insert"), config.load_hardware("sim_panda").arms[0]
    given = Given(
        name="tried", task=task, scene=task.scene, arm=arm, image_size=SIZE, clock="lockstep"
    )
    if kind == "controllers/arms":
        return replace(given, scene=None, arm=_entry(cls, arm))
    if kind in ("sim/scenes", "controllers/grippers") or (kind == "cameras" and not cls.simulated):
        return given
    simulation = driver("controllers/arms", "mujoco")(
        make_options("controllers/arms", Use("mujoco")), given
    )
    world: Any = SimpleNamespace(latest=simulation.world())
    return replace(given, world=world)


def _entry(cls: Any, arm: ArmConfig) -> ArmConfig:
    """An entry of a hardware file for an arm with so many joints."""
    return arm if cls.joints == len(arm.home) else replace(arm, home=(0.0,) * cls.joints)


def _state(pose: Array, t: float = 0.0) -> ArmState:
    """A seven-jointed arm that stands still at a pose."""
    q, none = np.zeros(7), np.zeros(6)
    return ArmState(0, t, q, q, pose, none, none, pose, False, Fault.NONE)


def _shaped(name: str, value: Any, shape: tuple[int, ...]) -> str:
    """What is wrong with an array of finite numbers."""
    if np.shape(value) != shape or not np.isfinite(value).all():
        return f"{name} is {value!r:.80}; wanted finite numbers of the shape {shape}"
    return ""


def _check_arm(arm: interfaces.Arm) -> Looked:
    arm.set_tool(np.array([0.0, 0.0, 0.1, 0.0, 0.0, 0.0, 1.0]))
    n, reading = arm.joints, arm.read()
    wanted: dict[str, tuple[int, ...]] = dict.fromkeys(("q", "dq", "coriolis", "tau"), (n,))
    wanted |= {"pose": (7,), "wrench": (6,)}
    wanted |= {"jacobian": (6, n)} if reading.twist is None else {"twist": (6,)}
    for name, shape in wanted.items():
        yield f"reading.{name}", _shaped(name, getattr(reading, name), shape)
    yield (
        "buffers",
        "" if arm.read() is reading else "`read` returned another reading: the same one is wanted",
    )
    if arm.simulated:
        arm.write(np.zeros(n)) if arm.mode == "torque" else arm.follow(reading.pose)
        arm.reset(1)
        first = arm.world().q.copy()
        arm.reset(1)
        yield "reset", "" if np.array_equal(first, arm.world().q) else "one seed gave two worlds"


def _check_gripper(gripper: interfaces.Gripper) -> Looked:
    reading = gripper.read()
    yield (
        "reading",
        _shaped("width and largest width [m]", [reading.width_m, reading.max_width_m], (2,)),
    )


def _check_camera(camera: interfaces.Camera) -> Looked:
    first = camera.read()
    yield "frame", frame_problem(first, SIZE)
    kept = first.copy()
    camera.read()
    yield (
        "memory",
        ""
        if np.array_equal(first, kept)
        else "a frame changed when the next was read: return a copy",
    )
    camera.close()


def frame_problem(frame: Any, size: tuple[int, int] | None) -> str:
    """What is wrong with a camera's frame of this height and width; None: of any."""
    shape = getattr(frame, "shape", None)
    wanted = (*(size or (shape or (0, 0))[:2]), 3)
    if shape != wanted or frame.dtype != np.uint8:
        return f"`read` returned {type(frame).__name__} {shape}; wanted uint8 RGB {wanted}"
    return ""


def _check_teleop(device: interfaces.Teleop) -> Looked:
    yield "feel", "; ".join(dotted(place) + text for place, text in feel_problems(device.feel))
    for words in (device.begin_episode(), device.take_words()):
        yield (
            "words",
            ""
            if all(isinstance(word, OperatorCommand) for word in words)
            else f"{words!r}: wanted `OperatorCommand`s",
        )
    said = device.read([_state(np.array([0.5, 0.0, 0.1, 1.0, 0.0, 0.0, 0.0]))])
    for event in [said] if isinstance(said, TeleopEvent) else said.values():
        wrong, twist = _shaped("twist", event.twist, (6,)), event.twist
        yield (
            "deflection",
            wrong or ("" if np.abs(twist).max() <= 1.0 else f"twist {twist}: wanted -1 to 1"),
        )


def _check_reward(reward: interfaces.Reward) -> Looked:
    flags = isinstance(reward.needs_operator, bool)
    yield "needs_operator", "" if flags else f"is {reward.needs_operator!r}; wanted True or False"
    episodes = [list(_judged(reward)) for _ in range(2)]
    wrong = [each for each in episodes[0] if not _is_result(each)]
    wanted = "wanted three values: the reward, whether the task is over, whether it succeeded"
    yield "judge", f"returned {wrong[0]!r}; {wanted}" if wrong else ""
    same = episodes[0] == episodes[1]
    yield (
        "begin_episode",
        "" if same else "an episode was judged otherwise after another one: forget that one",
    )


BOOLS = (bool, np.bool_)


def _is_result(said: Any) -> bool:
    """Whether it is what `judge` is to return."""
    return (
        isinstance(said, tuple)
        and len(said) == 3
        and isinstance(said[0], float | int)
        and all(type(each) in BOOLS for each in said[1:])
    )


def _judged(reward: interfaces.Reward) -> Iterator[Any]:
    """What it says of an episode that rises from the table, up to its end."""
    reward.begin_episode()
    for step in range(STEPS):
        pose = np.array([0.5, 0.0, 0.05 * step, 1.0, 0.0, 0.0, 0.0])
        yield (
            said := reward.judge(
                {"state/tcp_pose": pose[:6]}, [_state(pose, 0.1 * step)], OperatorCommand.NONE
            )
        )
        if not _is_result(said) or said[1]:
            return


def _check_scene(scene: interfaces.Scene) -> Looked:
    from robot_rl.sim.phases import Phases  # loads MuJoCo
    from robot_rl.sim.stage import tried

    (placed, goal, success), (again, _, _) = tried(scene, 3), tried(scene, 3)
    yield "place", "" if np.array_equal(placed, again) else "one seed placed things in two ways"
    yield "goal_base_tool", _shaped("the pose", goal, (7,)) or _says_nothing(scene, placed, goal)
    yield "success", "" if type(success) in BOOLS else f"is {success!r}; wanted True or False"
    if type(scene).phases is not interfaces.Scene.phases:
        Phases(scene)
        yield "phases", ""


def _says_nothing(scene: interfaces.Scene, placed: Array, goal: Array) -> str:
    """What is wrong with a goal that says nothing of what the hand is to fetch."""
    from robot_rl.sim.stage import tried

    if not scene.fingers or len(scene.stands) > 1:
        return ""
    elsewhere, other, _ = tried(scene, 4)
    if np.array_equal(placed, elsewhere) or not np.array_equal(goal, other):
        return ""
    return (
        "is the same wherever a seed lays things, and with `--obs state` a policy sees nothing else"
        " of the scene: let it be where the hand takes hold until it holds it, then where that goes"
    )


_CHECKS: dict[str, Callable[[Any], Looked]] = {
    "cameras": _check_camera,
    "controllers/arms": _check_arm,
    "controllers/grippers": _check_gripper,
    "rewards": _check_reward,
    "sim/scenes": _check_scene,
    "teleop": _check_teleop,
}
assert _CHECKS.keys() <= KINDS.keys(), "each is a kind"
