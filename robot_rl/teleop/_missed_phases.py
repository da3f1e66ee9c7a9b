"""Near misses of a way that a scene says as phases: what a judge has to tell from success."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from robot_rl import geometry
from robot_rl.sim.phases import Phase, after_done, before, is_order, is_there
from robot_rl.types import Array

PER_EPISODE = 2
MOST_STEPS = 40
"""So many control steps a near miss may take, once the phases before it are through."""
HELD = (3, 6)
"""The least and the most steps that it is shown for, beside those of its phase."""
EARLY = (0.1, 0.85)
"""After such a share of its way a phase ends; the last one always does, or it would be a success. What
is nearly one is what a judge has to tell from it."""
ASIDE, HIGH_M = (4.0, 12.0), (0.004, 0.02)
"""So far aside, in tolerances of the phase, and so high [m] a near miss is."""
MOST_BESIDE = 4.0
"""Or so many times as far as is just beside it."""
ALL_THE_WAY, HURRIED = 0.4, 0.5
"""Where a whole way may miss: the share of the episodes in which it does, and of those the share that
cuts the way short, from some of its first phase to the last two."""
SHORT = 0.2
"""It goes down beside the way once no more than this share of that is left to go aside."""


@dataclass(frozen=True)
class NearMiss:
    """A phase that ends after a `share` of its way, or elsewhere: `aside (6,)`, seen from its pose.
    One that is `all_beside` is aside from the phase before it on; one that `cuts_to` a later phase
    leaves out what lies between.
    """

    phase: int
    share: float
    aside: Array
    held: int
    all_beside: bool = False
    cuts_to: int | None = None


class Missed(NamedTuple):
    """A phase as a near miss has it, and the number of the one with which the way goes on."""

    phase: Phase
    goes_on: int


class Misses:
    """The near misses of an episode, drawn at its first step, and shown one after the other.

    ```
    misses = Misses(np.random.default_rng(0), free)
    misses.begin_episode()
    while not misses.are_over:
        missed = misses.step(phases, index, tools, goal)   # None: no turn of one yet
    ```
    `free (6,)` are the axes that the task frees, 1 or 0. Where the last phase lets go there is always
    one of it.
    """

    def __init__(self, rng: np.random.Generator, free: Array):
        self._rng, self._free = rng, free
        self.begin_episode()

    def begin_episode(self) -> None:
        """Nothing has been drawn."""
        self.planned: list[NearMiss] | None = None
        self._steps = 0  # of the one that is shown
        self._let_go = False  # of what it holds, in that one
        self._to_last = np.zeros(6)  # from its phase to the one before, as it began
        self._begun: Sequence[Array] = ()  # where the tools were

    @property
    def are_over(self) -> bool:
        """Whether all of them have been shown."""
        return self.planned is not None and not self.planned

    def step(
        self, phases: Sequence[Phase], index: int, tools: Sequence[Array], goal: Array
    ) -> Missed | None:
        """The near miss whose turn it is, once the phases before it are through. `index` is the phase
        that the arms are in, `tools (arms, 7)` and `goal (7,)` are poses in their bases.
        """
        self._begun = self._begun or tools
        if self.planned is None:
            self.planned = self.draw(phases)
        if not self.planned:
            return None
        miss, missed = self.planned[0], None
        if self._steps or index >= miss.phase - miss.all_beside:
            self._steps += 1
            phase, arrived = self._missed(phases, miss, tools, goal)
            missed = Missed(phase, miss.phase)
            miss = self.planned[0] = replace(miss, held=miss.held - arrived)
        if missed and (miss.held <= 0 or self._steps >= MOST_STEPS):
            self.planned.pop(0)
            self._steps, self._let_go = 0, False
            if miss.cuts_to is not None:
                missed = missed._replace(goes_on=after_done(phases, miss.cuts_to))
        return missed

    def _missed(
        self, phases: Sequence[Phase], miss: NearMiss, tools: Sequence[Array], goal: Array
    ) -> tuple[Phase, bool]:
        """The phase as the near miss has it, and whether the tool is there; what the hand holds it
        does not let go before.
        """
        phase = phases[miss.phase]
        last = before(phases, miss.phase) or replace(phase, pose=self._begun[phase.arm])
        if miss.phase == len(phases) - 1:
            if _lets_go(phases):
                phase = replace(phase, near_m=_near_m(phases))
            elif not phase.arm:  # it may press beyond the goal, a near miss must not
                phase = replace(phase, pose=goal)
        if self._steps == 1:  # what comes before may follow what moves, as a drawer's handle
            self._to_last = geometry.pose_delta(phase.pose, last.pose)
        pose = geometry.pose_move(phase.pose, (1.0 - miss.share) * self._to_last)
        phase = replace(phase, pose=geometry.pose_move(pose, miss.aside))
        tool = tools[phase.arm]
        if miss.all_beside and _is_short_of(miss.aside, phase.pose, tool):
            return replace(last, pose=geometry.pose_move(last.pose, miss.aside)), False
        arrived = is_there(replace(phase, near_m=2.0 * phase.near_m), tool, self._free)
        if phase.gripper > 0 > last.gripper:  # once let go of, it is not taken again
            arrived = self._let_go = self._let_go or arrived
            phase = phase if arrived else replace(phase, gripper=last.gripper)
        return phase, arrived

    def draw(self, phases: Sequence[Phase]) -> list[NearMiss]:
        """Some near misses, in the order of their phases: ended too early, aside, too high."""
        rng, misses = self._rng, []
        if phases[-1].beside_m and rng.random() < ALL_THE_WAY:
            return self._all_the_way(phases)
        later = [i for i in range(len(phases)) if before(phases, i) is not None]
        numbers = [later[i] for i in sorted(rng.integers(0, len(later), PER_EPISODE))]
        for number in dict.fromkeys([*numbers, later[-1]]) if _lets_go(phases) else numbers:
            kind, aside, last = int(rng.integers(3)), np.zeros(6), number == len(phases) - 1
            near_m = phases[number].near_m
            if last and _lets_go(phases):  # early, or from a little higher, it comes to the same
                kind, near_m = 1, _near_m(phases)
            share = rng.uniform(*EARLY) if last or kind == 0 else 1.0
            if kind == 1:
                aside[:2] = self._round_about(rng.uniform(*ASIDE) * near_m)
            elif kind == 2:
                aside[2] = -rng.uniform(*HIGH_M)
            misses.append(NearMiss(number, share, aside, self._held(phases[number])))
        return misses

    def _all_the_way(self, phases: Sequence[Phase]) -> list[NearMiss]:
        """Beside the whole way, or cut short, and then in line, where it is too late for that."""
        last, held, aside = len(phases) - 1, self._held(phases[-1]), np.zeros(6)
        in_line = NearMiss(last, 1.0, np.zeros(6), held)
        if self._rng.random() < HURRIED:
            return [NearMiss(0, self._rng.uniform(*EARLY), aside, 1, cuts_to=last - 1), in_line]
        beside_m = phases[-1].beside_m
        aside[:2] = self._round_about(self._rng.uniform(beside_m, MOST_BESIDE * beside_m))
        return [NearMiss(last, 1.0, aside, held, all_beside=True), in_line]

    def _round_about(self, far: float) -> tuple[float, float]:
        angle = self._rng.uniform(0.0, 2.0 * np.pi)
        return far * float(np.cos(angle)), far * float(np.sin(angle))

    def _held(self, phase: Phase) -> int:
        return phase.steps + int(self._rng.integers(HELD[0], HELD[1] + 1))


def _lets_go(phases: Sequence[Phase]) -> bool:
    """Whether a way ends with a hand that opens: the thing is where the phase before has left it."""
    return phases[-1].gripper > 0 and is_order(phases, len(phases) - 1)


def _near_m(phases: Sequence[Phase]) -> float:
    """How near [m] to its place a thing is before the hand lets go of it."""
    return min(phase.near_m for phase in phases[-2:])


def _is_short_of(aside: Array, pose: Array, tool: Array) -> bool:
    """Whether a tool on its way to a pose that is so far `aside` has still some of that before it."""
    far = float(np.linalg.norm(aside[:3]))
    left = -geometry.pose_delta(pose, tool)[:3] @ aside[:3] / far
    return bool(left > SHORT * far)
