"""The gripper buttons of the console's page, as the desk hears them."""

import math
import time
from collections.abc import Mapping
from typing import Any

from robot_rl.machine.validation import nearest
from robot_rl.types import DataError

HAND_CHOICES: Mapping[str, float] = {"open": 1.0, "close": -1.0}
"""What each button wants of its hand, as in `TeleopEvent.gripper`."""
PRESSED_S = 0.5
"""A button counts as pressed for so long [s] after it was last said: five control steps; a page
says it five times a second while it is held down. A page that is gone holds nothing.
"""


class HandButtons:
    """When each button of each hand was pressed last. Any thread presses; the actor's loop says
    for which hands, and asks what is wanted of them.

    Who presses both buttons of a hand at once, perhaps on two pages, presses none.
    """

    def __init__(self) -> None:
        self._numbers: Mapping[str, int] = {}
        self._pressed: dict[str, dict[str, float]] = {}
        self._held_over: set[int] = set()

    def listen(self, hands: Mapping[str, int]) -> None:
        """For these hands, by name the number that each one's choice has in an action."""
        self._pressed = {hand: dict.fromkeys(HAND_CHOICES, -math.inf) for hand in hands}
        self._numbers = hands

    def begin_episode(self) -> None:
        """A button that is down already counts once it is pressed anew."""
        self._held_over = set(self._wanted())

    def orders(self) -> dict[int, float]:
        """What is wanted of which numbers of the action: 1 opens, -1 closes."""
        wanted = self._wanted()
        self._held_over &= wanted.keys()
        return {number: wanted[number] for number in wanted.keys() - self._held_over}

    def press(self, hand: Any, button: Any) -> None:
        """Raises DataError for a hand that the task does not move, or a button that there is not."""
        if not isinstance(hand, str) or hand not in self._pressed:
            allowed = nearest(str(hand), self._pressed)
            raise DataError(f"nobody moves a hand {hand!r:.80} here; allowed: {allowed}")
        if not isinstance(button, str) or button not in HAND_CHOICES:
            raise DataError(f"a hand is told {', '.join(HAND_CHOICES)}, not {button!r:.80}")
        self._pressed[hand][button] = time.monotonic()

    def _wanted(self) -> dict[int, float]:
        now, wanted = time.monotonic(), dict[int, float]()
        for hand, number in self._numbers.items():
            since = self._pressed[hand]
            choice = sum(HAND_CHOICES[each] for each in since if now - since[each] < PRESSED_S)
            if choice:
                wanted[number] = choice
        return wanted
