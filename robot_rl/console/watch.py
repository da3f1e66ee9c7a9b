"""What a console looks at: the actor's desk, the learner's status, the arms, and the list of episodes on disk."""

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from robot_rl.config import Hardware
from robot_rl.controllers.client import ArmClient
from robot_rl.data.stats import wilson_interval
from robot_rl.run_folder import RunFolder
from robot_rl.small_files import Tail
from robot_rl.teleop.browser import ADDRESS
from robot_rl.transport.address import reachable_here
from robot_rl.transport.desk import DeskClient, Picture, View
from robot_rl.transport.status import StatusReader
from robot_rl.types import ArmState, DeviceError, LinkError, Use

ARM_ANSWERS_S = 0.3
LOOK_AGAIN_S = 2.0  # for somebody who did not answer
WINDOW = 20  # episodes that the curves are averaged over
POINTS = 4_000  # of a curve at most: more are not to be seen
AT_ONCE = 1 << 20  # bytes of the table of episodes that a look reads at most
EPISODES = ("success", "steps", "human_steps")  # numbers in each of its rows


@dataclass(frozen=True)
class Sources:
    """Where to look. None: there is none of that."""

    title: str
    hardware: Hardware
    scene: Use | None = None
    desk: str | None = None
    learner: str | None = None
    episodes: Path | None = None

    @staticmethod
    def of_run(folder: RunFolder) -> "Sources":
        """Everything that a run on this machine publishes."""
        settings = folder.settings
        return Sources(
            f"{folder.path.name}: {settings.task} on {settings.hardware}",
            folder.load_hardware(),
            folder.load_task().scene,
            settings.desk_address,
            reachable_here(settings.learner_status_address),
            folder.episodes_file,
        )

    @staticmethod
    def of_bench(hardware: Hardware) -> "Sources":
        """A bench without a run: its arms, and the desk of `robot-rl teleop`."""
        device = hardware.teleop
        desk = str(device.options.get("address", ADDRESS)) if device and device.name == "browser" else None
        return Sources(hardware.name, hardware, desk=desk)


@dataclass(frozen=True)
class History:
    """What the episodes of a run came to: the curves are means over the last 20 episodes, at the episodes `numbers`.

    These are all episodes, counted from 1, or of very many some, evenly spread.
    """

    episodes: int = 0
    successes: int = 0
    successes_alone: int = 0
    episodes_alone: int = 0
    numbers: Sequence[int] = ()
    success_curve: Sequence[float] = ()
    operator_curve: Sequence[float] = ()

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval of the success rate of the episodes in which nobody helped."""
        return wilson_interval(self.successes_alone, self.episodes_alone)


@dataclass(frozen=True)
class Sight:
    """Everything that is to be seen at one moment. `picture`: of the camera whose crop is being marked, if one is.

    `problems`: who does not answer, by name.
    """

    view: View | None = None
    arms: Sequence[ArmState | None] = ()
    names: Sequence[str] = ()
    learner: dict[str, Any] = field(default_factory=dict)
    history: History = History()
    problems: dict[str, str] = field(default_factory=dict)
    picture: Picture | None = None

    def named_arms(self) -> list[tuple[str, ArmState]]:
        """The arms that answer, each with what to put before what is said of it: nothing, if there is one arm."""
        names = [f"{name}: " for name in self.names] if len(self.arms) > 1 else [""] * len(self.arms)
        return [(name, arm) for name, arm in zip(names, self.arms, strict=True) if arm is not None]


class Watch:
    """Asks everybody, for one thread: `sight = watch.look()` ten times a second. Whoever is silent is asked seldom."""

    def __init__(self, sources: Sources):
        self.sources = sources
        self._desk = DeskClient(sources.desk, timeout_s=0.5) if sources.desk else None
        self._status = StatusReader({"learner": sources.learner} if sources.learner else {})
        self.arm_addresses = [arm.address for arm in sources.hardware.arms]
        self._arms: list[ArmClient | None] = [None for _ in sources.hardware.arms]
        self._again: dict[str, float] = {}
        self._problems: dict[str, str] = {}
        self._tail = Tail(sources.episodes, Tally, EPISODES, at_most=AT_ONCE) if sources.episodes else None
        self._history = History()

    def look(self, marked: str = "") -> Sight:
        """What is to be seen now, also the whole picture of the camera whose crop is `marked`, if one is."""
        view = self._ask("actor", self._desk.look) if self._desk else None
        self._follow(view)
        picture = self._ask("actor", partial(self._desk.picture, marked)) if self._desk and marked else None
        arms = [self._ask(f"arm {arm.name}", partial(self._arm, i)) for i, arm in enumerate(self.sources.hardware.arms)]
        statuses = self._status.latest()
        learner = dict(statuses["learner"].values) if "learner" in statuses else {}
        names = [arm.name for arm in self.sources.hardware.arms]
        return Sight(view, arms, names, learner, self._look_back(), dict(self._problems), picture)

    def _look_back(self) -> History:
        tally = self._tail.read() if self._tail is not None else Tally()
        if tally.episodes != self._history.episodes:
            self._history = tally.history
        return self._history

    def close(self) -> None:
        """Let go of all links."""
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


class Tally:
    """What the episodes of a run come to, one after the other."""

    def __init__(self) -> None:
        self.episodes = self.successes = self.successes_alone = self.episodes_alone = 0
        self._success = RunningMean()
        self._share = RunningMean()

    def add(self, row: dict[str, Any]) -> None:
        """One more episode: a line of `episodes.jsonl`."""
        success, alone = bool(row["success"]), not row["human_steps"] > 0
        self.episodes += 1
        self.successes += success
        self.episodes_alone += alone
        self.successes_alone += success and alone
        self._success.add(success)
        self._share.add(row["human_steps"] / max(1, row["steps"]))

    @property
    def history(self) -> History:
        """All of it, as it is shown."""
        return History(
            self.episodes,
            self.successes,
            self.successes_alone,
            self.episodes_alone,
            tuple(self._success.numbers),
            tuple(self._success.means),
            tuple(self._share.means),
        )


class RunningMean:
    """The mean over the last `WINDOW` values, at each of them; of very many values at every second, fourth, ..."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.means: list[float] = []
        self._newest: deque[float] = deque(maxlen=WINDOW)
        self._count, self._every = 0, 1

    def add(self, value: float) -> None:
        """One more value."""
        self._newest.append(value)
        self._count += 1
        if self._count % self._every:
            return
        self.numbers.append(self._count)
        self.means.append(sum(self._newest) / len(self._newest))
        if len(self.means) == POINTS:
            self._every *= 2
            self.numbers, self.means = self.numbers[1::2], self.means[1::2]
