"""The guide: corrections without a person, from one demonstration (AutoSERL, arXiv 2607.01651).

It watches where along the demonstration's way the tool is. Where the tool strays from the way, the
guide leads it back, unless that would be backwards. Where the tool does not get on, it is shown the
demonstration once more: back to a place in free space, and from there to a firm contact, where the
policy goes on, or to the end; a tool that is stopped on that way taps about for the way on. After
some successes in a row without any help there is no more of it, for good. (There after one with less
than ten steps of help: here that ended it long before the policy could do the task.)

The way is seen from the goal, so that it leads there wherever the goal is in this episode: where
the policy sees it, or where it was in the demonstration, if the policy sees none and the
demonstration says where on the bench that was (`state/place`). Nothing here knows the simulator's
truth.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from robot_rl import geometry, interfaces
from robot_rl.config import Task
from robot_rl.operator.mapping import Operator
from robot_rl.types import PLACE, ArmState, Array, ConfigError, OperatorCommand, Step, TeleopEvent

ROTATION_M = 0.05
"""What a radian counts beside the metres of a distance."""
FIRM_N = 3.0
"""A force [N] that is a contact: beyond what a tared sensor shows in free motion."""
SAFE_M = 0.040
"""So far [m] before the first firm contact the tool is in free space, if nobody says where."""
FINAL_M = 0.015
"""The last stretch of the way, along which something goes in [m]."""
THERE_M = 0.002
"""So near a waypoint counts as reached, and a tool as on the way [m]."""
PROGRESS_M = 0.001
"""Nearer to the goal by so much [m], along the way, is getting on."""
BACK_M = 0.005
"""So far back the way is shown from first [m]; the second time in an episode from free space."""
DWELL_M = 0.003
"""Steps of a demonstration that are nearer to one another than this are one place [m]."""
WAYPOINT_STEPS, RETREAT_STEPS = 3, 20
"""Control steps that a waypoint of the way, and the way back to its beginning, may take."""
TAPS, TAP_STEPS = 9, 4
"""How often a tool that is stopped taps, and how many control steps each takes: it lifts in the first
half, and presses in the other."""
LIFT_M, PRESS_M, IN_M = 0.0015, 0.002, 0.001
"""How far from where it was stopped it lifts and presses, and how far it has to get to be in [m]."""
GOLDEN_ANGLE = math.pi * (3.0 - math.sqrt(5.0))


@dataclass(frozen=True)
class GuideOptions:
    """When the arm is led, and where. The corridor is AutoSERL's; episodes here are a third as long
    as there, at 10 Hz, and so is the patience.
    """

    safe_step: int = -1
    """Step of the demonstration at which the tool is in free space: there the arm begins anew. -1:
    40 mm before the first contact of 3 N or more."""
    contact_step: int = -1
    """Step of a firm contact, up to which the way is shown: there the policy goes on. -1: to the end
    of the demonstration."""
    strays_m: float = 0.020
    """So much further beside the way than it has been in this episode, the tool is led back to it
    [m]; a radian counts 50 mm."""
    back_m: float = 0.005
    """So near the way it is let go again [m]."""
    window_steps: int = 5
    """So many places ahead on the way the tool is looked for."""
    patience_steps: int = 10
    """So many control steps without getting on are watched before the way is shown once more."""
    search_m: float = 0.0005
    """A tool that is stopped on the way that it is shown taps around for the way on, the n-th time
    sqrt(n) times so far aside [m]: the goal may be seen wrong, and the demonstration was not exact.
    0: it does not."""
    alone_episodes: int = 5
    """After so many successes in a row without any help there is none any more."""


class Way:
    """The way of a demonstration, seen from its goal: `poses (N, 7)`, without where it dwells, and
    `left (N,)`, how far it is from each to the end [m]. `safe` and `contact` are places on it.
    """

    def __init__(self, demonstration: Sequence[Step], options: GuideOptions):
        """Raises ConfigError for moments that it does not have."""
        shown, last = seen_from_goal(demonstration), len(demonstration) - 1
        safe, contact = moments_of(demonstration, options)
        before, between = moving_on(shown, 0, safe), moving_on(shown, safe, contact)
        self.poses = shown[[*before, *between[1:], *moving_on(shown, contact, last)[1:]]]
        self.safe, self.contact = len(before) - 1, len(before) + len(between) - 2
        ways = [distance(a, b) for a, b in itertools.pairwise(self.poses)]
        self.left = np.cumsum([0.0, *reversed(ways)])[::-1]
        near = [k for k, left in enumerate(self.left) if left >= FINAL_M]
        along = self.poses[-1][:3] - self.poses[near[-1] if near else 0][:3]
        self.along = along / max(float(np.linalg.norm(along)), 1e-9)
        # any two directions across: the rows of the null space
        self.across = np.linalg.svd(self.along[None])[2][1:]

    @property
    def last(self) -> int:
        """The place at the goal."""
        return len(self.poses) - 1

    def nearest(self, pose: Array, first: int, window: int) -> int:
        """The place from `first` on, in the window, that is nearest to the tool's pose `(7,)`."""
        ahead = self.poses[first : first + window + 1]
        return first + int(np.argmin([distance(pose, each) for each in ahead]))

    def before(self, place: int, metres: float) -> int:
        """The place so far before this one [m], but not before free space."""
        far = [k for k in range(place) if self.left[k] >= self.left[place] + metres]
        return max(far[-1] if far else 0, self.safe)

    def leads_back(self, pose: Array, place: int) -> bool:
        """Whether the way from the tool to this place goes on, rather than back: at most 90 degrees
        off the way's own direction there. (Pulled back, an arm would swing.)
        """
        forward = self.poses[min(place + 1, self.last)][:3] - self.poses[place][:3]
        return bool(forward @ (self.poses[place][:3] - pose[:3]) >= 0.0)

    def ahead(self, pose: Array, other: Array) -> float:
        """How far ahead the `other` pose `(7,)` lies, along the last stretch of the way [m]."""
        return float(self.along @ (other[:3] - pose[:3]))


