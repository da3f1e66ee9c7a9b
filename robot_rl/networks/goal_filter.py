"""The goal stands still while the arm moves: what single frames say of it, put together over an
episode.

Each frame gives the goal from the tool, with an error of its own. Seen from the episode's start
pose all frames of an episode mean the same pose, so their errors average out, and the nearest
frames, which are the most accurate, count most. A goal that is moved is followed within a second or
so: old frames are forgotten.
"""

import numpy as np

from robot_rl import geometry
from robot_rl.types import Array

MEMORY = 0.9
"""What the frames before count one step later: about ten of them together, a second at 10 Hz."""

ERROR_M, ERROR_PER_M = 3e-4, 0.02
"""[m] and [1]: the error of one frame, at the goal and what comes with distance. Only their ratio
matters.
"""


class GoalFilter:
    """A weighted mean of the goal's pose per arm, in the frame in which the tool's pose is given.

    ```
    goals = GoalFilter(arms=1)
    goals.begin_episode()
    # tool (arms, 6) from the start pose, goal (arms, 6) from the tool [m, rad]
    seen = goals.update(tool, goal)
    ```
    """

    def __init__(self, arms: int):
        self._arms = arms
        self.begin_episode()

    def begin_episode(self) -> None:
        """Forget the last episode's goal."""
        self._weight = np.zeros(self._arms)
        self._goal = np.tile(geometry.IDENTITY, (self._arms, 1))

    def update(self, tool: Array, goal: Array) -> Array:
        """The goal from the tool `(arms, 6)` float32, of this frame and those before it."""
        out = np.empty((self._arms, 6), np.float32)
        for arm in range(self._arms):
            pose = geometry.pose_from_vector(tool[arm])
            seen = geometry.pose_move(pose, goal[arm].astype(np.float64))
            weight = (ERROR_M + ERROR_PER_M * float(np.linalg.norm(goal[arm, :3]))) ** -2
            self._weight[arm] = MEMORY * self._weight[arm] + weight
            news = geometry.pose_delta(self._goal[arm], seen)
            share = weight / self._weight[arm]
            self._goal[arm] = (
                geometry.pose_move(self._goal[arm], share * news) if share < 1.0 else seen
            )
            out[arm] = geometry.pose_delta(pose, self._goal[arm])
        return out
