"""Whether an operator who acts in a step shows anything by it: the one place where that is decided."""

import numpy as np

from robot_rl.types import Array, Provenance, Step

STILL = 0.01
"""Of the action range: who moves less shows nothing (HIL-SERL's train_bc.py drops actions that are
zero). A clutch that has opened, and a hand that waits or thinks, hold the arm where it is."""


def moves(command: Array) -> bool:
    """Whether an action `(A,)` in [-1, 1] moves anything: an arm, a gripper."""
    return bool(np.abs(command).max(initial=0.0) > STILL)


def shows(step: Step) -> bool:
    """Whether a step is to be imitated: an operator acted in it, and commanded a motion."""
    return step.provenance in (Provenance.DEMO, Provenance.HUMAN) and moves(step.commanded)