class Show:
    """The way shown once, from a place on it: waypoint after waypoint; a tool that is stopped taps
    around for the way on.

    The taps lie on a sunflower, the n-th `search_m * sqrt(n)` aside. Where one goes in, the rest of
    the way is as far aside. (Pressed along the surface, friction holds it fast.)
    """

    def __init__(self, way: Way, first: int, aside: Array, search_m: float):
        """It begins `aside (3,)` of the way [m], seen from the goal."""
        self._way, self._search_m = way, search_m
        self.step, self.aside = first, aside
        self._spent = 0  # control steps on the way to this one
        self._stopped: Array | None = None  # where it was stopped `(7,)`
        self._tapped = np.zeros(3)
        self._first = first

    def waypoint(self, here: Array) -> Array | None:
        """Where to lead the tool, which is at `here (7,)`; None behind the contact, or where the way
        on was not found.
        """
        way, begins = self._way, self.begins
        patience = RETREAT_STEPS if begins else WAYPOINT_STEPS
        is_there = distance(here, self._target) < THERE_M
        firmly = self.step == way.contact and self._spent < patience
        if (is_there and not firmly) or (begins and self._spent >= patience):
            self.step, self._spent, self._stopped = self.step + 1, 0, None
        if self.step > way.contact:
            return None
        self._spent += 1
        if self._spent <= patience or is_there:
            return self._target
        return self._search(here, self._spent - patience - 1)

    @property
    def begins(self) -> bool:
        """Whether the tool is on its way to where the show begins."""
        return self.step == self._first

    @property
    def searches(self) -> bool:
        """Whether the tool is stopped, and taps."""
        return self._stopped is not None

    @property
    def _target(self) -> Array:
        pose = self._way.poses[min(self.step, self._way.last)].copy()
        pose[:3] += self.aside
        return pose

    def _search(self, here: Array, count: int) -> Array | None:
        """Where to lead a tool that is stopped, in the `count`-th step of the search; None: nowhere
        more.
        """
        way = self._way
        if self._stopped is None:
            self._stopped = here.copy()
        if way.ahead(self._stopped, here) > IN_M:  # it has gone in
            self._spent, self._stopped, self._tapped = 0, None, np.zeros(3)
            return self._target
        number, part = divmod(count, TAP_STEPS)
        if number >= TAPS or not self._search_m:
            return None
        angle = number * GOLDEN_ANGLE
        circle = math.cos(angle) * way.across[0] + math.sin(angle) * way.across[1]
        aside = self._search_m * math.sqrt(number) * circle
        if part == 0:
            self.aside = self.aside + aside - self._tapped
            self._tapped = aside
        target = self._target
        depth = PRESS_M if part >= TAP_STEPS // 2 else -LIFT_M
        target[:3] += (way.ahead(target, self._stopped) + depth) * way.along
        return target


