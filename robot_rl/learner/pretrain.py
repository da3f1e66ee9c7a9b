"""The training of the encoders "goal" and "goal_points": all cameras together regress the goal on
the frames of which it is known (`learner/goal_frames.py`); the encoder is then frozen and its
features are computed once per frame.

A shift of a picture moves the goal that it shows, seen from the camera. Where the camera's mount
itself may move, that is what should be learnt: the tool is in the picture as well, and where the
goal is from there stays the same (`shift`).
"""

import contextlib
import copy
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from robot_rl.learner.divergence import tensor_not_finite
from robot_rl.learner.goal_frames import GoalFrames, goal_frames
from robot_rl.learner.goal_loss import NEAR_M, misses, near_weights, nearest
from robot_rl.learner.goal_shifts import BenchTraining
from robot_rl.learner.shown import Shown
from robot_rl.networks.augment import photometric, random_shift
from robot_rl.networks.encoders import convolution_dtype
from robot_rl.networks.goal import GoalVision
from robot_rl.networks.goal_places import PlacedGoalVision
from robot_rl.networks.policy import Policy
from robot_rl.networks.vision import encode
from robot_rl.stream.episodes import EndedEpisode
from robot_rl.types import Array, DataError, DivergedError

log = logging.getLogger(__name__)

LEAST_SCENES, EACH = 5, 5
"""With fewer scenes nothing is measured; of more, every fifth is held out to measure on."""

TRIED_UPDATES = 250
"""So many are enough to see whether the pictures show the goal."""

SEEN = 0.5
"""A goal is seen where the pictures' error is less than such a share of what a guess misses by: 0.05
in peg_insert, 0.14 in pick_cube, 0.61 in pick_cube with blank pictures.
"""

Progress = Callable[[int, int], None]


def no_progress(done: int, total: int) -> None:
    """Nobody is told."""


@dataclass(frozen=True)
class PretrainConfig:
    """How the encoder is trained on the demonstrations, before the rest.

    Attributes:
        epochs: they bound the work (a run must repeat for a seed). 2,700 frames of two cameras at
            128 px take about 2 s per epoch on two cores with bfloat16.
        max_seconds: on a machine that is too slow for the epochs it ends them, and the learning rate
            has come down by then. What a run learns then depends on the machine and on what else it
            does: `robot-rl doctor` says so, where scenes are held out.
        batch_size: frames of one update.
        learning_rate: of AdamW, at its highest.
        weight_decay: of AdamW.
        brightness: strength of the photometric augmentation, as a share of the full range.
        shift: each camera's pictures are moved by up to so many pixels, for a mount that is not
            always the same, or lest few scenes are learnt by heart; 0: the frame tells more then.
        still_shift: pictures of cameras that stand still (`still_cameras`) are moved by up to so many
            pixels, and the goals on the bench that they show with them (`learner/goal_shifts.py`).
        shift_beyond: only where the goal is at least so far away [m]. Near it a pixel is a millimetre,
            which is what the picture is to tell.
        held_out: so many scenes (a demonstration and the wandering after it) are not trained on;
            the reported error is theirs.
        renew_at: after so many own steps, each, the encoder is trained on, with frames of the run's
            own episodes as well, as far as the goal is known there too. They show what the
            demonstrations do not, a tool that the policy has brought somewhere.
        renew_below: not while such a share of the newest 20 own episodes succeeds without help, but once
            it is less: actor and critics have to learn anew what they see.
        renew_epochs: for how long.
        renew_episodes: the newest so many episodes are shown.
        renew_updates: so many updates follow at once.
    """

    epochs: int = 36
    max_seconds: float = 3_000.0
    batch_size: int = 64
    learning_rate: float = 1e-3
    weight_decay: float = 0.03
    brightness: float = 0.1
    shift: int = 0
    shift_beyond: float = 0.0
    still_shift: int = 8
    held_out: int = 1
    renew_at: tuple[int, ...] = ()
    renew_below: float = 0.9
    renew_epochs: int = 12
    renew_episodes: int = 300
    renew_updates: int = 1_000


