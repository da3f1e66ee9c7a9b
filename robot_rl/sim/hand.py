"""A simulated Franka Hand: a width that moves at a speed until it is there or something is between
the fingers.

Where the fingers of the scene do not move, the hand of `panda.py` is welded around what it holds,
and `object_width_m` says how wide that is; None lets the fingers meet. Fingers that move are
`fingers.py`. Range, speed and force: Franka Hand product manual, 80 mm, 50 mm/s each, 20 to 70 N.
"""

from enum import IntEnum

MAX_WIDTH, MAX_SPEED = 0.08, 0.1
"""[m] between the fingers, [m/s] of the width."""

LEAST_FORCE, MOST_FORCE = 20.0, 70.0
"""[N] of a grasp that lasts; what is asked for beyond is cut."""

TOLERANCE = 1e-4


class HandOutcome(IntEnum):
    """How a command has ended; the numbers are the hand's own on the wire."""

    SUCCESS = 0
    FAIL = 1
    UNSUCCESSFUL = 2
    ABORTED = 3


class Hand:
    """Widths [m], speeds [m/s], forces [N]. One command at a time; a new one aborts the last. Used
    by one thread.

    ```
    hand.grasp(0.02, 0.005, 0.005, speed=0.05)
    while hand.outcome is None: hand.step(0.001)
    ```
    `jammed` makes it fail, as a hand does that lost its power or its calibration.
    """

    has_world = False
    """Whether its fingers are bodies of a world, which steps it with everything else."""

    def __init__(self, object_width_m: float | None = None, width: float = MAX_WIDTH):
        self.object_width = object_width_m
        self.width = max(width, object_width_m or 0.0)
        self.max_width = MAX_WIDTH
        self.grasped = False
        self.jammed = False
        self.outcome: HandOutcome | None = HandOutcome.SUCCESS
        self._goals: list[float] = []
        self._speed = 0.0
        self._tolerance: tuple[float, float] | None = None

    def home(self) -> None:
        """Close, then open wide."""
        self._start([0.0, MAX_WIDTH], 0.05)

    def move(self, width: float, speed: float) -> None:
        """Go to a width."""
        self._start([width], speed)

    def grasp(
        self, width: float, inner: float, outer: float, speed: float, force: float = LEAST_FORCE
    ) -> None:
        """Close upon something that is between `width - inner` and `width + outer` wide."""
        self._start([0.0], speed)
        if self.outcome is None:
            self._tolerance = (width - inner, width + outer)

    def stop(self) -> None:
        """Stand still; a command that was under way is aborted."""
        if self.outcome is None:
            self.outcome = HandOutcome.ABORTED
        self._goals = []

    def _start(self, goals: list[float], speed: float) -> None:
        if self.outcome is None:
            self.stop()
        sane = all(0.0 <= goal <= MAX_WIDTH for goal in goals) and 0.0 < speed <= MAX_SPEED
        if self.jammed or not sane:
            self.outcome = HandOutcome.FAIL
            return
        self._goals, self._speed, self._tolerance = goals, speed, None
        self.grasped, self.outcome = False, None

    def step(self, dt: float) -> None:
        """Let `dt` [s] go by."""
        if self.outcome is not None:
            return
        if self.jammed:
            self.outcome = HandOutcome.FAIL
            return
        goal = self._goals[0]
        blocked = self._approach(goal, self._speed * dt)
        if abs(self.width - goal) > TOLERANCE and not blocked:
            return
        self._goals.pop(0)
        if self._goals:
            return  # homing: the way back
        if self._tolerance is not None:
            low, high = self._tolerance
            self.grasped = blocked and low < self.width < high
            self.outcome = HandOutcome.SUCCESS if self.grasped else HandOutcome.UNSUCCESSFUL
        else:
            there = abs(self.width - goal) <= TOLERANCE
            self.outcome = HandOutcome.SUCCESS if there else HandOutcome.UNSUCCESSFUL

    def _approach(self, goal: float, reach: float) -> bool:
        """Go on towards a goal by `reach` [m] at most; whether something between the fingers stops
        them before it.
        """
        self.width += min(max(goal - self.width, -reach), reach)
        if self.object_width is None or self.width > self.object_width:
            return False
        self.width = self.object_width
        return goal < self.width
