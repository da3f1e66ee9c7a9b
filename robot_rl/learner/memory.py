"""What is learnt from: the replay, which begins with the demonstrations, and the features of what
it holds.
"""

import itertools
from collections.abc import Sequence
from pathlib import Path

from robot_rl.learner.columns import NO_COLUMNS, SHAPING
from robot_rl.learner.feature_cache import FeatureCache
from robot_rl.learner.options import LearnerConfig, shift_for, spec_for, variants_for
from robot_rl.learner.replay import LOCAL, Replay
from robot_rl.learner.shown import learnable
from robot_rl.learner.tally import Tally
from robot_rl.networks.policy import Policy
from robot_rl.types import ActorStream, Mark, MarkKind, Provenance, SpaceSpec, Step

DEMONSTRATIONS: ActorStream = ("demonstrations", 0)
NEWEST_EPISODES = 20
ALONE = {Provenance.POLICY}


def replay_for(space: SpaceSpec, config: LearnerConfig, policy: Policy, capacity: int) -> Replay:
    """An empty replay of what the policy learns from: images, or what is cached of them, or
    neither.
    """
    return Replay(
        space,
        capacity,
        keep_images=bool(policy.spec.cameras) and not policy.info.cached,
        vision_size=policy.cached_size,
        variants=variants_for(config, policy.spec),
        pad=shift_for(config, policy.spec),
        columns=NO_COLUMNS if config.progress == "none" else SHAPING,
    )


def step_bytes(space: SpaceSpec, config: LearnerConfig) -> float:
    """Memory that a step takes in the replay of a run."""
    policy = Policy(spec_for(config, space))
    return replay_for(space, config, policy, capacity=1_000).bytes_per_step


class Memory:
    """Demonstrations, own steps behind them in the order in which they were made, and marks.

    ```
    memory = Memory(space, config, policy, seed, capacity=6500, demonstrations=demos)
    memory.add(steps, streams); memory.apply(mark, stream)
    indices = memory.replay.sample(generator, 128, 128)
    ```
    It is of one encoder: where that has changed, another is made, and own steps and marks are added
    to it from their first on. `capacity`: own steps held. `features`: the file that keeps what a
    frozen encoder makes of the frames.
    """

    def __init__(
        self,
        space: SpaceSpec,
        config: LearnerConfig,
        policy: Policy,
        seed: int,
        capacity: int,
        demonstrations: Sequence[Step] = (),
        features: Path | None = None,
    ):
        self.replay = replay_for(space, config, policy, len(demonstrations) + capacity)
        self._cache = FeatureCache(policy, config, seed, features)
        self._cached = policy.info.cached
        self.env_steps = 0
        self.episodes = 0
        self.newest_episode = -1
        self._alone, self._counted_at = 0.0, 0
        self._append(demonstrations, [DEMONSTRATIONS] * len(demonstrations))
        self.replay.keep()

    def skip(self, before: Tally) -> None:
        """The own steps before the first that will be added count, and are no longer held."""
        self.env_steps, self.episodes = before.steps, before.episodes
        self._cache.skip(before.frames)

    def add(self, steps: Sequence[Step], streams: Sequence[ActorStream] | None = None) -> None:
        """Take in own steps, in the order in which they were made; `streams` says whose each is
        (actor, epoch)."""
        if not steps:
            return
        streams = [LOCAL] * len(steps) if streams is None else streams
        kept = learnable(steps)
        self._append([steps[i] for i in kept], [streams[i] for i in kept])
        self.newest_episode = steps[-1].episode
        self.env_steps += sum(step.index > 0 for step in steps)
        self.episodes += sum(step.terminated or step.truncated for step in steps)

    def apply(self, mark: Mark, stream: ActorStream) -> None:
        """Take in a mark, when all steps before it have been. Steps taken back count as made."""
        self.replay.apply(mark, stream)
        self.episodes += mark.kind == MarkKind.TRUNCATED

    @property
    def alone(self) -> float:
        """The share of the newest own episodes that succeeded without help; of fewer than
        `NEWEST_EPISODES` those that are missing did not.
        """
        if self._counted_at != self.episodes:
            self._counted_at = self.episodes
            labels = (label for _, label in self.replay.whole_episodes())
            own = (label for label in labels if Provenance.DEMO not in label.authors)
            newest = itertools.islice(own, NEWEST_EPISODES)
            count = sum(label.succeeded and label.authors <= ALONE for label in newest)
            self._alone = count / NEWEST_EPISODES
        return self._alone

    def _append(self, steps: Sequence[Step], streams: Sequence[ActorStream]) -> None:
        features = self._cache.of(steps, streams) if self._cached else [None] * len(steps)
        for step, seen, stream in zip(steps, features, streams, strict=True):
            self.replay.append(step, seen, stream)

    def close(self) -> None:
        """Let go of the file of features."""
        self._cache.close()
