"""A scripted operator for every scene that says its way to success as phases (`sim/phases.py`).

It sees the simulator's truth, finds out which phase fits the state that it meets, and steers from
waypoint to waypoint with its own pace and an unsteady hand.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from robot_rl import geometry
from robot_rl.interfaces import Given
from robot_rl.sim.phases import (
    Phase,
    Phases,
    after_done,
    before,
    fitting,
    grippers,
    is_order,
    way_left,
)
from robot_rl.teleop._habits import OperatorHabits, SeeingOperator, Watch
from robot_rl.types import AXES, ArmState, Array, DeviceError, OperatorCommand, TeleopEvent

MISSES_PER_EPISODE = 2
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

HURRIED = 0.5
"""Of those whose whole way is none: the share that leaves most of the first phase out."""
SHORT = 0.2
"""It goes down beside the way once no more than this share of that is left to go aside."""

Options = OperatorHabits


@dataclass(frozen=True)
class NearMiss:
    """A phase that ends after a `share` of its way, or elsewhere: `aside (6,)`, seen from its pose.
    One that is `all_beside` is aside from the phase before it on.
    """

    phase: int
    share: float
    aside: Array
    held: int
    all_beside: bool = False


class Teleop(SeeingOperator):
    """Plays the phases that the task's scene offers, along the axes that the task frees; of a scene
    for several arms with all of them.
    """

    name = "the scripted operator"

    def __init__(self, options: OperatorHabits, given: Given):
        """Raises DeviceError without a simulated arm, or with another number of arms than the task's
        scene is for, ConfigError as that scene.
        """
        super().__init__(options, given)
        assert given.task is not None
        self._phases = Phases(given.task.scene)
        self.all_arms, self._names = self._phases.arms > 1, given.arms
        if self.all_arms and len(self._names) != self._phases.arms:
            raise DeviceError(
                f"teleop 'scripted': the scene is for {self._phases.arms} arms, and there are"
                f" {len(self._names)}: {', '.join(self._names) or 'none is named'}"
            )
        axes = getattr(given.task, "axes", AXES)
        self._free = np.array([1.0 if axis in axes else 0.0 for axis in AXES])
        self._drawn = np.random.default_rng([given.seed, 2])
        self._episode = -1
        self._forget()

    def _forget(self) -> None:
        """Nothing is known of the episode that begins."""
        self._index = -1  # of the phase; -1: to be found out
        self._held = self._miss_steps = 0
        self._to_last = np.zeros(6)  # from a near miss's phase to the one before, as it began
        self._succeeded = False  # in this episode, whatever it was to be
        self._first_way: float | None = None
        self._begun: Sequence[Array] = ()  # where the tools were
        self._misses: list[NearMiss] | None = None
        self._own = Watch(self._habits)

    def begin_episode(self) -> Sequence[OperatorCommand]:
        """Lean back; while outcomes are collected the next episode is a success if the last was
        none.
        """
        self._episode += 1
        self._forget()
        return super().begin_episode()

    def read(self, arms: Sequence[ArmState]) -> TeleopEvent | dict[str, TeleopEvent]:
        """Watch the arms, steer them with the clutch closed, and say when the task is done."""
        phases, word = self._phases.at(self._world.latest), self._word()
        tools = [arm.pose_base_tcp for arm in arms]
        self._begun = self._begun or tools
        self.reports += 1
        if self._mode == "correct" and not self._takes_hold(phases, tools):
            return self._say([TeleopEvent(False, np.zeros(6), "tool", outcome=word)] * len(arms))
        phase = self._play(phases, arms)
        self._succeeded |= bool(self._done_steps)
        if self._mode == "collect" and self._episode % 2 == 0 and not self._succeeded:
            phase = self._fail(phases, phase, tools)
            word = OperatorCommand.NONE if self._misses else OperatorCommand.FAILURE
        still, choices = np.zeros(6), grippers(phases, self._index, len(arms))
        choices[phase.arm] = phase.gripper
        moves = [self._move(a, phase) if i == phase.arm else still for i, a in enumerate(arms)]
        return self._say([
            TeleopEvent(True, move, "tool", gripper=float(choice), outcome=word)
            for move, choice in zip(moves, choices, strict=True)
        ])

    def _say(self, events: Sequence[TeleopEvent]) -> TeleopEvent | dict[str, TeleopEvent]:
        """An event for each arm by its name, or that of the only one."""
        return dict(zip(self._names, events, strict=True)) if self.all_arms else events[0]

    def _takes_hold(self, phases: Sequence[Phase], tools: Sequence[Array]) -> bool:
        """Whether the operator drives in this step of mode "correct"; once it lets go, the next
        correction begins at the phase that fits then.
        """
        fits = fitting(phases, tools, self._free)
        way = way_left(phases, fits, tools, self._free)
        self._first_way = way if self._first_way is None else self._first_way
        waits = max(phase.steps for phase in phases[max(fits - 1, 0) : fits + 1])
        if self._corrects(way, way > self._first_way + self._habits.far_m, waits):
            return True
        self._index, self._own = -1, Watch(self._habits)
        return False

    def _play(self, phases: Sequence[Phase], arms: Sequence[ArmState]) -> Phase:
        """The phase of this step: the next one when one is over, the one that fits where one has
        become impossible, the first one again where the arms do not get on.
        """
        tools = [arm.pose_base_tcp for arm in arms]
        if self._index < 0 or not phases[self._index].ready:
            self._index, self._held = fitting(phases, tools, self._free), 0
        phase = phases[self._index]
        if self._is_there(phase, tools[phase.arm]):
            self._held += 1
        force = float(np.linalg.norm(arms[phase.arm].wrench_base_tcp[:3]))
        over = phase.done or self._held > phase.steps or force >= phase.force_n
        way = way_left(phases, self._index, tools, self._free)
        if over and self._index < len(phases) - 1:
            if is_order(phases, self._index):
                self._hand_back()
            self._index, self._held = after_done(phases, self._index + 1), 0
        elif self._own.is_worried(way, False, phase.steps):
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

    def _fail(self, phases: Sequence[Phase], phase: Phase, tools: Sequence[Array]) -> Phase:
        """The near miss whose turn it is, once the phases before it are through."""
        if self._misses is None:
            self._misses = self._draw(phases)
        if not self._misses:
            return phase
        miss = self._misses[0]
        if self._miss_steps or self._index >= miss.phase - miss.all_beside:
            self._index, self._held = miss.phase, 0
            self._miss_steps += 1
            phase, is_there = self._missed(phases, miss, tools)
            if is_there:
                self._misses[0] = replace(miss, held=miss.held - 1)
        if self._misses[0].held <= 0 or self._miss_steps >= MOST_STEPS:
            if self._misses.pop(0).phase == 0:  # what it has left out stays left out
                self._index, self._held = after_done(phases, 1), 0
            self._miss_steps = 0
        return phase

    def _missed(
        self, phases: Sequence[Phase], miss: NearMiss, tools: Sequence[Array]
    ) -> tuple[Phase, bool]:
        """The phase as the near miss has it, and whether the tool is there; what the hand holds it
        does not let go before.
        """
        phase = phases[miss.phase]
        last = before(phases, miss.phase) or replace(phase, pose=self._begun[phase.arm])
        if miss.phase == len(phases) - 1 and not phase.arm:
            # it may press beyond the goal, a near miss must not
            phase = replace(phase, pose=self._world.latest.goal_base_tcp)
        if self._miss_steps == 1:  # what comes before may follow what moves, as a drawer's handle
            self._to_last = geometry.pose_delta(phase.pose, last.pose)
        pose = geometry.pose_move(phase.pose, (1.0 - miss.share) * self._to_last)
        phase = replace(phase, pose=geometry.pose_move(pose, miss.aside))
        if miss.all_beside and self._is_short_of(miss.aside, phase.pose, tools[phase.arm]):
            return replace(last, pose=geometry.pose_move(last.pose, miss.aside)), False
        is_there = self._is_there(replace(phase, near_m=2.0 * phase.near_m), tools[phase.arm])
        if phase.gripper > 0 > last.gripper and not is_there:
            phase = replace(phase, gripper=last.gripper)
        return phase, is_there

    def _is_short_of(self, aside: Array, pose: Array, tool: Array) -> bool:
        """Whether a tool on its way to what is `aside` has still some of that before it."""
        far = float(np.linalg.norm(aside[:3]))
        left = -geometry.pose_delta(pose, tool)[:3] @ aside[:3] / far
        return bool(left > SHORT * far)

    def _draw(self, phases: Sequence[Phase]) -> list[NearMiss]:
        """Some near misses, in the order of their phases: ended too early, aside, too high. With
        several arms, whose way is long, there is always one of the last phase.
        """
        rng, misses = self._drawn, []
        later = [i for i in range(len(phases)) if before(phases, i) is not None]
        numbers = [later[i] for i in sorted(rng.integers(0, len(later), MISSES_PER_EPISODE))]
        for number in dict.fromkeys([*numbers, later[-1]]) if self.all_arms else numbers:
            kind, aside, last = int(rng.integers(3)), np.zeros(6), number == len(phases) - 1
            if last and self.all_arms:  # it only lets go, where the one before has ended
                kind = max(kind, 1)
            share = rng.uniform(*EARLY) if last or kind == 0 else 1.0
            beside = phases[number].beside_m if last and kind == 1 else 0.0
            if kind == 1:
                angle = rng.uniform(0.0, 2.0 * np.pi)
                far = rng.uniform(*ASIDE) * phases[number].near_m
                if beside:
                    share, far = 1.0, rng.uniform(beside, MOST_BESIDE * beside)
                aside[:2] = far * np.cos(angle), far * np.sin(angle)
            elif kind == 2:
                aside[2] = -rng.uniform(*HIGH_M)
            held = phases[number].steps + int(rng.integers(HELD[0], HELD[1] + 1))
            if beside and rng.random() < HURRIED:
                misses.append(NearMiss(0, rng.uniform(*EARLY), np.zeros(6), 0))
            else:
                misses.append(NearMiss(number, share, aside, held, beside > 0.0))
            if beside:  # in line, where it is too late for that
                misses.append(NearMiss(number, 1.0, np.zeros(6), held))
        return misses
