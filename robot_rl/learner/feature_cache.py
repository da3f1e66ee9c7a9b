"""What a frozen encoder makes of the steps' frames, for the replay: each frame is seen once, not
once per update.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from robot_rl.learner.feature_file import FeatureFile, hash_of
from robot_rl.learner.options import LearnerConfig, variants_for
from robot_rl.networks.augment import photometric, random_shift
from robot_rl.networks.goal import GoalFilter
from robot_rl.networks.policy import Policy
from robot_rl.networks.vision import encode
from robot_rl.types import ActorStream, Array, Step


class FeatureCache:
    """Features of steps in the order in which they come: as the frames are, and in variants that
    are augmented.

    ```
    # of the encoder as it is now
    seen = FeatureCache(policy, config, seed, run / "features.bin")
    seen.of(steps, streams)                                             # (N, variants, V) float16
    ```
    `path`: the file that keeps the features.
    """

    def __init__(self, policy: Policy, config: LearnerConfig, seed: int, path: Path | None = None):
        self._policy, self._spec, self._config, self._seed = policy, policy.spec, config, seed
        self._variants = variants_for(config, policy.spec)
        self._file: FeatureFile | None = None
        # of the episode that each actor is in
        self._goals: dict[ActorStream, list[GoalFilter]] = {}
        self._frames = 0
        if path is not None and policy.info.cached:
            trained = self._policy.trained_names()  # reads the features, and changes
            state = self._policy.state_dict()
            frozen = {
                name: tensor.cpu().numpy() for name, tensor in state.items() if name not in trained
            }
            self._file = FeatureFile(
                path, hash_of(frozen), (self._variants, self._policy.cached_size)
            )

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()

    def skip(self, count: int) -> None:
        """So many steps are not asked for, and none of their episodes goes on."""
        self._frames += count
        if self._file is not None:
            self._file.skip(count)

    def of(self, steps: Sequence[Step], streams: Sequence[ActorStream]) -> Array:
        """Features `(N, variants, V)` float16 of the next steps; `streams` says whose each is
        (actor, epoch).
        """
        self._frames += len(steps)
        features = (
            self._compute(steps) if self._file is None else self._file.of(steps, self._compute)
        )
        if self._spec.goal_size:
            for step, stream, variants in zip(steps, streams, features, strict=True):
                self._filter_goals(step, stream, variants)
        return features

    def _compute(self, steps: Sequence[Step]) -> Array:
        """Features `(N, variants, V)` of the newest steps' frames, each by itself; the first
        variant as they are.
        """
        out = np.empty((len(steps), self._variants, self._policy.cached_size), np.float16)
        if self._policy.vision is None or not steps:
            return out
        images = {
            name: np.stack([step.observation["image/" + name] for step in steps])
            for name in self._spec.cameras
        }
        told = np.stack([self._spec.told(step.observation) for step in steps])
        out[:, 0] = encode(self._policy.vision, images, told)
        for variant in range(1, self._variants):
            augmented = partial(self.augmented, variant, self._frames - len(steps))
            out[:, variant] = encode(self._policy.vision, images, told, augmented)
        return out

    def augmented(self, variant: int, begin: int, camera: str, frames: Array, first: int) -> Tensor:
        """A camera's frames as a variant shows them, `begin + first` being the first one's number
        in the run. What is random follows from that number, so that a resumed run caches what was
        cached before."""
        numbers = range(begin + first, begin + first + len(frames))
        origins = [
            [self._seed, variant, self._spec.cameras.index(camera), number] for number in numbers
        ]
        generators = map(np.random.default_rng, origins)
        return torch.cat([
            self._augment(f[None], g) for f, g in zip(frames, generators, strict=True)
        ])

    def _augment(self, frame: Array, generator: np.random.Generator) -> Tensor:
        """The frame `(1, H, W, 3)` shifted, or in another light."""
        if self._policy.info.shifted:
            return torch.from_numpy(random_shift(frame, generator, self._config.shift_pixels))
        return photometric(
            torch.from_numpy(frame), generator, self._config.pretrain.brightness, torch.float32
        )

    def _filter_goals(self, step: Step, stream: ActorStream, features: Array) -> None:
        """What the actor's policy saw of the goal, which knows the frames before: in each variant
        of the features.
        """
        if step.index == 0 or stream not in self._goals:
            self._goals[stream] = [GoalFilter(len(self._spec.pose_keys)) for _ in features]
        tools = self._spec.tools(step.observation)
        moving = self._spec.moving_hands(step.observation)
        for goals, variant in zip(self._goals[stream], features, strict=True):
            goals.filter_into(tools, variant, moving)
