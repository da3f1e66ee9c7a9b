"""What a console looks at: the actor's desk, the learner's status, the arms, and the list of
episodes on disk.
"""

import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from robot_rl.config import Hardware, Task, driver
from robot_rl.config.run_folder import RunFolder
from robot_rl.console.history import History, Tally, results_of
from robot_rl.controllers.client import ArmClient
from robot_rl.controllers.world import WorldClient
from robot_rl.dataset.counts import EPISODES
from robot_rl.links.address import reachable_here
from robot_rl.links.console_link import (
    NEEDS_HUMAN,
    TELEOP_ADDRESS,
    ConsoleLinkClient,
    Picture,
    Question,
    View,
)
from robot_rl.links.hand_buttons import HAND_CHOICES
from robot_rl.links.status import RunStatus, StatusReader
from robot_rl.machine.small_files import Tail, is_number
from robot_rl.types import ArmState, DeviceError, Fault, LinkError, Use, WorldState

ARM_ANSWERS_S = 0.3
LOOK_AGAIN_S = 2.0  # for somebody who did not answer
AT_ONCE = 1 << 20  # bytes of the table of episodes that a look reads at most
TRACE_S = 60.0
TRACE_EVERY_S = 0.25
FALLS = 0.3  # of the probability of success within a few seconds: worth a look
FALLS_WITHIN_S = 4.0
# of what the critic expected: with a discount of 0.97, success is 23 steps further away
FALLS_TO = 0.5
# of a success, which is worth 1 in nearly all tasks: less than that is expected of anything
LEAST_VALUE = 0.1


@dataclass(frozen=True)
class Sources:
    """Where to look. None: there is none of that."""

    title: str
    hardware: Hardware
    task: Task | None = None
    desk: str | None = None
    learner: str | None = None
    run: Path | None = None

    @property
    def asks_operator(self) -> bool:
        """Whether the operator's word on an episode is the reward."""
        return self.task is not None and bool(
            driver("rewards", self.task.reward.name).needs_operator
        )

    @property
    def hands(self) -> list[str]:
        """The grippers that an operator can move: the task's, or all of a bench without a task."""
        task, there = self.task, [self.hardware.gripper_of(arm) for arm in self.hardware.arms]
        moved = [task is None or task.gripper(i) == "moved" for i in range(len(there))]
        return [hand.name for hand, moves in zip(there, moved, strict=True) if hand and moves]

    @staticmethod
    def of_run(folder: RunFolder) -> "Sources":
        """Everything that a run on this machine publishes."""
        settings = folder.settings
        return Sources(
            f"{folder.path.name}: {settings.task} on {settings.hardware}",
            folder.load_hardware(),
            folder.load_task(),
            settings.desk_address,
            reachable_here(settings.learner_status_address),
            folder.path,
        )

    @staticmethod
    def of_bench(hardware: Hardware) -> "Sources":
        """A bench without a run: its arms, and the desk of `robot-rl teleop`."""
        device = page_device(hardware)
        desk = str(device.options.get("address", TELEOP_ADDRESS)) if device else None
        return Sources(hardware.name, hardware, desk=desk)


def page_device(hardware: Hardware) -> Use | None:
    """The operator's device that is the page's gizmo, if there is one."""
    devices = (hardware.teleop, *hardware.more_teleop)
    return next((each for each in devices if each and each.name == "browser"), None)


@dataclass(frozen=True)
class Trace:
    """The last minute: seconds ago, the episode, what the critic expected, and how probable success
    was (or NaN).
    """

    times: Sequence[float] = ()
    episodes: Sequence[int] = ()
    values: Sequence[float] = ()
    probabilities: Sequence[float] = ()


@dataclass(frozen=True)
class Snapshot:
    """Everything that is to be seen at one moment. `picture`: of the camera whose crop is being
    marked, if one is.

    `problems`: who does not answer, by name. `world`: the truth of a simulation. `left_s`: what is
    left of the episode's time. `question`: the moment that the judge asks about. `results`: what
    the evaluations of a run came to in which nobody acts. `hint`: why a look is worth while.
    """

    view: View | None = None
    arms: Sequence[ArmState | None] = ()
    names: Sequence[str] = ()
    learner: RunStatus | None = None
    history: History = field(default_factory=History)
    problems: dict[str, str] = field(default_factory=dict)
    picture: Picture | None = None
    world: WorldState | None = None
    left_s: float | None = None
    trace: Trace = Trace()
    hint: str = ""
    results: Sequence[str] | None = None
    question: Question | None = None

    @property
    def phase(self) -> str:
        """What the actor is at, "" if none answers."""
        return str(self.view.facts.get("phase", "")) if self.view is not None else ""

    @property
    def is_held(self) -> bool:
        """Whether the operator has hold of the arm."""
        return (
            self.view is not None
            and self.view.step is not None
            and bool(self.view.step.get("held"))
        )

    @property
    def hands(self) -> Sequence[Mapping[str, Any]]:
        """How each hand that the task moves stands, as `env/hands.py` tells it."""
        return self.view.facts.get("hands", ()) if self.view is not None else ()

    @property
    def is_at_rest(self) -> bool:
        """A run in which nobody acts, neither the actor nor an arm."""
        return self.results is not None and all(arm is None for arm in self.arms)

    def named_arms(self) -> list[tuple[str, ArmState]]:
        """The arms that answer, each with what to put before what is said of it: nothing, if there
        is one arm.
        """
        names = (
            [f"{name}: " for name in self.names] if len(self.arms) > 1 else [""] * len(self.arms)
        )
        return [(name, arm) for name, arm in zip(names, self.arms, strict=True) if arm is not None]


