"""Which numbers of a step an operator gave, or the guide, and whether they show anything by it: the
one place where that is decided.
"""

from collections.abc import Sequence

import numpy as np

from robot_rl.types import SHOWS, Array, Step

STILL = 0.01
"""Of the action range: who moves less shows nothing (HIL-SERL's train_bc.py drops actions that are
zero). A clutch that has opened, and a hand that waits or thinks, hold the arm where it is."""


def moves(command: Array) -> bool:
    """Whether an action `(A,)` in [-1, 1] moves anything: an arm, a gripper."""
    return bool(np.abs(command).max(initial=0.0) > STILL)


def given(step: Step) -> Array:
    """Which numbers of a step's action are not the policy's, bool `(A,)`."""
    if step.provenance not in SHOWS:
        return np.zeros(len(step.commanded), bool)
    return np.ones(len(step.commanded), bool) if step.corrected is None else step.corrected


def shows(step: Step, choices: Sequence[int] = ()) -> bool:
    """Whether a step is to be imitated: an operator acted in it, and commanded a motion. `choices`
    are the indices of the grippers' numbers (`ActionSpec.discrete`): an order shows something where
    it is carried out, and a button that is held on no more.
    """
    command = given(step) * step.commanded
    command[[*choices]] *= np.rint(step.executed[[*choices]]) != 0.0
    return moves(command)
