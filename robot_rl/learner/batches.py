"""What the updates learn from: drawn from the replay, augmented, on the device; each made while the
last is in use.

Whatever is random here comes from one generator, batch by batch in their order, so that the batches
depend on the seed and on the replay alone, and not on which thread made them or when.
"""

import math
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import astuple, dataclass
from itertools import cycle
from typing import Any

import numpy as np
import torch
from torch import Tensor

from robot_rl.learner.replay import Replay
from robot_rl.learner.windows import ONE_STEP, Window
from robot_rl.networks.policy_spec import PolicySpec
from robot_rl.types import ConfigError

BUFFERS = 3
"""One in use, one being made, and one that a GPU may still be copying from."""

PREFETCH_BYTES = 1_000_000
"""Images or features of a batch from which on a thread pays: it copies 20 GB/s, and handing over
takes 0.03 ms.
"""


@dataclass(frozen=True)
class SamplingPlan:
    """What an algorithm wants its batches to be: how many transitions, which share of them from
    demonstrations and corrections, and how far each reaches."""

    size: int
    demo_fraction: float = 0.5
    window: Window = ONE_STEP


@dataclass(frozen=True)
class SightNoise:
    """What is added, for the policy that learns, to what a frozen encoder makes of a frame: drawn anew
    for each batch.

    The encoder has learnt the frames of the replay by heart, and errs less in them than in those to
    come: a policy that sees them as they are trusts it further than it can be (docs/sight.md).
    Critics, which are asked about no other frames, see them as they are.

    Attributes:
        features: standard deviation of each of the cameras' features, which are in [-1, 1].
        goal_m: of where the goal is seen, along each axis [m].
        goal_per_m: what comes to it with each metre to the goal.
        goal_rad: of how the goal is seen to be turned, about each axis [rad].
    """

    features: float = 0.0
    goal_m: float = 0.0
    goal_per_m: float = 0.0
    goal_rad: float = 0.0

    def __post_init__(self) -> None:
        if not all(0.0 <= number < math.inf for number in astuple(self)):
            raise ConfigError(f"no number of a noise may be negative or endless; got {self}")

    def __bool__(self) -> bool:
        return any(astuple(self))

    def disturbed(self, vision: Tensor, goal_size: int, generator: np.random.Generator) -> Tensor:
        """What was seen in frames `(B, V)`, with the goals `(6 per arm)` at its end, and the noise."""
        noise = torch.from_numpy(generator.standard_normal(vision.shape, dtype=np.float32))
        cameras = vision.shape[1] - goal_size
        noise[:, :cameras] *= self.features
        goals = vision[:, cameras:].float().unflatten(1, (-1, 2, 3))
        away = torch.linalg.vector_norm(goals[:, :, 0], dim=-1, keepdim=True)
        of_goals = noise[:, cameras:].unflatten(1, (-1, 2, 3))
        of_goals[:, :, 0] *= self.goal_m + self.goal_per_m * away
        of_goals[:, :, 1] *= self.goal_rad
        return (vision + noise).to(vision.dtype)


@dataclass(frozen=True)
class BatchConfig:
    """The algorithm's `plan`; the encoder's `variants` of cached features, and `shift_pixels`,
    DrQ's random shift of each camera on its own, as far as the replay pads its frames (0: none).
    `noise` of what a frozen encoder sees, whose frames end with `goal_size` numbers of goals."""

    plan: SamplingPlan
    variants: int = 1
    shift_pixels: int = 0
    device: str = "cpu"
    noise: SightNoise = SightNoise()
    goal_size: int = 0


@dataclass
class _Buffer:
    """Memory for what is large of one batch, images and features; `copied`: the GPU has what was in
    it last.
    """

    large: dict[str, Tensor]
    copied: "torch.cuda.Event | None" = None


@dataclass(frozen=True)
class _Made:
    """A batch in host memory, where what is large of it lies, and the generator's state before it."""

    batch: dict[str, Tensor]
    buffer: _Buffer
    before: Mapping[str, Any]