class Guide(interfaces.Teleop):
    """Leads one arm whose gripper does not move. It is no device that a hardware file names: the
    actor makes it (`--actor.guided`), and a person's device wins over it.

    `shows`: what it does now is an answer that is to be imitated, and no search for one.
    """

    name = "the guide"
    is_person = False
    shows = True

    def __init__(
        self,
        options: GuideOptions,
        task: Task,
        demonstration: Sequence[Step],
        goal: Callable[[], Array | None],
    ):
        """`demonstration` has succeeded, and ends there; `goal` says where the goal is now, seen from
        the tool `(6,)` [m, rad], as the policy sees it. Raises ConfigError for moments that the
        demonstration does not have.
        """
        self._options, self._goal = options, goal
        self._way = Way(demonstration, options)
        self._fixed: Array | None = None
        at_goal = demonstration[-1].observation
        if f"state/{PLACE}" in at_goal:
            start = np.array(task.start[0].pose_base_tool)
            self._fixed = geometry.pose_move(start, at_goal[f"state/{PLACE}"].astype(np.float64))
        self._scale = task.action_scale
        self.is_over = False
        self._alone = 0  # successes in a row without any help
        self._aside = np.zeros(3)  # of the way, where it went in the last times
        self.reports = 0
        self._forget()

    def _forget(self) -> None:
        self._matched = self._idle = self._helped = 0
        self._nearest = self._least_left = math.inf  # to the way, and to the goal along it [m]
        self._back_to = -1  # the place on the way that the tool is led back to; -1: it is not
        self._show: Show | None = None
        self._held: Array | None = None  # the goal `(7,)` while a tool that is stopped searches
        self._is_shown = False  # in this episode
        self._retreats = False  # all the way to free space, to begin with

    def begin_episode(self) -> Sequence[OperatorCommand]:
        """Back to the beginning of the way."""
        self._forget()
        return ()

    def end_episode(self, success: bool) -> None:
        """After some successes in a row without any help there is no more."""
        if success and self._show is not None:
            self._end_show(success=True)
        self.count(success, self._helped > 0)

    def count(self, success: bool, helped: bool) -> None:
        """An episode has ended, this one or one before the run was stopped and resumed."""
        self._alone = self._alone + 1 if success and not helped else 0
        self.is_over |= self._alone >= self._options.alone_episodes

    def read(self, arms: Sequence[ArmState]) -> TeleopEvent:
        """Where the tool is on the way, and what there is to correct."""
        (arm,) = arms
        self.reports += 1
        goal = self._goal_base(arm) if self._held is None else self._held
        if self.is_over or goal is None:
            return TeleopEvent(False, np.zeros(6), "tool")
        here = geometry.pose_multiply(geometry.pose_inverse(goal), arm.pose_base_tcp)
        waypoint = self._waypoint(here)
        show = self._show
        self.shows = show is None or not (show.searches or (show.begins and self._retreats))
        # millimetres tell whether a tap went in: not while the goal is seen now here, now there
        self._held = goal if self._show is not None and self._show.searches else None
        if waypoint is None:
            return TeleopEvent(False, np.zeros(6), "tool")
        self._helped += 1
        move = geometry.pose_delta(arm.target_base_tcp, geometry.pose_multiply(goal, waypoint))
        action = move / self._scale
        return TeleopEvent(True, action / max(1.0, float(np.abs(action).max())), "tool")

    def _goal_base(self, arm: ArmState) -> Array | None:
        """The tool's pose `(7,)` in the base when the task is done, if it is known."""
        seen = self._goal()
        if seen is None:
            return self._fixed
        return geometry.pose_move(arm.pose_base_tcp, seen.astype(np.float64))

    def _waypoint(self, here: Array) -> Array | None:
        """Where to lead the tool, which is at `here (7,)`, both seen from the goal; None: the policy
        goes on.
        """
        if self._show is None:
            self._look(here)
        if self._show is not None:
            if (waypoint := self._show.waypoint(here)) is not None:
                return waypoint
            self._end_show(success=self._show.step > self._way.contact)
        return self._way.poses[self._back_to] if self._back_to >= 0 else None

    def _end_show(self, *, success: bool) -> None:
        """The policy goes on. Where the way went in, it does so sooner the next time."""
        assert self._show is not None
        if success:
            self._aside = 0.5 * (self._aside + self._show.aside)
        self._matched = min(self._show.step, self._way.contact)
        self._show, self._idle, self._least_left = None, 0, math.inf

    def _look(self, here: Array) -> None:
        """Where on the way the tool is; begin to lead it back, or to show the way, where it is time."""
        way, options = self._way, self._options
        self._matched = matched = way.nearest(here, self._matched, options.window_steps)
        off = distance(here, way.poses[matched])
        left = off + way.left[matched]
        gets_on = left < self._least_left - PROGRESS_M
        self._idle, self._least_left = (0, left) if gets_on else (self._idle + 1, self._least_left)
        self._nearest = min(off, self._nearest)
        if self._idle > options.patience_steps:
            self._retreats = self._is_shown and matched > way.safe
            first = way.safe if self._is_shown else way.before(matched, BACK_M)
            self._show = Show(way, first, self._aside, options.search_m)
            self._is_shown, self._back_to = True, -1
        elif self._back_to >= 0:
            self._back_to = matched if off >= options.back_m else -1
        elif off > self._nearest + options.strays_m and way.leads_back(here, matched):
            self._back_to = matched

    def close(self) -> None:
        """There is nothing to let go of."""