class ConsoleModel:
    """Asks everybody, for one thread: `sight = watch.look()` ten times a second. Whoever is silent
    is asked seldom.
    """

    def __init__(self, sources: Sources):
        self.sources = sources
        self._desk = ConsoleLinkClient(sources.desk, timeout_s=0.5) if sources.desk else None
        self._status = StatusReader({"learner": sources.learner} if sources.learner else {})
        self.arm_addresses = [arm.address for arm in sources.hardware.arms]
        self._arms: list[ArmClient | None] = [None for _ in sources.hardware.arms]
        self._world: WorldClient | None = None
        self._again: dict[str, float] = {}
        self._problems: dict[str, str] = {}
        episodes = RunFolder(sources.run).episodes_file if sources.run else None
        self._tail = Tail(episodes, Tally, EPISODES, at_most=AT_ONCE) if episodes else None
        self._history = History()
        self._trace: deque[tuple[float, int, float, float]] = deque(
            maxlen=int(TRACE_S / TRACE_EVERY_S)
        )
        self._question: Question | None = None
        self._results: tuple[str, ...] = ()
        self._results_t = -LOOK_AGAIN_S

    def look(self, marked: str = "") -> Snapshot:
        """What is to be seen now, also the whole picture of the camera whose crop is `marked`, if
        one is.
        """
        view = self._ask("actor", self._desk.look) if self._desk else None
        self._follow(view)
        desk = self._desk if marked else None
        picture = self._ask("actor", partial(desk.picture, marked)) if desk else None
        arms = [
            self._ask(f"arm {arm.name}", partial(self._arm, i))
            for i, arm in enumerate(self.sources.hardware.arms)
        ]
        learner = self._status.latest().get("learner")
        names = [arm.name for arm in self.sources.hardware.arms]
        trace = self._remember(view, learner)
        return Snapshot(
            view,
            arms,
            names,
            learner,
            self._look_back(),
            dict(self._problems),
            picture,
            self._truth(),
            self._left_s(view),
            trace,
            (
                falls(trace)
                if view is not None and view.step is not None and not view.step.get("held")
                else ""
            ),
            self._came_to() if view is None and self.sources.run is not None else None,
            self._asked(view),
        )

    def _asked(self, view: View | None) -> Question | None:
        """The question that is open at the desk; its pictures are asked for once."""
        number = view.facts.get("question", 0) if view is not None else 0
        if not number or self._desk is None:
            self._question = None
        elif self._question is None or self._question.number != number:
            self._question = self._ask("actor", self._desk.question)
        return self._question

    def _truth(self) -> WorldState | None:
        """How a simulated scene is; None where there is none."""
        has_scene = (
            bool(self.arm_addresses)
            and self.sources.task is not None
            and self.sources.task.scene is not None
        )
        if not has_scene or time.monotonic() < self._again.get("", 0.0):
            return None
        try:
            if self._world is None:
                self._world = WorldClient(self.arm_addresses[0], timeout_s=ARM_ANSWERS_S)
            return self._world.refresh()
        except (LinkError, DeviceError):
            self._leave_world()
            self._again[""] = time.monotonic() + LOOK_AGAIN_S
            return None

    def _leave_world(self) -> None:
        if self._world is not None:
            self._world.close()
        self._world = None

    def _left_s(self, view: View | None) -> float | None:
        task = self.sources.task
        if task is None or view is None or view.step is None or view.facts.get("phase") != "acting":
            return None
        return max(0, task.max_steps - int(view.step["index"])) / task.rate_hz

    def _remember(self, view: View | None, learner: RunStatus | None) -> Trace:
        """Now and then what critic and judge say."""
        now, step = time.monotonic(), view.step if view is not None else None
        if step is not None and not (self._trace and now - self._trace[-1][0] < TRACE_EVERY_S):
            is_here = learner is not None and learner.value_episode == step["episode"]
            here = learner.value if learner is not None and is_here else None
            said: tuple[Any, Any] = here, step.get("probability")
            value, probability = (float(x) if is_number(x) else np.nan for x in said)
            self._trace.append((now, step["episode"], value, probability))
        times, *others = zip(*self._trace, strict=True) if self._trace else ((), (), (), ())
        return Trace([t - now for t in times], *others)

    def _came_to(self) -> tuple[str, ...]:
        """What the run's evaluations came to, read anew every two seconds at most."""
        if self.sources.run is not None and time.monotonic() - self._results_t > LOOK_AGAIN_S:
            self._results_t = time.monotonic()
            self._results = tuple(results_of(self.sources.run))
        return self._results

    def _look_back(self) -> History:
        tally = self._tail.read() if self._tail is not None else Tally()
        if tally.progress.episodes != self._history.episodes:
            self._history = tally.history
        return self._history

    def close(self) -> None:
        """Let go of all links."""
        self._leave_world()
        for part in (self._desk, self._status, *self._arms):
            if part is not None:
                part.close()

    def _ask(self, who: str, ask: Any) -> Any:
        if time.monotonic() < self._again.get(who, 0.0):
            return None
        try:
            answer = ask()
            self._problems.pop(who, None)
            return answer
        except (LinkError, DeviceError) as error:
            self._problems[who] = str(error)
            self._again[who] = time.monotonic() + LOOK_AGAIN_S
            return None

    def _follow(self, view: View | None) -> None:
        """An evaluation has arm processes of its own: look at those that the desk names."""
        told = view.facts.get("arms") if view is not None else self.arm_addresses
        addresses = told or [arm.address for arm in self.sources.hardware.arms]
        for i, (arm, address) in enumerate(zip(self.sources.hardware.arms, addresses, strict=True)):
            if address != self.arm_addresses[i]:
                self.arm_addresses[i] = address
                self._again.pop(f"arm {arm.name}", None)
                self._let_go(i)
                self._leave_world()

    def _let_go(self, i: int) -> None:
        if (client := self._arms[i]) is not None:
            client.close()
        self._arms[i] = None

    def _arm(self, i: int) -> ArmState:
        """The state that the arm's process has now; looking moves nothing, not even in lockstep."""
        client = self._arms[i]
        try:
            if client is None:
                client = self._arms[i] = ArmClient(self.arm_addresses[i], timeout_s=ARM_ANSWERS_S)
            return client.refresh()
        except (LinkError, DeviceError):  # gone, or started anew
            self._let_go(i)
            raise


