"""Opening the guide of a run: its demonstration, and where the policy sees the goal."""

from collections.abc import Callable

from robot_rl.config.run_folder import RunFolder
from robot_rl.env.observe import SIM_GOAL
from robot_rl.env.robot import RobotEnv
from robot_rl.operator.guide import Guide, GuideOperator, GuideOptions
from robot_rl.stream.episodes import REACTION_S, meant, newest_episodes
from robot_rl.stream.log import StepLog
from robot_rl.types import PLACE, Array, ConfigError, SpaceSpec, Step


def require_guidable(space: SpaceSpec, *, sees_goal: bool) -> None:
    """Raise ConfigError if the guide cannot lead in these spaces: it leads one arm, moves no
    gripper, and has to know where the goal is; `sees_goal`: the policy's encoder predicts it.
    """
    problems = []
    if len(space.actions.arms) > 1:
        problems.append(f"it leads one arm, and there are {len(space.actions.arms)}")
    if space.actions.discrete:
        problems.append("it moves no gripper, and the task does")
    names = [name.rpartition("/")[2] for name in space.observations]
    if not (sees_goal or SIM_GOAL in names or PLACE in names):
        problems.append(
            "nothing says where the goal is: take an encoder that predicts it (--learner.encoder"
            " goal), or, where it never moves, `observe_place` in the task file"
        )
    if problems:
        raise ConfigError("actor.guided: the guide cannot lead here: " + "; ".join(problems))


def open_guide(
    folder: RunFolder,
    env: RobotEnv,
    goal: Callable[[], Array | None],
    options: GuideOptions,
) -> GuideOperator:
    """The guide along the run's newest demonstration. Raises ConfigError if there is none, or if
    neither the policy's `goal` nor the demonstration says where the goal is.
    """
    needs_operator, log = env.reward.needs_operator, folder.demos_log
    with StepLog(log, folder.spaces(), read_only=True) as demos:
        newest = newest_episodes(demos.entries, most=1)
    if not newest:
        raise ConfigError(
            f"actor.guided: {log} holds no demonstration that succeeded, which the guide could lead"
            " along: record one (--demos)"
        )
    steps = newest[0].steps
    way: list[Step] = steps[: meant(steps, REACTION_S if needs_operator else 0.0).index + 1]
    guide = Guide(options, env.task, way, goal)
    return GuideOperator(guide, actions=env.space_spec.actions)