@dataclass(frozen=True)
class GoalError:
    """Median errors on scenes that were held out, all frames and those with the goal nearer than 15
    mm. `trained`: the share of the asked updates that were made before the time was over.
    """

    frames: int
    position_mm: float
    rotation_deg: float
    near_position_mm: float
    near_rotation_deg: float
    trained: float = 1.0

    def __str__(self) -> str:
        return (
            f"{self.position_mm:.2f} mm, {self.rotation_deg:.2f} deg; near the goal"
            f" {self.near_position_mm:.2f} mm, {self.near_rotation_deg:.2f} deg (medians of"
            f" {self.frames} held-out frames)"
        )


@dataclass(frozen=True)
class Sight:
    """Whether pictures show where the goal is: by how much [mm, medians] the encoder misses the
    goals of scenes that it has not learnt from, and a guess that has seen no picture; of several
    arms all together, so that one counts as much as it does not know without.
    """

    error_mm: float
    guess_mm: float

    @property
    def seen(self) -> bool:
        """Whether it is worth to learn where the goal is."""
        return self.error_mm < SEEN * self.guess_mm

    def __str__(self) -> str:
        return (
            f"in scenes that it has not learnt from, the encoder misses the goal by"
            f" {self.error_mm:.1f} mm, a guess without any picture by {self.guess_mm:.1f} mm"
        )


