"""A scripted operator for every scene that says its way to success as phases (`sim/phases.py`).

It sees the simulator's truth, finds out which phase fits the state that it meets, and steers from
waypoint to waypoint with its own pace and an unsteady hand.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from robot_rl import geometry
from robot_rl.interfaces import Given
from robot_rl.sim.phases import Phase, Phases, after_done, fitting, way_left
from robot_rl.teleop._habits import OperatorHabits, SeeingOperator, Watch
from robot_rl.types import AXES, ArmState, Array, OperatorCommand, TeleopEvent

MISSES_PER_EPISODE = 2
MOST_STEPS = 40
"""So many control steps a near miss may take, the way to it included."""
HELD = (3, 6)
"""The least and the most steps that it is shown for."""
EARLY = (0.1, 0.6)
"""After such a share of its way a phase ends; the last one always does, or it would be a success."""
ASIDE, HIGH_M = (4.0, 12.0), (0.004, 0.02)
"""So far aside, in tolerances of the phase, and so high [m] a near miss is."""

Options = OperatorHabits


@dataclass(frozen=True)
class NearMiss:
    """A phase that ends after a `share` of its way, or elsewhere: `aside (6,)`, seen from its pose."""

    phase: int
    share: float
    aside: Array
    held: int


class Teleop(SeeingOperator):
    """Plays the phases that the task's scene offers, along the axes that the task frees."""

    name = "the scripted operator"

    def __init__(self, options: OperatorHabits, given: Given):
        """Raises DeviceError without a simulated arm, ConfigError as the task's scene."""
        super().__init__(options, given)
        assert given.task is not None
        self._phases = Phases(given.task.scene)
        axes = getattr(given.task, "axes", AXES)
        self._free = np.array([1.0 if axis in axes else 0.0 for axis in AXES])
        self._drawn = np.random.default_rng([given.seed, 2])
        self._episode = -1
        self._forget()

    def _forget(self) -> None:
        """Nothing is known of the episode that begins."""
        self._index = -1  # of the phase; -1: to be found out
        self._held = self._miss_steps = 0
        self._first_way: float | None = None
        self._misses: list[NearMiss] | None = None
        self._own = Watch(self._habits)

    def begin_episode(self) -> Sequence[OperatorCommand]:
        """Lean back; while outcomes are collected the next episode is a success if the last was
        none.
        """
        self._episode += 1
        self._forget()
        return super().begin_episode()

    def read(self, arms: Sequence[ArmState]) -> TeleopEvent:
        """Watch the arm, steer it with the clutch closed, and say when the task is done."""
        (arm,) = arms
        phases, tool, word = self._phases.at(self._world.latest), arm.pose_base_tcp, self._word()
        self.reports += 1
        if self._mode == "correct" and not self._takes_hold(phases, tool):
            return TeleopEvent(False, np.zeros(6), "tool", outcome=word)
        phase = self._play(phases, arm)
        if self._mode == "collect" and self._episode % 2 == 0:
            phase = self._fail(phases, phase, tool)
            word = OperatorCommand.NONE if self._misses else OperatorCommand.FAILURE
        return TeleopEvent(
            True, self._move(arm, phase), "tool", gripper=float(phase.gripper), outcome=word
        )

    def _takes_hold(self, phases: Sequence[Phase], tool: Array) -> bool:
        """Whether the operator drives in this step of mode "correct"; once it lets go, the next
        correction begins at the phase that fits then.
        """
        fits = fitting(phases, tool, self._free)
        way = way_left(phases, fits, tool, self._free)
        self._first_way = way if self._first_way is None else self._first_way
        waits = max(phase.steps for phase in phases[max(fits - 1, 0) : fits + 1])
        if self._corrects(way, way > self._first_way + self._habits.far_m, waits):
            return True
        self._index, self._own = -1, Watch(self._habits)
        return False

    def _play(self, phases: Sequence[Phase], arm: ArmState) -> Phase:
        """The phase of this step: the next one when one is over, the one that fits where one has
        become impossible, the first one again where the arm does not get on.
        """
        tool = arm.pose_base_tcp
        if self._index < 0 or not phases[self._index].ready:
            self._index, self._held = fitting(phases, tool, self._free), 0
        phase = phases[self._index]
        if self._is_there(phase, tool):
            self._held += 1
        force = float(np.linalg.norm(arm.wrench_base_tcp[:3]))
        over = phase.done or self._held > phase.steps or force >= phase.force_n
        if over and self._index < len(phases) - 1:
            self._index, self._held = after_done(phases, self._index + 1), 0
        elif self._own.is_worried(way_left(phases, self._index, tool, self._free), False):
            self._index, self._held = after_done(phases, 0), 0
            self._own = Watch(self._habits)
        return phases[self._index]

    def _is_there(self, phase: Phase, tool: Array) -> bool:
        """Whether the tool is where the phase wants it, as far as the task frees it."""
        off = geometry.pose_delta(phase.pose, tool) * self._free
        near, straight = np.linalg.norm(off[:3]), np.linalg.norm(off[3:])
        return bool(near < phase.near_m and straight < phase.near_rad)

    def _move(self, arm: ArmState, phase: Phase) -> Array:
        """Straight to the phase's pose, with an unsteady hand."""
        action = geometry.pose_delta(arm.target_base_tcp, phase.pose) / self._scale
        action *= self._pace * phase.pace / max(1.0, float(np.abs(action * self._free).max()))
        hand = self._rng.normal(0.0, self._habits.unsteadiness, 6) * phase.unsteady
        return np.clip(action + hand, -1.0, 1.0) * self._free

    def _fail(self, phases: Sequence[Phase], phase: Phase, tool: Array) -> Phase:
        """The near miss whose turn it is, once the phases before it are through."""
        if self._misses is None:
            self._misses = self._draw(phases)
        if not self._misses:
            return phase
        miss = self._misses[0]
        self._miss_steps += 1
        if self._index >= miss.phase:
            last, phase = phases[miss.phase - 1], phases[miss.phase]
            if miss.phase == len(phases) - 1:  # it may press beyond the goal, a near miss must not
                phase = replace(phase, pose=self._world.latest.goal_base_tcp)
            back = geometry.pose_delta(phase.pose, last.pose)
            pose = geometry.pose_move(phase.pose, (1.0 - miss.share) * back)
            phase = replace(phase, pose=geometry.pose_move(pose, miss.aside))
            self._index, self._held = miss.phase, 0
            if self._is_there(replace(phase, near_m=2.0 * phase.near_m), tool):
                self._misses[0] = replace(miss, held=miss.held - 1)
        if self._done_steps:  # that was none
            self._misses.clear()
        elif self._misses[0].held <= 0 or self._miss_steps >= MOST_STEPS:
            self._misses.pop(0)
            self._miss_steps = 0
        return phase

    def _draw(self, phases: Sequence[Phase]) -> list[NearMiss]:
        """Some near misses, in the order of their phases: ended too early, aside, too high."""
        rng, misses = self._drawn, []
        for number in sorted(rng.integers(1, len(phases), MISSES_PER_EPISODE)):
            kind, aside, last = rng.integers(3), np.zeros(6), number == len(phases) - 1
            share = rng.uniform(*EARLY) if last or kind == 0 else 1.0
            if kind == 1:
                angle = rng.uniform(0.0, 2.0 * np.pi)
                far = rng.uniform(*ASIDE) * phases[number].near_m
                aside[:2] = far * np.cos(angle), far * np.sin(angle)
            elif kind == 2:
                aside[2] = -rng.uniform(*HIGH_M)
            misses.append(
                NearMiss(int(number), share, aside, int(rng.integers(HELD[0], HELD[1] + 1)))
            )
        return misses
