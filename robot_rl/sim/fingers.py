"""The Franka Hand whose fingers move in the arm's own world, grip by friction and drop things.

What it may be asked, and how an order ends, is `hand.py`'s; the bodies, pads and drive are added by
`panda.py`. The drive is a stiff spring in the width, whose force is bounded by what was asked for.
"""

import mujoco

from robot_rl.sim.hand import LEAST_FORCE, MAX_WIDTH, MOST_FORCE, Hand, HandOutcome
from robot_rl.types import Array

STILL_S, STILL_SHARE = 0.03, 0.1
"""Fingers that move at less than this share of the speed asked for, for so long, are blocked."""

HOLDS_M = 0.001
"""What the scene has put between the fingers may be held so much wider or narrower."""


class Fingers(Hand):
    """The hand of an arm with fingers; `places` are those of the two in `qpos`, `prefix` stands before
    the names of the arm's parts.

    ```
    fingers.grasp(0.02, 0.005, 0.005, speed=0.05, force=40.0)
    while fingers.outcome is None: fingers.step(0.001); mujoco.mj_step(model, data)
    ```
    `grasped` stays true as long as what was grasped is still between the fingers. An order that is
    through leaves the drive as it is: a grasp goes on with its force until another order comes.
    """

    has_world = True

    def __init__(self, model: mujoco.MjModel, data: mujoco.MjData, places: Array, prefix: str = ""):
        super().__init__()
        self._data, self._places = data, places
        drive = model.actuator(prefix + "fingers").id
        self._wanted, self._force = data.ctrl[drive : drive + 1], model.actuator_forcerange[drive]
        self._before, self._still_s, self._dt = 0.0, 0.0, model.opt.timestep
        self._ticks = 0

    def begin(self) -> None:
        """A reset has put the fingers somewhere: they stand there, and what a scene has put between
        them they hold.
        """
        self.width = self._before = self._measured()
        self.outcome, self.grasped, self._goals, self._ticks = HandOutcome.SUCCESS, False, [], 0
        self._wanted[:], self._force[:] = self.width, (-LEAST_FORCE, LEAST_FORCE)
        if self.width < MAX_WIDTH - HOLDS_M:
            self._tolerance = (self.width - HOLDS_M, self.width + HOLDS_M)
            self._wanted[:], self.grasped = 0.0, True

    def grasp(
        self, width: float, inner: float, outer: float, speed: float, force: float = LEAST_FORCE
    ) -> None:
        super().grasp(width, inner, outer, speed)
        if self.outcome is None:
            force = min(max(force, LEAST_FORCE), MOST_FORCE)
            self._force[:] = -force, force

    def stop(self) -> None:
        """Stand still, with the force of the order before."""
        super().stop()
        self._wanted[:] = self._measured()

    def step(self, dt: float) -> None:
        """Before each step of the world: move the drive on, and see what has become of the order;
        once it is through, every hundredth of a second.
        """
        self._ticks += 1
        if self.outcome is not None and self._ticks % 10:
            return
        self.width = self._measured()
        super().step(dt)
        if self.grasped and self._tolerance is not None:
            low, high = self._tolerance
            self.grasped = low < self.width < high

    def _start(self, goals: list[float], speed: float) -> None:
        super()._start(goals, speed)
        self._still_s = 0.0
        if self.outcome is None:
            self._wanted[:] = self._measured()
            self._force[:] = -LEAST_FORCE, LEAST_FORCE

    def _approach(self, goal: float, reach: float) -> bool:
        still = abs(self.width - self._before) < STILL_SHARE * reach
        self._still_s = self._still_s + self._dt if still else 0.0
        self._before = self.width
        wanted = float(self._wanted[0])
        self._wanted[:] = wanted + min(max(goal - wanted, -reach), reach)
        blocked = self._still_s > STILL_S
        if blocked:  # press with all the force of the order
            self._wanted[:], self._still_s = goal, 0.0
        return blocked

    def _measured(self) -> float:
        return float(self._data.qpos[self._places].sum())
