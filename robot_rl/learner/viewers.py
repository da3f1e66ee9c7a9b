"""The learner's figures for viewers that people know: TensorBoard where it is installed, Weights &
Biases if asked for.

`metrics.jsonl` has all of them without either. A disk that refuses a viewer's file is a warning: no
run ends for it.
"""

import importlib.util
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from robot_rl.config.run_folder import RunFolder
from robot_rl.types import ConfigError

log = logging.getLogger(__name__)


class Viewer(Protocol):
    """What is handed each line of figures, with the step that they are of."""

    def write(self, figures: Mapping[str, float], step: int) -> None: ...
    def close(self) -> None: ...


def require_wandb(project: str) -> None:
    """Raise ConfigError if a project of Weights & Biases is named and its package is not installed."""
    if project and not _is_installed("wandb"):
        raise ConfigError(
            f"--learner.wandb {project} needs a package that is not installed: pip install"
            " 'robot_rl[wandb]', or train without it: metrics.jsonl has the same figures"
        )


def viewers(folder: RunFolder, project: str) -> list[Viewer]:
    """Those that there are. ConfigError if W&B is asked for, by a project's name, and cannot be
    had.
    """
    found: list[Viewer] = [WeightsAndBiases(folder, project)] if project else []
    if _is_installed("tensorboard"):
        found.append(TensorBoard(folder))
    return found


def _is_installed(package: str) -> bool:
    """Whether there is such a package; a folder of that name, as viewers leave them where they run,
    is none.
    """
    spec = importlib.util.find_spec(package)
    return spec is not None and spec.origin is not None


class TensorBoard:
    """Event files in the run's folder, for `tensorboard --logdir runs`."""

    def __init__(self, folder: RunFolder):
        self._writer: Any = None
        with self._warned():
            from tensorboard.summary import Writer

            self._writer = Writer(str(folder.path / "tensorboard"))

    @contextmanager
    def _warned(self) -> Iterator[None]:
        """A package that does not work or a disk that refuses is a warning, once, and nothing more
        is written.
        """
        try:
            yield
        except (ImportError, OSError) as error:
            log.warning("the run goes on without files for TensorBoard: %s", error)
            self._writer = None

    def write(self, figures: Mapping[str, float], step: int) -> None:
        """Write each figure, and hand the file to the system."""
        if self._writer is not None:
            with self._warned():
                for name, value in figures.items():
                    self._writer.add_scalar(name, value, step)
                self._writer.flush()

    def close(self) -> None:
        """Let go of the file."""
        if self._writer is not None:
            with self._warned():
                self._writer.close()


class WeightsAndBiases:
    """A run of W&B with the folder's name and the run's own id: a resumed run goes on there."""

    def __init__(self, folder: RunFolder, project: str):
        require_wandb(project)
        import wandb

        settings = folder.settings
        facts = {"task": settings.task, "obs": settings.obs, "seed": settings.seed}
        try:
            self._run = wandb.init(
                project=project,
                name=folder.path.name,
                id=settings.id,
                resume="allow",
                dir=str(folder.path),
                config=facts | {"learner": folder.section("learner")},
            )
        except wandb.Error as error:
            raise ConfigError(
                f"Weights & Biases refuses: {error}. Log in (wandb login), or set"
                " WANDB_MODE=offline, or train without --learner.wandb"
            ) from error
        self._run.define_metric("*", step_metric="step")

    def write(self, figures: Mapping[str, float], step: int) -> None:
        """Hand the figures over; without a network they wait in the run's folder."""
        self._run.log({**figures, "step": step})

    def close(self) -> None:
        """Send what waits."""
        self._run.finish()
