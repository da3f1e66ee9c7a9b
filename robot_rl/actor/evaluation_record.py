"""What is kept of an evaluation, step by step: its episodes, and in simulation the truth behind them."""

from collections.abc import Sequence
from itertools import product, starmap
from pathlib import Path

import numpy as np

from robot_rl import geometry
from robot_rl.config.evaluation_files import add_rows
from robot_rl.env.observe import one_goal
from robot_rl.env.robot import RobotEnv
from robot_rl.stream.log import StepLog
from robot_rl.types import ArmState, Mark, Step

POSE = ("x", "y", "z", "qx", "qy", "qz", "qw")
MOVE = ("x", "y", "z", "rx", "ry", "rz")


class TruthTable:
    """What the simulator knows after each step of an evaluation, for whoever asks why an episode
    failed: a row of a CSV file per step, whose numbers are those in the evaluation's log.

    `success`; the pose `(7,)` in the first arm's base [m, quaternion xyzw] of each thing that can
    move, in the order of `WorldState.objects`; and of each arm the goal `(6,)` [m, rad] seen from its
    tool, as pretraining makes it of an episode that has been (`learner/goal_frames.py`): where the
    hand takes hold or lets go next, at last where the task is done.
    """

    def __init__(self, env: RobotEnv, path: Path):
        from robot_rl.sim.phases import next_places  # loads MuJoCo

        assert env.world is not None
        self._world, self._path = env.world, path
        self._goals = next_places(env.task.scene, env.task.axes) or one_goal(env.hardware)
        self._arms = len(env.hardware.arms)
        self._rows: list[tuple[object, ...]] = []

    def take_down(self, step: Step, arms: Sequence[ArmState]) -> None:
        """As the world stands behind a step, and the arms."""
        seen, tools = self._world.latest, [arm.pose_base_tcp for arm in arms]
        goals = starmap(geometry.pose_delta, zip(tools, self._goals(seen, tools), strict=True))
        numbers = np.concatenate([seen.objects.ravel(), *goals])
        self._rows.append((
            step.episode,
            step.index,
            int(seen.success),
            *(f"{n:.5g}" for n in numbers),
        ))

    def end_episode(self) -> None:
        """It is over, or broken off: its rows are written. DataError if the disk refuses."""
        things = range(len(self._world.latest.objects))
        poses = (f"object{thing}_{name}" for thing, name in product(things, POSE))
        goals = (name for arm in range(self._arms) for name in goal_names(arm))
        add_rows(self._path, ("episode", "index", "success", *poses, *goals), self._rows)
        self._rows.clear()


class EvaluationRecord:
    """Every step of all episodes goes to the `log`, and how the world stood behind it to the file
    `truth`, if there is one.
    """

    def __init__(self, log: StepLog, truth: TruthTable | None = None):
        self._log, self._truth = log, truth

    def take_down(self, step: Step, arms: Sequence[ArmState]) -> None:
        """A step, and the arms behind it."""
        self._log.append_step(step)
        if self._truth is not None:
            self._truth.take_down(step, arms)

    def end_episode(self, broken_off: Mark | None) -> None:
        """It is over. DataError if the disk refuses."""
        if self._truth is not None:
            self._truth.end_episode()
        if broken_off is not None:
            self._log.append_mark(broken_off)


def goal_names(arm: int) -> list[str]:
    """The columns that hold the goal `(6,)` of an arm."""
    return [f"goal{arm}_{name}" for name in MOVE]
