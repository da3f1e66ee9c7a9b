"""A policy that stands still searches: it goes a short way in a direction drawn at random, and tries
again from there.

In contact standing still is how policies fail: what they see is a little off, the part is pressed
where it does not go in, and the policy is content. What it does from elsewhere is not the same, and
on its way it feels what it does not see. AutoSERL draws back and replays a demonstration there
instead, in training alone. Figures: docs/algorithms.md.
"""

import numpy as np

from robot_rl.networks.policy import LivePolicy, PolicySpec
from robot_rl.types import Array, ConfigError, Observation

STILL_S = 1.5  # no step of a demonstration rests for so long; fingers close in 0.7 s
STILL_M, STILL_RAD = 1e-3, 0.02
"""Who keeps within these on each axis stands still."""
WAY_S = 0.4


class Search:
    """What a policy's actions become where it stands still.

    ```
    search = Search(spec, reach=0.5, rate_hz=10.0)
    search.begin_episode(seed)
    action = search.act(observation, policy.act(observation))
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
        self._still, self._way = (max(1, round(s * rate_hz)) for s in (STILL_S, WAY_S))
        self.begin_episode(0)

    def begin_episode(self, seed: int) -> None:
        """Forget the last episode."""
        self._generator = np.random.default_rng((seed, self._still))
        self._past: list[Array] = []
        self._direction = np.zeros(len(self._spec.actions.continuous))
        self._left = 0

    def act(self, observation: Observation, action: Array) -> Array:
        """The policy's `action (A,)`, or a step of the search."""
        if not self._reach:
            return action
        self._past = [*self._past, self._spec.tools(observation).copy()][-self._still :]
        if not self._left and self._stands_still():
            numbers = self._generator.standard_normal(self._direction.shape)
            self._direction = self._reach * numbers / np.linalg.norm(numbers)
            self._left, self._past = self._way, []
        if not self._left:
            return action
        self._left -= 1
        searched = action.copy()
        searched[list(self._spec.actions.continuous)] = self._direction
        return searched

    def _stands_still(self) -> bool:
        if len(self._past) < self._still:
            return False
        moved = np.abs(np.stack(self._past) - self._past[-1]).max((0, 1))
        return bool(moved[:3].max() < STILL_M and moved[3:].max() < STILL_RAD)


class SearchingPolicy:
    """A policy as it acts, sampled or greedily, with its search."""

    def __init__(self, policy: LivePolicy, reach: float, rate_hz: float, *, greedy: bool = False):
        self._policy, self._greedy = policy, greedy
        self._search = Search(policy.spec, reach, rate_hz)

    def begin_episode(self, seed: int) -> None:
        """Forget the last episode; policy and search draw anew."""
        self._policy.begin_episode(seed)
        self._search.begin_episode(seed)

    def act(self, observation: Observation) -> Array:
        """The action `(A,)`."""
        return self._search.act(observation, self._policy.act(observation, greedy=self._greedy))
