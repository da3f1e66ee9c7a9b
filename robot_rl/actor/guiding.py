"""Opening the guide of a run: its demonstration, the moments that were marked in it, and where the
policy sees the goal.
"""

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from robot_rl.config.guide_marks import GuideMarks, read_marks
from robot_rl.config.run_folder import RunFolder
from robot_rl.dataset.assembly import EpisodeKey
from robot_rl.dataset.counts import EPISODES, guided_steps
from robot_rl.env.observe import SIM_GOAL
from robot_rl.env.robot import RobotEnv
from robot_rl.machine.small_files import read_lines
from robot_rl.operator.guide import Guide, GuideOperator, GuideOptions, moments_of
from robot_rl.stream.episodes import meant, newest_by_key, said_late_s
from robot_rl.stream.log import StepLog
from robot_rl.types import PLACE, Array, ConfigError, SpaceSpec, Step

log = logging.getLogger(__name__)


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


class Shown(NamedTuple):
    """The demonstration that the guide leads along: which one of its log, `actor/epoch/episode`, and
    its steps up to the one at which it has succeeded.
    """

    name: str
    steps: list[Step]


def demonstration_of(folder: RunFolder) -> Shown:
    """The run's newest demonstration. Raises ConfigError if none has succeeded, DataError for a log
    that is damaged.
    """
    path, newest = folder.demos_log, {}
    if path.exists():
        with StepLog(path, folder.spaces(), read_only=True) as demos:
            newest = newest_by_key(demos.entries, most=1)
    if not newest:
        raise ConfigError(
            f"the guide: {path} holds no demonstration that succeeded, which it could lead along:"
            " record one (--demos)"
        )
    ((key, episode),) = newest.items()
    task = folder.load_task()
    late_s = max(said_late_s(task.half(backward)) for backward in (False, True))
    success = meant(episode.steps, late_s)
    return Shown(str(EpisodeKey(*key)), episode.steps[: success.index + 1])


def marks_of(folder: RunFolder, demonstration: str) -> tuple[GuideMarks, str]:
    """What a person has marked in this demonstration of the run, and why marks that there are do not
    count, in words ("": they do, or there are none). Raises DataError for a file that is damaged.
    """
    marks = read_marks(folder.guide_file)
    if marks is None:
        return GuideMarks(demonstration), ""
    if marks.demonstration == demonstration:
        return marks, ""
    return GuideMarks(demonstration), (
        f"{folder.guide_file} marks moments of demonstration {marks.demonstration}, and the guide"
        f" takes {demonstration}: they are not used. Mark those of this one with: robot-rl guide"
        f" {folder.path}"
    )


def with_marks(options: GuideOptions, marks: GuideMarks) -> GuideOptions:
    """The options, with what was marked in the place of what they leave to be found."""
    safe, contact = options.safe_step, options.contact_step
    return replace(
        options,
        safe_step=safe if safe >= 0 else marks.safe_step,
        contact_step=contact if contact >= 0 else marks.contact_step,
    )


def marked_options(folder: RunFolder, shown: Shown, options: GuideOptions) -> GuideOptions:
    """The options for this demonstration, with what a person has marked in it. Raises ConfigError if
    the moments do not fit it, DataError for a file of marks that is damaged.
    """
    marked = with_marks(options, marks_of(folder, shown.name)[0])
    try:
        moments_of(shown.steps, marked)
    except ConfigError as error:
        if marked == options:
            raise
        raise ConfigError(
            f"{error}. Not all of that was said here, some is marked in {folder.guide_file}: move"
            f" the file away, or mark the moments anew with: robot-rl guide {folder.path}"
        ) from error
    return marked


def open_guide(
    folder: RunFolder,
    env: RobotEnv,
    goal: Callable[[], Array | None],
    options: GuideOptions,
    *,
    sees_goal: bool,
) -> GuideOperator:
    """The guide along the run's newest demonstration; the moments are those of the options, else
    those that a person has marked, else found. `sees_goal`: the policy's encoder predicts the goal.
    What the run's episodes say of how often it was needed counts.
    Raises ConfigError if it cannot lead here, if there is no demonstration or the moments do not fit
    it, DataError for marks or a log that are damaged.
    """
    require_guidable(env.space_spec, sees_goal=sees_goal)
    shown = demonstration_of(folder)
    if warning := marks_of(folder, shown.name)[1]:
        log.warning(warning)
    guide = Guide(marked_options(folder, shown, options), env.task, shown.steps, goal)
    for row in read_lines(folder.episodes_file, EPISODES):  # of a run that is resumed
        guide.count(bool(row["success"]), guided_steps(row) > 0)
    return GuideOperator(guide, actions=env.space_spec.actions)