def sight(
    vision: GoalVision,
    frames: GoalFrames,
    config: PretrainConfig,
    seed: int,
    progress: Progress = no_progress,
) -> Sight | None:
    """Try, with a copy of `vision`, whether the frames show where the goal is; None where there are
    too few scenes to say, or all have one goal.

    The guess is where the goals of the other scenes are, seen from the first frame: all that is
    known without a picture.
    """
    scenes, first = np.unique(frames.scenes, return_index=True)
    held = scenes % EACH == EACH - 1
    if len(scenes) < LEAST_SCENES or not held.any():
        return None
    starts = frames.goals[first].reshape(len(scenes), -1, 6)[..., :3]
    guess = np.nanmean(starts[~held], 0)
    guess_m = np.nanmedian(np.linalg.norm(starts[held] - guess, axis=-1), 0).sum()
    if guess_m < NEAR_M / 2:
        return None
    shown = np.flatnonzero(~np.isin(frames.scenes, scenes[held]))
    epochs = min(config.epochs, -(-TRIED_UPDATES // max(1, len(shown) // config.batch_size)))
    tried, shorter = copy.deepcopy(vision), replace(config, epochs=epochs, held_out=0)
    pretrain(tried, frames.rows(shown), shorter, seed, progress)
    unseen = np.flatnonzero(np.isin(frames.scenes, scenes[held]))
    error_m = np.nanmedian(np.linalg.norm(_errors(tried, frames, unseen)[..., :3], axis=-1), 0)
    return Sight(1e3 * float(error_m.sum()), 1e3 * float(guess_m))


def pretrain(
    vision: GoalVision,
    frames: GoalFrames,
    config: PretrainConfig,
    seed: int,
    progress: Progress = no_progress,
) -> GoalError | None:
    """Train `vision` in place to predict the goals. Returns its error on the held-out scenes, None
    without any.

    `progress` is called before each gradient step with (steps done, steps in all); what it raises
    ends the training.
    """
    begun, generator = time.monotonic(), np.random.default_rng(seed)
    train, test = _split(frames.scenes, config.held_out)
    device = vision.goal_mean.device
    goals, told = (torch.from_numpy(a).to(device) for a in (frames.goals, frames.told))
    vision.scale_to(goals[train], told[train])
    weights = near_weights(goals, train)
    bench = (
        BenchTraining(vision, config.still_shift) if isinstance(vision, PlacedGoalVision) else None
    )
    vision.set_dtype(convolution_dtype(device))
    vision.requires_grad_(True)
    steps = config.epochs * max(1, len(train) // config.batch_size)
    rate = config.learning_rate
    optimizer = torch.optim.AdamW(vision.parameters(), rate, weight_decay=config.weight_decay)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, rate, total_steps=steps, pct_start=0.1
    )
    trained = 1.0
    for step, rows in enumerate(_minibatches(train, config, generator)):
        share = (time.monotonic() - begun) / config.max_seconds
        if share > 1.0:
            log.warning("pretraining stopped after %d of %d steps: time is over", step, steps)
            trained = step / steps
            break
        progress(step, steps)
        # augment, predict, and compare; near goals count more
        images = augmented(frames, rows, config, generator, device)
        chosen = torch.from_numpy(rows)
        _, seen = vision.sees(images, told[chosen])
        loss = (misses(seen, goals[chosen], vision.goal_std) * weights[rows]).mean()
        if bench is not None:
            pictures, pixels = bench.pictures(frames, rows, generator)
            images = in_other_light(pictures, config, generator, device)
            loss = loss + bench.loss(images, pixels, goals[chosen], told[chosen])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        # where time is shorter than the steps, the rate comes down with the time
        due = min(steps, max(step + 1, int(share * steps)))
        while schedule.last_epoch < due:
            schedule.step()
    # frozen features are computed once per frame, by the actor as by the learner
    vision.set_dtype(torch.float32)
    vision.requires_grad_(False)
    error = replace(goal_error(vision, frames, test), trained=trained) if len(test) else None
    took = time.monotonic() - begun
    log.info("encoder pretrained on %d frames in %.0f s: %s", len(train), took, error)
    return error


def _split(scenes: Array, held_out: int) -> tuple[Array, Array]:
    """The rows to train on, and those of the last scenes, to test on. One scene is trained on."""
    held = (scenes >= scenes.max() + 1 - held_out) & (scenes > 0)
    return np.flatnonzero(~held), np.flatnonzero(held)


class Pretraining:
    """How the encoder of a run comes to know the goal, if it is one that does, and is renewed.

    ```
    pretraining = Pretraining(policy, config, seed)
    pretraining.begin(shown, progress)
    if pretraining.due(env_steps):
        pretraining.renew(shown, own, env_steps, progress)
    ```
    `threads` work on it: nothing else runs meanwhile. `said_late_s`: how much later success is said
    than it is meant, where a person judges. `error`: that of the encoder as it is.
    """

    def __init__(
        self,
        policy: Policy,
        config: PretrainConfig,
        seed: int,
        threads: int,
        said_late_s: float = 0.0,
    ):
        self._policy, self._spec, self._config = policy, policy.spec, config
        self._seed, self._threads, self._said_late_s = seed, threads, said_late_s
        self.error: GoalError | None = None
        self.renewals = 0

    def look(self, shown: Shown, progress: Progress) -> Sight | None:
        """Whether the demonstrations show where the goal is (`sight`); None too for an encoder that
        does not predict it.
        """
        if not isinstance(self._policy.vision, GoalVision):
            return None
        frames = self._frames(shown)
        with self._all_threads():
            return sight(self._policy.vision, frames, self._config, self._seed, progress)

    def begin(self, shown: Shown, progress: Progress) -> None:
        """Train the encoder on what was shown, if it is one that predicts the goal."""
        if isinstance(self._policy.vision, GoalVision):
            frames = self._frames(shown)
            self._train(self._policy.vision, frames, self._config, self._seed, progress)

    def go_on(self, shown: Shown, progress: Progress) -> None:
        """Train an encoder that another run has trained further, on what was shown in this one, if
        anything was.
        """
        vision = self._policy.vision
        if isinstance(vision, GoalVision) and (shown.steps or shown.outcomes):
            again = replace(self._config, epochs=self._config.renew_epochs)
            self._train(vision, self._frames(shown), again, self._seed, progress)

    def due(self, env_steps: int) -> bool:
        """Whether it is time to renew the encoder."""
        return self._spec.renewed and self._asked(env_steps) > self.renewals

    def _asked(self, env_steps: int) -> int:
        return sum(env_steps >= steps for steps in self._config.renew_at)

    def renew(
        self, shown: Shown, own: Sequence[EndedEpisode], env_steps: int, progress: Progress
    ) -> dict[str, Tensor]:
        """Train a copy of the encoder further, on the run's `own` episodes too: its weights, to be
        taken over.

        If `progress` raises, everything is as it was.
        """
        if not isinstance(self._policy.vision, GoalVision):
            raise DataError("this encoder is not pretrained here, so it cannot be renewed")
        renewed = copy.deepcopy(self._policy.vision)
        frames = self._frames(shown, own)
        asked = self._asked(env_steps)
        again = replace(self._config, epochs=self._config.renew_epochs)
        self._train(renewed, frames, again, self._seed + asked, progress)
        self.renewals = asked
        return renewed.state_dict()

    def _frames(self, shown: Shown, own: Sequence[EndedEpisode] = ()) -> GoalFrames:
        late_s = self._said_late_s
        return goal_frames(shown.steps, self._spec, own, shown.outcomes, said_late_s=late_s)

    def _train(
        self,
        vision: GoalVision,
        frames: GoalFrames,
        config: PretrainConfig,
        seed: int,
        progress: Progress,
    ) -> None:
        with self._all_threads():
            self.error = pretrain(vision, frames, config, seed, progress)
        if name := tensor_not_finite(vision.state_dict()):
            raise DivergedError(
                f"the pretraining of the encoder has diverged on {len(frames.goals)} frames:"
                f" '{name}' has numbers that are not finite; learning rate {config.learning_rate:g}"
            )

    @contextlib.contextmanager
    def _all_threads(self) -> Iterator[None]:
        others = torch.get_num_threads()
        torch.set_num_threads(self._threads)
        try:
            yield
        finally:
            torch.set_num_threads(others)


def _minibatches(
    rows: Array, config: PretrainConfig, generator: np.random.Generator
) -> Iterator[Array]:
    for _ in range(config.epochs):
        order = generator.permutation(rows)
        for i in range(max(1, len(rows) // config.batch_size)):
            yield order[i * config.batch_size : (i + 1) * config.batch_size]


def augmented(
    frames: GoalFrames,
    rows: Array,
    config: PretrainConfig,
    generator: np.random.Generator,
    device: torch.device,
) -> dict[str, Tensor]:
    """The pictures of these rows, shifted where that is asked for, in another light."""
    pictures = {name: array[rows] for name, array in frames.images.items()}
    if config.shift:
        far = np.flatnonzero(
            nearest(torch.from_numpy(frames.goals[rows])).numpy() >= config.shift_beyond
        )
        for array in pictures.values():
            array[far] = random_shift(array[far], generator, config.shift)
    return in_other_light(pictures, config, generator, device)


def in_other_light(
    pictures: Mapping[str, Array],
    config: PretrainConfig,
    generator: np.random.Generator,
    device: torch.device,
) -> dict[str, Tensor]:
    """Pictures as floats in 0..255 on the device, each with a gain and a brightness of its own."""
    dtype = convolution_dtype(device)
    images = {n: torch.from_numpy(np.ascontiguousarray(a)).to(device) for n, a in pictures.items()}
    return {n: photometric(i, generator, config.brightness, dtype) for n, i in images.items()}


def goal_error(
    vision: GoalVision, frames: GoalFrames, rows: Array, near_m: float = 0.015
) -> GoalError:
    """How far the predicted goals of some frames are from the true ones (medians over frames and
    arms).
    """
    goals = frames.goals[rows].reshape(-1, 6)
    known = ~np.isnan(goals[:, 0])
    error = _errors(vision, frames, rows).reshape(-1, 6)[known]
    position = 1e3 * np.linalg.norm(error[:, :3], axis=1)
    rotation = np.degrees(np.linalg.norm(error[:, 3:], axis=1))
    near = np.linalg.norm(goals[known, :3], axis=1) < near_m
    near = near if near.any() else np.ones_like(near)
    medians = (
        float(np.median(values)) for values in (position, rotation, position[near], rotation[near])
    )
    return GoalError(len(rows), *medians)


def _errors(vision: GoalVision, frames: GoalFrames, rows: Array) -> Array:
    """What the predicted goals of some frames are off by `(N, arms, 6)` [m, rad], nan where nobody
    knows the goal. Small angles: the difference of rotation vectors is the angle between.
    """
    images = {name: array[rows] for name, array in frames.images.items()}
    seen = encode(vision, images, frames.told[rows])[:, -frames.goals.shape[1] :]
    error: Array = (seen.astype(np.float32) - frames.goals[rows]).reshape(len(rows), -1, 6)
    return error