class Batches:
    """Batches from a replay that is written to only between two calls of `draw`.

    ```
    with closing(batches.draw(count)) as drawn:
        for batch in drawn:
            agent.update(batch)
    ```
    A batch is good until two more have been drawn: the memory of its images and features is used
    again.
    """

    def __init__(self, replay: Replay, config: BatchConfig, generator: np.random.Generator):
        self._replay, self._config, self._generator = replay, config, generator
        self._on_gpu = config.device != "cpu"
        made = [
            _Buffer(replay.buffers(config.plan.size, pinned=self._on_gpu)) for _ in range(BUFFERS)
        ]
        self._buffers = cycle(made)
        size = sum(tensor.nbytes for tensor in made[0].large.values())
        self._pool = ThreadPoolExecutor(1, "batches") if size >= PREFETCH_BYTES else None

    def draw(
        self,
        count: int,
        until: Callable[[], bool] = lambda: False,
        demo_fraction: float | None = None,
    ) -> Generator[dict[str, Tensor], None, None]:
        """`count` batches, or fewer if `until()` turns true. Close the iterator when you leave it
        early.

        `demo_fraction`: another share of demonstrations than the plan's.
        """
        demo_fraction = self._config.plan.demo_fraction if demo_fraction is None else demo_fraction
        pending: Future[_Made] | None = None
        try:
            for left in reversed(range(count)):
                if until():
                    return
                made = self._make(demo_fraction) if pending is None else pending.result()
                pending = (
                    self._pool.submit(self._make, demo_fraction)
                    if self._pool is not None and left
                    else None
                )
                yield self._hand_over(made)
        finally:
            if pending is not None:  # drawn, but nobody learns from it: as if it had not been
                self._generator.bit_generator.state = pending.result().before

    def _make(self, demo_fraction: float) -> _Made:
        config, generator, size = self._config, self._generator, self._config.plan.size
        before = generator.bit_generator.state if self._pool is not None else {}
        buffer = next(self._buffers)
        if buffer.copied is not None:
            buffer.copied.synchronize()
        n_demo = round(size * demo_fraction)
        indices = self._replay.sample(generator, n_demo, size - n_demo)
        variants = None
        if config.variants > 1:
            drawn = generator.integers(0, config.variants, (2, size))
            variants = (drawn[0], drawn[1])
        shifts = None
        if config.shift_pixels:
            corners = 2 * config.shift_pixels + 1
            shifts = {name: generator.integers(0, corners, (size, 2)) for name in buffer.large}
        batch = self._replay.gather(indices, variants, config.plan.window, buffer.large, shifts)
        if config.noise:
            seen, goal_size = batch["vision"], config.goal_size
            batch["disturbed"] = config.noise.disturbed(seen, goal_size, generator)
        return _Made(shaped(batch), buffer, before)

    def _hand_over(self, made: _Made) -> dict[str, Tensor]:
        if not self._on_gpu:
            return made.batch
        batch = {
            name: tensor.to(self._config.device, non_blocking=True)
            for name, tensor in made.batch.items()
        }
        made.buffer.copied = torch.cuda.Event()
        made.buffer.copied.record()
        return batch


def shaped(batch: dict[str, Tensor]) -> dict[str, Tensor]:
    """A batch of `Replay.gather` whose rewards are shaped, where it has potentials: `r + gamma
    Phi(s') - Phi(s)` (Ng, Harada and Russell 1999).

    A terminal state has none, and behind a time limit it counts as the value does there. Over the
    m steps of a window what lies between cancels: `R + gamma^m Phi(s_m) - Phi(s_0)`.
    """
    if "potential" in batch:
        here, there = batch.pop("potential"), batch.pop("next_potential")
        batch["reward"] += batch["discount"] * (1.0 - batch["terminated"]) * there - here
    return batch


def blank_batch(spec: PolicySpec, config: BatchConfig, cached_size: int) -> dict[str, Tensor]:
    """A batch of zeros with the shapes of those to come, for a compiler to look at.

    `cached_size` numbers are cached of a frame of all cameras, if the encoder is such a one.
    """
    shapes: dict[str, tuple[int, ...]] = {
        "state": (spec.state_size,),
        "action": (spec.action_size,),
    }
    shapes |= {
        "next_state": (spec.state_size,),
        "reward": (),
        "terminated": (),
        "discount": (),
        "demo": (),
    }
    if spec.choices:
        shapes |= {"ordered": (len(spec.actions.discrete),), "toggles": ()}
    if spec.choices or len(spec.actions.arms) > 1:
        shapes["corrected"] = (spec.action_size,)
    batch = {name: torch.zeros(config.plan.size, *shape) for name, shape in shapes.items()}
    if spec.info.cached:
        names = ["vision", "next_vision", *(["disturbed"] if config.noise else [])]
        batch |= {name: torch.zeros(config.plan.size, cached_size).half() for name in names}
    elif spec.cameras:
        names = [prefix + name for name in spec.cameras for prefix in ("image/", "next/image/")]
        batch |= {
            name: torch.zeros(config.plan.size, *spec.image_size, 3, dtype=torch.uint8)
            for name in names
        }
    return {name: tensor.to(config.device) for name, tensor in batch.items()}
