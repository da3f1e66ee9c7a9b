"""What has been learnt so far, and how it goes on: replay, agent and schedule in one object, without any process.

`learner/loop.py` drives it from the links, a test or a benchmark from a plain loop.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from robot_rl.data.replay import LOCAL, Replay, Stream
from robot_rl.data.windows import Window
from robot_rl.learner.agents.rlpd import Agent, RLPDConfig
from robot_rl.learner.batches import BatchConfig, Batches, blank_batch
from robot_rl.learner.checkpoint import Checkpoint
from robot_rl.learner.pretrain import GoalError, PretrainConfig, encode, goal_frames, pretrain
from robot_rl.learner.schedule import ScheduleConfig, UpdateGovernor, linear_decay
from robot_rl.networks.augment import PAD, photometric
from robot_rl.networks.policy import EncoderKind, PolicySpec
from robot_rl.networks.precision import use_onednn_matmul
from robot_rl.types import Array, DataError, Mark, Provenance, SpaceSpec, Step

DEMONSTRATIONS: Stream = ("demonstrations", 0)
BEGIN = "load_demonstrations comes first: normaliser, encoder and replay begin with them"


@dataclass(frozen=True)
class LearnerConfig:
    """How to learn.

    encoder: "auto" is "goal" (pretrained on the demonstrations, frozen, features cached) where there are cameras, else
        "none". "end_to_end" trains a small CNN by the critics' loss, with random shifts; give it utd 1, batch 64.
    camera_features: features per camera. feature_variants: augmented versions cached for each frame of a frozen
        encoder. shift_pixels: DrQ's random shift, end to end only.
    capacity: steps held in replay besides the demonstrations; 0: all of the run.
    threads: CPU threads of the learner. Products of this size do not repay a second one: alone on two cores one thread
        makes 111 updates per second from state.
    publish_updates, checkpoint_steps: a real clock publishes after so many updates (HIL-SERL: 50; lockstep publishes
        once per block), and a checkpoint is written after so many environment steps.
    """

    agent: RLPDConfig = field(default_factory=RLPDConfig)
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)
    pretrain: PretrainConfig = field(default_factory=PretrainConfig)
    encoder: Literal["auto", "none", "goal", "end_to_end"] = "auto"
    camera_features: int = 64
    feature_variants: int = 1
    shift_pixels: int = PAD
    capacity: int = 0
    threads: int = 1
    device: str = "cpu"
    compile: bool = True
    publish_updates: int = 50
    checkpoint_steps: int = 1_000


def encoder_for(config: LearnerConfig, space: SpaceSpec) -> EncoderKind:
    """The encoder that "auto" stands for."""
    if config.encoder != "auto":
        return config.encoder
    return "goal" if any(name.startswith("image/") for name in space.observations) else "none"


class Training:
    """Replay, agent and schedule.

    ```
    training = Training(space, LearnerConfig(), seed=0, run_steps=5000)
    training.load_demonstrations(demo_log.read())
    while training.env_steps < 5000:
        training.add(steps)                          # whatever has arrived
        training.update(training.due())
        publish(training.publishable())
    ```
    Everything random comes from `seed`: the same steps in the same portions give the same weights.
    """

    def __init__(self, space: SpaceSpec, config: LearnerConfig, seed: int, run_steps: int):
        self._all_threads = torch.get_num_threads()
        torch.set_num_threads(config.threads)
        if config.device == "cpu":
            use_onednn_matmul()
        self.space, self.config, self.seed = space, config, seed
        kind = encoder_for(config, space)
        self.spec = PolicySpec.from_space(
            space, kind, hidden=config.agent.hidden, camera_features=config.camera_features
        )
        self.agent = Agent(self.spec, config.agent, seed, config.device)
        if config.compile:
            self.agent.compile()
        self.governor = UpdateGovernor(config.schedule)
        self.env_steps = 0
        self.episodes = 0
        self.goal_error: GoalError | None = None
        self._capacity = config.capacity or run_steps + run_steps // 10 + 1000  # + one reset step per episode
        self._replay: Replay | None = None
        self._batches: Batches | None = None
        self._updating = False
        self._generator = np.random.default_rng(seed)
        self._metrics: list[dict[str, Tensor]] = []
        self._measured_from = (time.monotonic(), 0)

    @property
    def replay(self) -> Replay:
        if self._replay is None:
            raise DataError(BEGIN)
        return self._replay

    def warm_up(self) -> None:
        """Let the compiler do its work (20 s cold on two cores, 2 s cached) while the demonstrations are recorded."""
        saved = {name: tensor.clone() for name, tensor in self.agent.state_dict().items()}
        for _ in range(self.config.agent.actor_period):
            self.agent.update(blank_batch(self.spec, self._batch_config()), self.config.agent.bc_weight)
        self.agent.load_state_dict(saved)

    def load_demonstrations(
        self,
        steps: Iterable[Step],
        restored: Checkpoint | None = None,
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> None:
        """Fit the normaliser, pretrain the encoder, fill the replay, clone the behaviour.

        With a checkpoint all that was learnt comes from there. Wandering (provenance SCRIPT) is for the encoder
        alone: it pursues nothing. `progress` is called during the pretraining; what it raises ends it.
        """
        steps = list(steps)
        demos = [step for step in steps if step.provenance == Provenance.DEMO]
        if restored is not None:
            self._restore(restored)
        else:
            self._begin(steps, demos, progress)
        cached = self.spec.encoder == "goal"
        self._replay = Replay(
            self.space,
            len(demos) + self._capacity,
            keep_images=self.spec.encoder == "end_to_end",
            vision_size=self.spec.vision_size if cached else 0,
            variants=self.config.feature_variants,
        )
        self._append(demos, [DEMONSTRATIONS] * len(demos))
        self.replay.keep()
        self._batches = Batches(self.replay, self._batch_config(), self._generator)
        if restored is None and demos:
            with closing(self._batches.draw(self.config.agent.bc_initial_updates, demo_fraction=1.0)) as batches:
                for batch in batches:
                    self.agent.clone_behaviour(batch)
        if restored is None:
            self.agent.begin_average()

    def _batch_config(self) -> BatchConfig:
        agent, end_to_end = self.config.agent, self.spec.encoder == "end_to_end"
        return BatchConfig(
            size=agent.batch_size,
            window=Window(agent.n_step, agent.discount),
            variants=self.config.feature_variants,
            shift_pixels=self.config.shift_pixels if end_to_end else 0,
            device=self.config.device,
        )

    def _begin(self, steps: Sequence[Step], demos: Sequence[Step], progress: Callable[[int, int], None]) -> None:
        vision = self.agent.policy.vision
        if self.spec.encoder == "goal" and vision is not None:
            torch.set_num_threads(self._all_threads)  # nothing else runs meanwhile
            frames = goal_frames(steps, self.spec)
            self.goal_error = pretrain(vision, frames, self.config.pretrain, self.seed, progress)
            torch.set_num_threads(self.config.threads)
        if demos:
            names = [name for name, _ in self.spec.state]
            states = np.array([np.concatenate([step.observation[name] for name in names]) for step in demos])
            self.agent.policy.normaliser.fit(states)

    def add(self, steps: Sequence[Step], streams: Sequence[Stream] | None = None) -> None:
        """Take in own steps, in the order in which they were made; `streams` says whose each is (actor, epoch)."""
        self._append(steps, [LOCAL] * len(steps) if streams is None else streams)
        self.env_steps += sum(step.index > 0 for step in steps)
        self.episodes += sum(step.terminated or step.truncated for step in steps)

    def apply(self, mark: Mark, actor: str, epoch: int) -> None:
        """Take in a mark of this actor, when all steps before it have been. Steps taken back count as made."""
        self._check_written_between_updates()
        self.replay.apply(mark, (actor, epoch))

    def _append(self, steps: Sequence[Step], streams: Sequence[Stream]) -> None:
        self._check_written_between_updates()
        if self.spec.encoder != "goal":
            for step, stream in zip(steps, streams, strict=True):
                self.replay.append(step, stream=stream)
            return
        for step, stream, features in zip(steps, streams, self._features(steps), strict=True):
            self.replay.append(step, features, stream)

    def _check_written_between_updates(self) -> None:
        if self._updating:
            raise DataError("steps and marks are taken in between two calls of update, not during one: the next batch "
                            "may be on its way")  # fmt: skip

    def _features(self, steps: Sequence[Step]) -> Array:
        """Frozen features `(N, variants, V)` of the steps' frames, the first variant without augmentation."""
        vision = self.agent.policy.vision
        out = np.empty((len(steps), self.config.feature_variants, self.spec.vision_size), np.float16)
        if vision is None or not steps:
            return out
        images = {name: np.stack([step.observation["image/" + name] for step in steps]) for name in self.spec.cameras}
        for variant in range(self.config.feature_variants):
            out[:, variant] = encode(vision, images, self._change_light if variant else None)
        return out

    def _change_light(self, images: Tensor) -> Tensor:
        return photometric(images, self._generator, self.config.pretrain.brightness, torch.float32)

    def due(self) -> int:
        """Updates that the schedule asks for now. None before there is a transition to learn from."""
        if not self.replay.own_transitions and not self.replay.demo_transitions:
            return 0
        return self.governor.due(self.env_steps)

    def update(
        self, count: int, between: Callable[[], Any] = lambda: None, until: Callable[[], bool] = lambda: False
    ) -> None:
        """Make `count` updates, or fewer if `until()` turns true.

        `between` is called after each (to receive what has arrived meanwhile, not to add it).
        """
        if self._batches is None:
            raise DataError(BEGIN)
        self._updating = True
        try:
            with closing(self._batches.draw(count, self.config.agent.demo_fraction, until)) as batches:
                for batch in batches:
                    self._metrics.append(self.agent.update(batch, self.bc_weight))
                    self.governor.count()
                    between()
        finally:
            self._updating = False

    @property
    def bc_weight(self) -> float:
        """Weight of the BC term now."""
        return linear_decay(self.config.agent.bc_weight, self.config.agent.bc_decay_steps, self.env_steps)

    def metrics(self) -> dict[str, float]:
        """Means over the updates since the last call, speed and counters: a line of metrics.jsonl."""
        now, (then, updates) = time.monotonic(), self._measured_from
        names = {name for row in self._metrics for name in row}
        means = {n: float(torch.stack([row[n] for row in self._metrics if n in row]).mean()) for n in sorted(names)}
        if "q_mean" in means:
            means["q"] = means.pop("q_mean")
        out = {
            "env_steps": self.env_steps,
            "episodes": self.episodes,
            "updates": self.governor.updates,
            "updates_per_s": (self.governor.updates - updates) / max(now - then, 1e-9),
            "bc_weight": self.bc_weight,
            "demo_transitions": self.replay.demo_transitions,
            "own_transitions": self.replay.own_transitions,
        }
        self._metrics, self._measured_from = [], (now, self.governor.updates)
        return out | means

    def publishable(self) -> dict[str, Array]:
        """The weights that the actor needs anew."""
        return self.agent.policy_parameters()

    def policy(self) -> dict[str, Array]:
        """All weights of the newest policy, for an actor that begins."""
        return self.agent.frozen_parameters() | self.agent.policy_parameters()

    def checkpoint(self, **counters: Any) -> Checkpoint:
        """All that cannot be had from the log again; `counters` are added to its own."""
        own = {
            "env_steps": self.env_steps,
            "updates": self.governor.updates,
            "forgiven": self.governor.forgiven,
            "generator": self._generator.bit_generator.state,
        }
        return Checkpoint(self.spec, self.agent.state_dict(), self.agent.average_parameters(), {**own, **counters})

    def _restore(self, checkpoint: Checkpoint) -> None:
        """Weights, optimisers and update counters; the steps come back with `add`, from the log."""
        if checkpoint.spec != self.spec:
            raise DataError(f"the checkpoint is of another policy ({checkpoint.spec}) than this run's ({self.spec})")
        self.agent.load_state_dict(checkpoint.agent)
        self.governor.updates = checkpoint.counters["updates"]
        self.governor.forgiven = checkpoint.counters["forgiven"]
        self._generator.bit_generator.state = checkpoint.counters["generator"]
        self._measured_from = (time.monotonic(), self.governor.updates)
