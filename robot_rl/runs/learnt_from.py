"""What another run has learnt, for a new one to begin with: looked at before anything is made, then
copied as it is, so that the new run needs the other no more.

The other's scene, light or bench may have been another one: what decides is that networks, what is
observed and what an action means are the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from robot_rl.config import Task
from robot_rl.config.run_folder import LEARNT, RunFolder
from robot_rl.learner.checkpoint import Checkpoint, load_newest, save
from robot_rl.learner.options import LearnerConfig, make_agent, spec_for, take_over, with_encoder
from robot_rl.machine.sync import sync_path
from robot_rl.runs.demos_from import require_same_actions
from robot_rl.types import ConfigError, RobotRLError, SpaceSpec


@dataclass(frozen=True)
class Learnt:
    """A checkpoint of another run, and what the new one's config keeps of where it is from."""

    checkpoint: Checkpoint
    said: Mapping[str, Any]

    def copy_to(self, path: Path) -> None:
        """Put it into the folder of a new run."""
        save(path / LEARNT, self.said["step"], self.checkpoint)
        sync_path(path)


def look_at_learnt(path: Path, task: Task, learner: LearnerConfig, space: SpaceSpec) -> Learnt:
    """Read a run's newest checkpoint, and try it in an agent as the new run will have. Raises
    ConfigError with what is wrong with it, or does not fit.
    """
    try:
        folder = RunFolder(path)
        require_same_actions(folder.load_task(), task)
        learnt = load_newest(folder.checkpoints)
        if learnt is None:
            raise ConfigError(
                "it has no whole checkpoint of a learner: it has learnt nothing yet, or elsewhere"
            )
        if learner.encoder == "auto" and learnt.spec.cameras:
            learner = with_encoder(learner, learnt.spec.encoder)
        tried = replace(learner, compile=False, device="cpu")
        take_over(make_agent(tried, spec_for(tried, space), seed=0), learnt)
    except RobotRLError as error:
        raise ConfigError(f"what '{path}' has learnt cannot be begun with: {error}") from error
    settings = folder.settings
    said = {
        "run": str(folder.path), "id": settings.id, "task": settings.task,
        "hardware": settings.hardware, "step": int(learnt.counters["env_steps"]),
    }  # fmt: skip
    return Learnt(learnt, said)
