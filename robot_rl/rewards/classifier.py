"""A judge that was taught by frames: `robot-rl outcomes` collects them, `robot-rl reward train`
makes it of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robot_rl import interfaces
from robot_rl.classifier.options import SIZE, Crop, Inputs
from robot_rl.classifier.score import Firing, Predicates
from robot_rl.interfaces import Given
from robot_rl.types import (
    ArmState,
    ConfigError,
    JudgeInputs,
    Observation,
    OperatorCommand,
    RewardResult,
)

if TYPE_CHECKING:
    from robot_rl.config import Task

ENDS = (OperatorCommand.SUCCESS, OperatorCommand.FAILURE)


@dataclass(frozen=True, kw_only=True)
class Options(Predicates):
    """Which classifier, what it looks at, and what has to hold beside it."""

    name: str
    """The classifier's, as in `robot-rl reward train NAME`."""
    folder: str = "classifiers"
    """Where classifiers lie, each in a folder of its name; a run has its own."""
    version: int = 0
    """Which version of it; 0: the newest."""
    stages: tuple[str, ...] = ()
    """Classifiers that have to fire before, one after the other, in this order; a run keeps those
    as they are, and fits the last again."""
    cameras: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Cameras that it looks through, with height and width of their pictures; those of the task, as
    the policy sees them, if not said."""
    crops: Mapping[str, Crop] = field(default_factory=dict)
    """For a training that `train` begins itself: x y width height of what it sees of each camera,
    as shares of the frame."""
    size: int = 0
    """For such a training: height and width in pixels of what it sees, once cropped; 0: 64."""
    numbers: tuple[str, ...] = ()
    """Of height, force and width those that it is told beside the pictures."""

    def __post_init__(self) -> None:
        if not self.name or self.name in self.stages or len({*self.stages}) < len(self.stages):
            raise ConfigError(
                f"reward 'classifier': name {self.name!r} and stages {list(self.stages)}: wanted a"
                " name, and each of them once"
            )
        Inputs((), size=self.size or SIZE)


class Reward(interfaces.Reward):
    """1 when the classifier has seen success in some frames in a row, where the predicates hold.

    ```
    reward=Use("classifier", {"name": "peg_in", "height_below": 0.004})
    ```
    The operator's word counts as well: success and failure end the episode.
    """

    def __init__(self, options: Options, given: Given):
        # PyTorch is loaded where somebody judges, not where options are read
        from robot_rl.classifier.files import load
        from robot_rl.classifier.strange import calm

        self.options, self._calm = options, calm
        versions = [(name, 0) for name in options.stages] + [(options.name, options.version)]
        self._stages = [load(Path(options.folder) / name, version) for name, version in versions]
        self.begin_episode()

    @classmethod
    def inputs(cls, options: Options, task: "Task") -> JudgeInputs:
        """The cameras that are named, or the task's; the numbers, those of the predicates too."""
        cameras = options.cameras or dict.fromkeys(task.cameras, task.image_size)
        return JudgeInputs(cameras, tuple(dict.fromkeys((*options.numbers, *options.bounds))))

    @property
    def version(self) -> int:  # type: ignore[override]
        """Of the classifier that says the last word."""
        return self._stages[-1].version

    @property
    def metrics(self) -> Mapping[str, Any]:
        """What that version is worth on episodes that it has not learnt from."""
        return self._stages[-1].metrics

    def load(self, version: int) -> None:
        """Go on with that version. Raises ConfigError or DataError, and the one before stays."""
        from robot_rl.classifier.files import load

        self._stages[-1] = load(Path(self.options.folder) / self.options.name, version)
        self.begin_episode()

    def begin_episode(self) -> None:
        """Nothing has been seen of this one."""
        self.probability, self.strangeness, self.doubtful = None, None, False
        self._strange: list[float] = []
        self._begin_stage(0)

    def judge(
        self, observation: Observation, arms: Sequence[ArmState], outcome: OperatorCommand
    ) -> RewardResult:
        """1 at success, which ends the episode, else 0."""
        classifier = self._stages[self._stage]
        is_last = self._stage == len(self._stages) - 1
        self.probability, strange = classifier.judge(observation)
        if is_last and strange is not None:
            self._strange.append(strange)
            self.strangeness = self._calm(self._strange)
        allowed = not is_last or self.options.allow(observation)
        said = self._firing.see(self.probability, allowed=allowed)
        self.doubtful = is_last and said == "doubtful"
        if outcome in ENDS:
            success = outcome == OperatorCommand.SUCCESS
            return RewardResult(float(success), True, success)
        if said == "success" and not is_last:
            self._begin_stage(self._stage + 1)
        success = said == "success" and is_last
        return RewardResult(float(success), success, success)

    def _begin_stage(self, stage: int) -> None:
        self._stage = stage
        self._firing = Firing(self._stages[stage].rule)
