"""The grippers that a task moves: chosen for in each step, seen in each observation, opened at each
reset.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from robot_rl.config import Hardware
from robot_rl.controllers.hand import Hand
from robot_rl.types import ActionSpec, ArmState, Array, HandState, SpaceSpec

GRIPPER = "gripper"


class Hands:
    """One `Hand` for each choice of an action, in their order; none where the task moves no gripper."""

    def __init__(self, hardware: Hardware, space: SpaceSpec):
        actions: ActionSpec = space.actions
        self._holders = actions.holders
        many = len(hardware.arms) > 1
        arms = [hardware.arms[holder] for holder in self._holders]
        self._arms = [arm.name for arm in arms]
        self._prefixes = [f"state/{arm.name}/" if many else "state/" for arm in arms]
        self._configs = [config for arm in arms if (config := hardware.gripper_of(arm))]
        # by name, which number of the action is each one's choice
        self.numbers = {actions.names[i]: i for i in actions.discrete}
        self._judge_width = "judge/width" in space.observations
        self._hands: list[Hand] = []
        try:
            for config, arm in zip(self._configs, arms, strict=True):
                self._hands.append(Hand(config, arm))
        except BaseException:
            self.close()
            raise
        self._states: list[HandState] = [hand.state() for hand in self._hands]

    @property
    def faults(self) -> list[str]:
        """The latched faults in words, as the hands were read last."""
        return [state.reason for state in self._states if state.reason]

    def told(self) -> list[dict[str, Any]]:
        """Each as it was read last, for a page, from any thread: name and arm, width [m], whether it
        moves, holds something, and its fault in words.
        """
        return [
            {"name": config.name, "arm": arm, "width_m": state.width, "moving": state.moving,
             "held": state.held, "reason": state.reason}
            for config, arm, state in zip(self._configs, self._arms, self._states, strict=True)
        ]  # fmt: skip

    def choose(
        self, choices: Array, arms: Sequence[ArmState], *, reopen_empty: bool = False
    ) -> list[float]:
        """Begin what the action wants of each; or else `reopen_empty`, where one has closed upon
        nothing. Returns what was begun.
        """
        begun = []
        for hand, choice, holder in zip(self._hands, choices, self._holders, strict=True):
            order = 1 if reopen_empty and hand.is_empty else int(choice)
            begun.append(float(hand.choose(order, arms[holder].t)))
        return begun

    def moving(self, begun: Sequence[float] = ()) -> list[int]:
        """The numbers of the arms whose fingers move: as they were read last, or `begun` just now."""
        hands = zip(self._holders, self._states, begun or [0.0] * len(self._states), strict=True)
        return [holder for holder, state, order in hands if state.moving or order]

    def holding(self) -> list[int]:
        """The numbers of the arms whose hands hold something, as they were read last."""
        hands = zip(self._holders, self._states, strict=True)
        return [holder for holder, state in hands if state.held]

    def read(self) -> list[HandState]:
        """How they stand now."""
        self._states = [hand.state() for hand in self._hands]
        return self._states

    def open(self, wait: Callable[[], None], *, keep: bool = False) -> None:
        """For the beginning of an episode, or `keep` them as they are; what goes wrong is a fault."""
        for hand, config in zip(self._hands, self._configs, strict=True):
            hand.begin_episode(None if keep else config.open_m, wait)
        self.read()

    def observe(self) -> dict[str, Array]:
        """As they were read last: width as a share of the range, whether the hand moves, whether it
        holds something, `(3,)`; for the judge the widths [m].
        """
        seen: dict[str, Array] = {}
        for prefix, config, state in zip(self._prefixes, self._configs, self._states, strict=True):
            share = (state.width - config.closed_m) / (config.open_m - config.closed_m)
            numbers = [np.clip(np.nan_to_num(share), 0.0, 1.0), state.moving, state.held]
            seen[prefix + GRIPPER] = np.array(numbers, np.float32)
        if self._judge_width:
            seen["judge/width"] = np.array([state.width for state in self._states], np.float32)
        return seen

    def acknowledge(self) -> None:
        """Somebody has looked at them: clear their faults."""
        for hand in self._hands:
            hand.acknowledge()
        self.read()

    def close(self) -> None:
        """Let go of them, not of what they hold."""
        for hand in self._hands:
            hand.close()
