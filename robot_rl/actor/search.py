"""A policy that stands still searches: it goes a short way, by turns to where it sees the goal and in
a direction drawn at random, and tries again from there.

Standing still is how policies fail. In contact what they see is a little off, the part is pressed
where it does not go in, and the policy is content. What it does from elsewhere is not the same, and
on its way it feels what it does not see. In the air it hangs in front of what it sees, at a place
that nobody has shown, and comes back there from all around: so it is led on, as long as that brings it
anywhere. AutoSERL draws back and replays a demonstration there instead, in training alone. Figures:
docs/algorithms.md.
"""

from collections.abc import Sequence

import numpy as np

from robot_rl.config import Task
from robot_rl.networks.policy import LivePolicy
from robot_rl.networks.policy_spec import PolicySpec
from robot_rl.types import Array, ConfigError, Observation

STILL_S = 2.0  # demonstrations rest for so long in 11 of 7,980 steps; fingers close in 0.7 s
STILL_M, STILL_RAD = 3e-3, 0.1
"""Who keeps within these on each axis stands still, or wobbles on the spot."""
WAY_S, LEAD_S = 0.4, 2.0
"""For so long it goes somewhere, and at most to its goal."""
SALT = 20  # what is drawn here is not what the policy draws
STUCK_S, STUCK_M, STUCK_RAD = 0.4, 1e-3, 0.02
"""Who is led, and keeps within these for so long, does not get there: it is pressed against something."""


class Search:
    """What a policy's actions become where an arm stands still.

    ```
    search = Search(spec, reach=0.5, rate_hz=10.0)
    search.begin_episode(seed)
    action = search.act(observation, policy.act(observation), goal)
    ```
    `reach`: the length of each step of the search, as a share of the action's range; 0: none. An
    action is never larger for it than the policy's own may be, and a hand's choice stays the
    policy's. Everything random comes from the episode's seed. Raises ConfigError where a task does
    not observe where its tools are.

    Of several arms each stands still by itself, and is led by itself. One that waits for another,
    at its goal or without one, is not sent elsewhere before they all stand still.
    """

    def __init__(self, spec: PolicySpec, reach: float, rate_hz: float):
        if reach and not spec.pose_keys:
            raise ConfigError(
                "--actor.search: whether the arm stands still is not known, the task observes no"
                " pose of its tool"
            )
        self._spec, self._reach = spec, reach
        self._arms = [ArmSearch(numbers, reach, rate_hz) for numbers in spec.actions.by_arm]
        self.begin_episode(0)

    def begin_episode(self, seed: int) -> None:
        """Forget the last episode."""
        generator = np.random.default_rng((seed, SALT))
        for arm in self._arms:
            arm.begin_episode(generator)

    def act(self, observation: Observation, action: Array, goal: Array | None = None) -> Array:
        """The policy's `action (A,)`, or a step of the search. `goal (A,)`: the action that would
        bring the tools where the policy sees their goal, were it not too large; None if it sees none.
        """
        if not self._reach:
            return action
        for arm, tool in zip(self._arms, self._spec.tools(observation), strict=True):
            arm.see(tool, None if goal is None else goal[arm.numbers])
        nobody_moves = all(arm.rests for arm in self._arms)
        ways = [arm.way(nobody_moves) for arm in self._arms]
        if all(way is None for way in ways):
            return action
        searched = action.copy()
        for arm, way in zip(self._arms, ways, strict=True):
            if way is not None:
                searched[arm.numbers] = way
        return searched


class ArmSearch:
    """The search of one arm, whose axes are these `numbers` of an action."""

    def __init__(self, numbers: Sequence[int], reach: float, rate_hz: float):
        self.numbers, self._reach = list(numbers), reach
        self._still, self._way, self._lead, self._stuck = (
            max(1, round(s * rate_hz)) for s in (STILL_S, WAY_S, LEAD_S, STUCK_S)
        )

    def begin_episode(self, generator: np.random.Generator) -> None:
        """Forget the last episode; what is drawn comes from here."""
        self._generator = generator
        self._past: list[Array] = []
        self._ahead: Array | None = None
        self._direction = np.zeros(len(self.numbers))
        self._leads = False  # to the goal, in this search or the last one
        self._steps = 0  # of it, still to go

    def see(self, tool: Array, ahead: Array | None) -> None:
        """Where the tool is `(6,)`, and the action that would bring it to its goal."""
        self._past = [*self._past, tool.copy()][-self._still :]
        self._ahead = ahead

    @property
    def rests(self) -> bool:
        """Whether it stands still, or searches since it did."""
        return self._steps > 0 or self._kept_within(STILL_M, STILL_RAD, self._still)

    def way(self, nobody_moves: bool) -> Array | None:
        """A step of the search; None while the policy goes on."""
        is_before_goal = self._ahead is not None and not self._reaches(self._ahead)
        begins = self._is_stuck() if self._steps else self.rests
        if begins and (is_before_goal or nobody_moves):
            self._past = []
            self._leads = is_before_goal and not self._leads
            self._steps = self._lead if self._leads else self._way
            self._direction = self._generator.standard_normal(len(self.numbers))
            self._direction *= self._reach / np.linalg.norm(self._direction)
        if not self._steps:
            return None
        self._steps -= 1
        way = self._direction
        if self._leads and self._ahead is not None:
            way = self._ahead
            if self._reaches(way):
                self._steps = 0
        return way * (self._reach / max(self._reach, float(np.linalg.norm(way))))

    def _reaches(self, way: Array) -> bool:
        return float(np.linalg.norm(way)) <= self._reach

    def _is_stuck(self) -> bool:
        return self._leads and self._kept_within(STUCK_M, STUCK_RAD, self._stuck)

    def _kept_within(self, most_m: float, most_rad: float, steps: int) -> bool:
        if len(self._past) < steps:
            return False
        moved = np.abs(np.stack(self._past[-steps:]) - self._past[-1]).max(0)
        return bool(moved[:3].max() < most_m and moved[3:].max() < most_rad)


class SearchingPolicy:
    """A policy as it acts in a task, sampled or greedily, with its search."""

    def __init__(self, policy: LivePolicy, reach: float, task: Task, *, greedy: bool = False):
        self._policy, self._greedy = policy, greedy
        self._search = Search(policy.spec, reach, task.rate_hz)
        self._scale = task.action_scale

    def begin_episode(self, seed: int) -> None:
        """Forget the last episode; policy and search draw anew."""
        self._policy.begin_episode(seed)
        self._search.begin_episode(seed)

    def act(self, observation: Observation) -> Array:
        """The action `(A,)`."""
        action = self._policy.act(observation, greedy=self._greedy)
        seen = self._policy.goal
        goal = None if seen is None else self._policy.spec.actions.pick(seen / self._scale)
        return self._search.act(observation, action, goal)
