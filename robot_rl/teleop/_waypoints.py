"""A scripted operator for every scene that says its way to success as phases (`sim/phases.py`).

It sees the simulator's truth, finds out which phase fits the state that it meets, and steers from
waypoint to waypoint with its own pace and an unsteady hand.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from robot_rl import geometry
from robot_rl.interfaces import Given
from robot_rl.sim.phases import (
    Phase,
    Phases,
    after_done,
    fitting,
    grippers,
    is_order,
    is_there,
    staying,
    tries,
    way_left,
)
from robot_rl.sim.stage import find_scene
from robot_rl.teleop._habits import OperatorHabits, SeeingOperator, Watch
from robot_rl.teleop._missed_phases import Misses
from robot_rl.types import (
    AXES,
    ArmState,
    Array,
    DeviceError,
    LimitFlags,
    OperatorCommand,
    TeleopEvent,
)

Options = OperatorHabits
TURN_LEFT_RAD = 0.2
"""A hand that its limits let turn no further does with so much less: fingers put in line what they close
around."""


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
        self._phases = Phases(find_scene(given.task.scene))
        self.all_arms, self._names = self._phases.arms > 1, given.arms
        if self.all_arms and len(self._names) != self._phases.arms:
            raise DeviceError(
                f"teleop 'scripted': the scene is for {self._phases.arms} arms, and there are"
                f" {len(self._names)}: {', '.join(self._names) or 'none is named'}"
            )
        axes = getattr(given.task, "axes", AXES)
        self._free = np.array([1.0 if axis in axes else 0.0 for axis in AXES])
        self._misses = Misses(np.random.default_rng([given.seed, 2]), self._free)
        self._episode = -1
        self._forget()

    def _forget(self) -> None:
        """Nothing is known of the episode that begins."""
        self._index = -1  # of the phase; -1: to be found out
        self._held = 0
        self._succeeded = False  # in this episode, whatever it was to be
        self._first_way: float | None = None
        self._misses.begin_episode()
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
        self.reports += 1
        if self._mode == "correct" and not self._takes_hold(phases, tools):
            return self._say([TeleopEvent(False, np.zeros(6), "tool", outcome=word)] * len(arms))
        phase = self._play(phases, arms)
        self._succeeded |= bool(self._done_steps)
        if self._mode == "collect" and self._episode % 2 == 0 and not self._succeeded:
            phase = self._fail(phases, phase, tools)
            word = OperatorCommand.FAILURE if self._misses.are_over else OperatorCommand.NONE
        choices = self._choices(phases, phase)
        moves = [
            self._move(arm, phase if i == phase.arm else staying(phases, self._index, i))
            for i, arm in enumerate(arms)
        ]
        return self._say([
            TeleopEvent(True, move, "tool", gripper=float(choice), outcome=word)
            for move, choice in zip(moves, choices, strict=True)
        ])

    def _choices(self, phases: Sequence[Phase], phase: Phase) -> list[int]:
        """What is said to the gripper of each arm in a phase, or in another one in its place."""
        said = grippers(phases, self._index, self._phases.arms)
        said[phase.arm] = phase.gripper
        return said

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
        waits = max(waits, tries(phases, tools))
        if self._corrects(way, way > self._first_way + self._habits.far_m, waits):
            return True
        self._index, self._own = -1, Watch(self._habits)
        return False

    def _play(self, phases: Sequence[Phase], arms: Sequence[ArmState]) -> Phase:
        """The phase of this step: the next one when one is over, the one that fits where one has
        become impossible or the arms do not get on, the first one again where that is the same.
        """
        tools = [arm.pose_base_tcp for arm in arms]
        if self._index < 0 or not phases[self._index].ready:
            self._index, self._held = fitting(phases, tools, self._free), 0
        phase = phases[self._index]
        if not self._phases.stand(self._choices(phases, phase)):
            self._see_through()
        if is_there(_as_far_as_it_turns(phase, arms[phase.arm]), tools[phase.arm], self._free):
            self._held += 1
        force = float(np.linalg.norm(arms[phase.arm].wrench_base_tcp[:3]))
        over = phase.done or self._held > phase.steps or force >= phase.force_n
        way = way_left(phases, self._index, tools, self._free)
        if over and self._index < len(phases) - 1:
            if is_order(phases, self._index):
                self._hand_back()
            self._index, self._held = after_done(phases, self._index + 1), 0
        elif self._own.is_worried(way, False, phase.steps):
            fits = fitting(phases, tools, self._free)
            self._index = after_done(phases, 0) if fits == self._index else fits
            self._held, self._own = 0, Watch(self._habits)
        return phases[self._index]

    def _move(self, arm: ArmState, phase: Phase | None) -> Array:
        """Straight to the phase's pose, with an unsteady hand; nowhere without one."""
        if phase is None:
            return np.zeros(6)
        action = geometry.pose_delta(arm.target_base_tcp, phase.pose) / self._scale
        action *= self._pace * phase.pace / max(1.0, float(np.abs(action * self._free).max()))
        hand = self._rng.normal(0.0, self._habits.unsteadiness, 6) * phase.unsteady
        return np.clip(action + hand, -1.0, 1.0) * self._free

    def _fail(self, phases: Sequence[Phase], phase: Phase, tools: Sequence[Array]) -> Phase:
        """The phase as a near miss has it, where it is the turn of one."""
        missed = self._misses.step(phases, self._index, tools, self._world.latest.goal_base_tcp)
        if missed is None:
            return phase
        self._index, self._held = missed.goes_on, 0
        return missed.phase


def _as_far_as_it_turns(phase: Phase, arm: ArmState) -> Phase:
    """The phase, for which a turn is enough that the arm's limits have cut short."""
    if not arm.verdict & LimitFlags.ORIENTATION:
        return phase
    return replace(phase, near_rad=max(phase.near_rad, TURN_LEFT_RAD))