def falls(trace: Trace) -> str:
    """Why a correction may be due, "" if none is: within seconds of this episode success has become
    much less probable, or the critic expects half of what it did."""
    here = [
        i
        for i, (t, episode) in enumerate(zip(trace.times, trace.episodes, strict=True))
        if t > -FALLS_WITHIN_S and episode == trace.episodes[-1]
    ]
    values, probabilities = (
        [x[i] for i in here if x[i] == x[i]] for x in (trace.values, trace.probabilities)
    )
    if probabilities and max(probabilities) - probabilities[-1] >= FALLS:
        return (
            f"success was {max(probabilities):.0%} probable and is {probabilities[-1]:.0%} now:"
            " does it need you?"
        )
    if values and values[-1] <= FALLS_TO * max(values) and max(values) >= LEAST_VALUE:
        return (
            f"the critic expected {max(values):.2f} and expects {values[-1]:.2f} now: does it need"
            " you?"
        )
    return ""


def event_between(before: Snapshot, now: Snapshot) -> str:
    """What has happened that a person should notice, "" if nothing has: fault, person, success,
    failure, takeover.
    """
    faults = [
        sum(arm.fault != Fault.NONE for _, arm in sight.named_arms())
        + sum(bool(hand["reason"]) for hand in sight.hands)
        for sight in (before, now)
    ]
    if faults[1] > faults[0]:
        return "fault"
    if before.view is None or now.view is None:
        return ""
    if now.phase == NEEDS_HUMAN != before.phase:
        return "person"
    then, step = before.view.step, now.view.step
    if then is None or step is None or then == step:
        return ""
    if step["terminated"] and not (then["terminated"] and then["episode"] == step["episode"]):
        return "success" if step["success"] else "failure"
    return "takeover" if now.is_held and not before.is_held else ""


def without_effect(word: str, sight: Snapshot, *, asks_operator: bool) -> str:
    """Why a word that is said now changes nothing, "" if it does, or if nobody knows."""
    phase, view = sight.phase, sight.view
    learns = view is not None and view.step is not None and bool(view.step.get("version"))
    if word in ("success", "failure"):
        if phase == "acting":
            return "" if asks_operator or learns else "this task's reward judges by itself"
        trains = view is not None and view.facts.get("verb") == "train"
        if (
            phase == "review"
            or (phase == NEEDS_HUMAN and word == "success")
            or ((asks_operator or learns) and trains)
        ):
            return ""
        return f"no episode runs now ({phase})" if phase else ""
    if word in HAND_CHOICES:
        if view is not None and "evaluated" in view.facts:
            return "nobody helps in an evaluation"
        return "" if phase in ("", "acting", "waiting") else f"no episode runs now ({phase})"
    verb = view.facts.get("verb", "") if view is not None else ""
    if word == "deny" and verb not in ("", "train"):
        return "only a training learns from it"
    if word == "start" and phase == "acting":
        return "an episode runs already"
    if word == "undo" and verb in ("eval", "run"):
        return "nobody learns from these episodes"
    if (
        word == "undo"
        and not sight.history.episodes
        and "attempts" not in (sight.view.facts if sight.view else {})
    ):
        return "there is no episode before this one"
    return ""
