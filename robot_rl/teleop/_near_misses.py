"""What a simulated operator shows while outcomes are collected: every other episode a success,
between them failures that look like one.

A classifier learns what it is shown: where failures are nothing but the way to the goal, whatever
the policy finds beside it later is taken for success.
"""

from dataclasses import dataclass

import numpy as np

from robot_rl import geometry
from robot_rl.sim.socket import Socket
from robot_rl.types import Array

PRESS_M = 0.004
"""So far [m] beyond what it touches the operator pushes."""
ARRIVED_M = 0.002
MOST_STEPS, MORE_STEPS = 16, 8
"""So many control steps a near miss may take, the way to it included; the first one of an episode
takes more, and one that is put in."""
HELD = (3, 6)
"""The least and the most steps that it is shown for."""
MISSES_PER_EPISODE = 2
SUCCESSES_PER_WITHDRAWAL = 5
"""Of so many successes one is taken back after `SEATED_STEPS` frames."""
SEATED_STEPS, WITHDRAWAL_STEPS = 8, 6
"""A withdrawal takes at least so many steps, and goes on until success is no longer seen."""
TABLE_M, TABLE_RAD = (0.046, 0.056), 0.2
"""So far [m] beside the goal, along one of its axes or so far [rad] off it, the tool stands on the
table and on no wall of a socket."""
LIFT_M = 0.004
"""So high [m] above the socket the tool is moved aside."""


@dataclass(frozen=True)
class NearMiss:
    """A pose of the tool as seen from the goal `(6,)`, to stay at for some steps; `depth_m`: put in
    so deep and no deeper.
    """

    name: str
    at: Array
    depth_m: float = 0.0
    held: int = 4


