"""A policy that stands still searches: it goes a short way, by turns to where it sees the goal and in
a direction drawn at random, and tries again from there.

Standing still is how policies fail. In contact what they see is a little off, the part is pressed
where it does not go in, and the policy is content. What it does from elsewhere is not the same, and
on its way it feels what it does not see. In the air it hangs in front of what it sees, at a place
that nobody has shown, and comes back there from all around: so it is led on, as long as that brings it
anywhere. AutoSERL draws back and replays a demonstration there instead, in training alone. Figures:
docs/algorithms.md.
"""

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
STUCK_S, STUCK_M, STUCK_RAD = 0.4, 1e-3, 0.02
"""Who is led, and keeps within these for so long, does not get there: it is pressed against something."""


class Search:
    """What a policy's actions become where it stands still.

    ```
    search = Search(spec, reach=0.5, rate_hz=10.0)
    search.begin_episode(seed)
    action = search.act(observation, policy.act(observation), goal)
    ```
    `reach`: the length of each step of the search, as a share of the action's range; 0: none. An
    action is never larger for it than the policy's own may be, and a hand's choice stays the
    policy's. Everything random comes from the episode's seed. Raises ConfigError where a task does
    not observe where its tools are.
    """

    def __init__(self, spec: PolicySpec, reach: float, rate_hz: float):
        if reach and not spec.pose_keys:
            raise ConfigError(
                "--actor.search: whether the arm stands still is not known, the task observes no"
                " pose of its tool"
            )
        self._spec, self._reach = spec, reach
        self._still, self._way, self._lead, self._stuck = (
            max(1, round(s * rate_hz)) for s in (STILL_S, WAY_S, LEAD_S, STUCK_S)
        )
        self.begin_episode(0)

    def begin_episode(self, seed: int) -> None:
        """Forget the last episode."""
        self._generator = np.random.default_rng((seed, self._still))
        self._past: list[Array] = []
        self._direction = np.zeros(len(self._spec.actions.continuous))
        self._leads = False  # to the goal, in this search or the last one
        self._steps = 0  # of it, still to go

    def act(self, observation: Observation, action: Array, goal: Array | None = None) -> Array:
        """The policy's `action (A,)`, or a step of the search. `goal (A,)`: the action that would
        bring the tools where the policy sees their goal, were it not too large; None if it sees none.
        """
        if not self._reach:
            return action
        self._past = [*self._past, self._spec.tools(observation).copy()][-self._still :]
        numbers = list(self._spec.actions.continuous)
        ahead = None if goal is None else goal[numbers]
        begins = self._is_stuck() if self._steps else self._stands_still()
        if begins:
            self._past = []
            self._leads = not (self._leads or ahead is None or self._reaches(ahead))
            self._steps = self._lead if self._leads else self._way
            self._direction = self._generator.standard_normal(len(numbers))
            self._direction *= self._reach / np.linalg.norm(self._direction)
        if not self._steps:
            return action
        self._steps -= 1
        way = self._direction
        if self._leads and ahead is not None:
            way = ahead
            if self._reaches(ahead):
                self._steps = 0
        searched = action.copy()
        searched[numbers] = way * (self._reach / max(self._reach, float(np.linalg.norm(way))))
        return searched

    def _reaches(self, way: Array) -> bool:
        return float(np.linalg.norm(way)) <= self._reach

    def _stands_still(self) -> bool:
        return self._kept_within(STILL_M, STILL_RAD, self._still)

    def _is_stuck(self) -> bool:
        return self._leads and self._kept_within(STUCK_M, STUCK_RAD, self._stuck)

    def _kept_within(self, most_m: float, most_rad: float, steps: int) -> bool:
        if len(self._past) < steps:
            return False
        moved = np.abs(np.stack(self._past[-steps:]) - self._past[-1]).max((0, 1))
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
