"""Fingers that move in a simulated arm's own world, as the arm's process has them: orders and
reports.

In lockstep an order is taken up at once, and carried out as time goes on with the arm's targets; on
the real clock it goes to the arm's loop. `hand.py: SimulatedGripper` is the other side.
"""

from typing import Any

import numpy as np

from robot_rl.controllers import messages
from robot_rl.controllers.gripper import Order
from robot_rl.sim.hand import HandOutcome
from robot_rl.types import Array, ConfigError, DeviceError


def obey(hand: Any, order: Array) -> None:
    """Begin what a `messages.FINGER_ORDER` says; `hand` is a `sim/hand.py: Hand`, or None.

    Raises DeviceError where no fingers move, ConfigError for an order that is none.
    """
    if hand is None:
        raise DeviceError("no fingers move in this scene: its hand is closed on what it holds")
    width, speed, force, tolerance = (float(order[name]) for name in messages.FINGER_NUMBERS)
    if not np.isfinite([width, speed, force, tolerance]).all():
        raise ConfigError(f"the numbers of an order to the fingers must be finite: {order}")
    match int(order["order"]):
        case Order.HOME:
            hand.home()
        case Order.MOVE:
            hand.move(width, speed)
        case Order.GRASP:
            hand.grasp(width, tolerance, tolerance, speed, force)
        case Order.STOP:
            hand.stop()
        case other:
            raise ConfigError(f"{other} is no order; known: {', '.join(o.name for o in Order)}")


def report_into(report: Array, hand: Any) -> None:
    """Fill a `messages.FINGERS` with how the hand stands."""
    report["width_m"], report["max_width_m"] = hand.width, hand.max_width
    report["grasped"], report["busy"] = hand.grasped, hand.outcome is None
    report["succeeded"] = hand.outcome == HandOutcome.SUCCESS
    report["failed"] = hand.outcome == HandOutcome.FAIL