class Plan:
    """Which episode shows what, and how far it is. `rng` draws all of it."""

    def __init__(self, socket: Socket, rng: np.random.Generator):
        self._socket, self._rng = socket, rng
        self._episode = -1
        self.begin_episode()

    def begin_episode(self) -> None:
        """The next episode: a success if the last one was none."""
        self._episode += 1
        self._succeeds = self._episode % 2 == 1
        self._withdraws = self._episode // 2 % SUCCESSES_PER_WITHDRAWAL == 1
        self._misses = [] if self._succeeds else self._draw()
        self._seated = self._steps = self._held = 0
        self.is_over = False

    def step(self, offset: Array, success: bool) -> NearMiss | None:
        """What is shown in this step, seen from the goal; None: the success. `offset (6,)` is where
        the tool is.
        """
        if self._succeeds:
            return self._succeed(success)
        self._steps += 1
        miss, most = self._misses[0], MOST_STEPS
        if _is_near(offset, miss.at, ARRIVED_M if miss.depth_m else ARRIVED_M + PRESS_M):
            self._held += 1
        if len(self._misses) == MISSES_PER_EPISODE:
            most += MORE_STEPS
        if miss.depth_m:
            most += MORE_STEPS
        if self._held >= miss.held or self._steps >= most:
            self._steps = self._held = 0
            self.is_over = len(self._misses) == 1
            self._misses = self._misses[1:] or self._misses
        return self._misses[0]

    def is_over_hole(self, offset: Array) -> bool:
        """Whether nothing is in the way to the hole, or the tool is in it."""
        return float(np.linalg.norm(offset[:2])) < ARRIVED_M or self._is_above(offset)

    def _is_above(self, offset: Array) -> bool:
        return bool(offset[2] < -self._socket.depth_m - LIFT_M)

    def waypoint(self, goal: Array, tool: Array, miss: NearMiss) -> Array:
        """The pose `(7,)` to steer to: out of the hole, over the place, then down to it."""
        offset = geometry.pose_delta(goal, tool)
        over = miss.at.copy()
        over[2] = min(miss.at[2], -self._socket.depth_m - 2 * LIFT_M)
        if float(np.linalg.norm(offset[:2] - miss.at[:2])) < ARRIVED_M + 0.001:
            return geometry.pose_move(goal, miss.at)
        if not self._is_above(offset):
            over[:2], over[3:] = offset[:2], 0.0
        return geometry.pose_move(goal, over)

    def _succeed(self, success: bool) -> NearMiss | None:
        """The success, and in some episodes the way out again."""
        self._seated += success
        if not self._withdraws or self._seated < SEATED_STEPS:
            return None
        self._steps += 1
        self.is_over = self._steps >= WITHDRAWAL_STEPS and not success
        out = np.array([0.0, 0.0, -self._socket.depth_m - 0.02, 0.0, 0.0, 0.0])
        return NearMiss("withdrawn", out)

    def _draw(self) -> list[NearMiss]:
        """Beside the socket, and some other kinds, each once, in an order of its own.

        The table is as low as the goal: what a bound on the height cannot tell is in each episode.
        """
        others = (self._rim, self._half_in, self._tilted, self._far, self._above)
        chosen = self._rng.choice(len(others), MISSES_PER_EPISODE - 1, replace=False)
        misses = [self._beside(), *(others[kind]() for kind in chosen)]
        return [misses[i] for i in self._rng.permutation(len(misses))]

    def _rim(self) -> NearMiss:
        return self._pressed("on the rim", self._rng.uniform(0.002, 0.026), self._socket.depth_m)

    def _beside(self) -> NearMiss:
        angle = np.pi / 2 * self._rng.integers(4) + self._rng.uniform(-TABLE_RAD, TABLE_RAD)
        aside_m = self._rng.uniform(*TABLE_M)
        return self._pressed("beside the socket, on the table", aside_m, 0.0, angle=angle)

    def _half_in(self) -> NearMiss:
        depth = self._rng.uniform(0.15, 0.8) * self._socket.depth_m
        at = np.array([0.0, 0.0, depth - self._socket.depth_m, 0.0, 0.0, 0.0])
        return NearMiss("half in", at, depth, self._steps_held())

    def _tilted(self) -> NearMiss:
        tilt = self._turned(self._rng.uniform(0.08, 0.25))
        return self._pressed("tilted", self._rng.uniform(0.0, 0.008), self._socket.depth_m, tilt)

    def _far(self) -> NearMiss:
        return self._pressed("far away", self._rng.uniform(0.03, 0.06), 0.09)

    def _above(self) -> NearMiss:
        height = self._socket.depth_m + PRESS_M + self._rng.uniform(0.001, 0.012)
        return self._pressed("just above", self._rng.uniform(0.0, 0.004), height)

    def _pressed(
        self,
        name: str,
        aside_m: float,
        height_m: float,
        tilt: tuple[float, float] = (0.0, 0.0),
        angle: float | None = None,
    ) -> NearMiss:
        """So far aside, pushed down upon what is `height_m` above the goal."""
        angle = self._rng.uniform(0.0, 2.0 * np.pi) if angle is None else angle
        x, y = aside_m * np.cos(angle), aside_m * np.sin(angle)
        at = np.array([x, y, PRESS_M - height_m, *tilt, self._rng.uniform(-0.15, 0.15)])
        return NearMiss(name, at, held=self._steps_held())

    def _turned(self, by_rad: float) -> tuple[float, float]:
        angle = self._rng.uniform(0.0, 2.0 * np.pi)
        return by_rad * np.cos(angle), by_rad * np.sin(angle)

    def _steps_held(self) -> int:
        return int(self._rng.integers(HELD[0], HELD[1] + 1))


def _is_near(offset: Array, at: Array, high_m: float) -> bool:
    """Whether the tool is there, or as near as what is pressed upon lets it: `high_m` above."""
    aside = float(np.linalg.norm(offset[:2] - at[:2]))
    turned = float(np.abs(offset[3:] - at[3:]).max())
    return aside < ARRIVED_M and abs(offset[2] - at[2]) < high_m and turned < 0.2
