"""Which numbers of a step an operator gave, or the guide, and whether they show anything by it: the
one place where that is decided.
"""

import numpy as np

from robot_rl.types import SHOWS, ActionSpec, Array, Step

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


def imitated(step: Step, actions: ActionSpec) -> Array:
    """Which numbers of a step's action are to be imitated, bool `(A,)`: those that were given, but
    for those of an arm that was told to move and stood. Its fingers were closing
    (`hold_while_gripping`), and nobody meant that it should stand there.
    """
    which = given(step)
    if not which.any():  # of most steps
        return which
    told, went = (
        np.abs(actions.moves(action)).max(1) > STILL for action in (step.commanded, step.executed)
    )
    obeyed = actions.pick(np.repeat(~told | went, 6), np.ones(len(actions.discrete)))
    return which & (obeyed > 0.0)


def shows(step: Step, actions: ActionSpec) -> bool:
    """Whether a step is to be imitated: an operator acted in it, and commanded a motion that was
    made. An order to a gripper shows something where it is carried out, and a button that is held
    on no more.
    """
    command = imitated(step, actions) * step.commanded
    choices = [*actions.discrete]
    command[choices] *= np.rint(step.executed[choices]) != 0.0
    return moves(command)