def moving_on(poses: Array, first: int, last: int) -> list[int]:
    """The steps from `first` to `last` of poses `(T, 7)` by which it gets on. Where a hand dwelt, or
    came back to, its last visit counts: it goes on from there. Shown as it was, hesitation is learnt.
    """
    kept = [last]
    for step in range(last - 1, first, -1):
        near = [distance(poses[step], poses[each]) < DWELL_M for each in kept]
        if any(near):
            del kept[near.index(True) + 1 :]
        else:
            kept.append(step)
    return ([first] if first < last else []) + kept[::-1]


def moments_of(demonstration: Sequence[Step], options: GuideOptions) -> tuple[int, int]:
    """The steps of a demonstration in free space and of a firm contact: as the options say, else as
    they are found. Raises ConfigError for steps that it does not have, and if the first is not
    before the second.
    """
    last = len(demonstration) - 1
    contact = options.contact_step if options.contact_step >= 0 else last
    safe = options.safe_step if options.safe_step >= 0 else _free(demonstration)
    if not safe < contact <= last:
        raise ConfigError(
            f"the guide: safe_step {safe} and contact_step {contact} do not fit a demonstration"
            f" of {last} steps: the first has to be before the second, and that at most {last}"
        )
    return safe, contact


def seen_from_goal(demonstration: Sequence[Step]) -> Array:
    """The tool's poses `(N, 7)` in a demonstration, seen from the last of them."""
    poses = [geometry.pose_from_vector(_state(step, "tcp_pose")) for step in demonstration]
    to_goal = geometry.pose_inverse(poses[-1])
    return np.array([geometry.pose_multiply(to_goal, pose) for pose in poses])


def force_on_tool(step: Step) -> float:
    """How large the force on the tool is in a step of one arm [N]."""
    return float(np.linalg.norm(_state(step, "tcp_wrench")[:3]))


def _free(demonstration: Sequence[Step]) -> int:
    """The last step in free space, before the first contact."""
    shown, last = seen_from_goal(demonstration), len(demonstration) - 1
    forces = [force_on_tool(step) for step in demonstration]
    touches = next((k for k in range(1, last) if forces[k] >= FIRM_N), last)
    away = [k for k in range(touches) if distance(*shown[[k, touches]]) >= SAFE_M]
    return away[-1] if away else 0


class GuideOperator(Operator):
    """The guide in the place of an operator: its motion becomes an action as theirs does."""

    device: Guide


def distance(pose: Array, other: Array) -> float:
    """How far two poses `(7,)` are apart [m]."""
    delta = geometry.pose_delta(pose, other)
    return float(np.linalg.norm(delta[:3]) + ROTATION_M * np.linalg.norm(delta[3:]))


def _state(step: Step, name: str) -> Array:
    return step.observation[f"state/{name}"].astype(np.float64)
