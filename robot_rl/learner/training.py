"""What has been learnt so far, and how it goes on: replay, agent and schedule in one object, without any process.

`learner/loop.py` drives it from the links, a test or a benchmark from a plain loop.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from robot_rl.data.replay import Replay
from robot_rl.learner.agents.rlpd import Agent, RLPDConfig
from robot_rl.learner.checkpoint import Checkpoint
from robot_rl.learner.pretrain import GoalError, PretrainConfig, encode, goal_frames, pretrain
from robot_rl.learner.schedule import ScheduleConfig, UpdateGovernor, linear_decay
from robot_rl.networks.augment import PAD, photometric, random_shift
from robot_rl.networks.policy import EncoderKind, PolicySpec
from robot_rl.networks.precision import use_onednn_matmul
from robot_rl.types import Array, DataError, Provenance, SpaceSpec, Step


@dataclass(frozen=True)
class LearnerConfig:
    """How to learn.

    encoder: "auto" is "goal" (pretrained on the demonstrations, frozen, features cached) where there are cameras, else
        "none". "end_to_end" trains a small CNN by the critics' loss, with random shifts; give it utd 1, batch 64.
    camera_features: features per camera. feature_variants: augmented versions cached for each frame of a frozen
        encoder. shift_pixels: DrQ's random shift, end to end only.
    capacity: steps held in replay besides the demonstrations; 0: all of the run.
    threads: CPU threads of the learner; the actor and the simulation run beside it.
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
    threads: int = 2
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
        self._generator = np.random.default_rng(seed)
        self._metrics: list[dict[str, Tensor]] = []
        self._measured_from = (time.monotonic(), 0)

    @property
    def replay(self) -> Replay:
        if self._replay is None:
            raise DataError("load_demonstrations comes first: normaliser, encoder and replay begin with them")
        return self._replay

    def warm_up(self) -> None:
        """Let the compiler do its work (20 s cold on two cores, 2 s cached) while the demonstrations are recorded."""
        saved = {name: tensor.clone() for name, tensor in self.agent.state_dict().items()}
        for _ in range(self.config.agent.actor_period):
            self.agent.update(self._blank_batch(), self.config.agent.bc_weight)
        self.agent.load_state_dict(saved)

    def load_demonstrations(self, steps: Iterable[Step], restored: Checkpoint | None = None) -> None:
        """Fit the normaliser, pretrain the encoder, fill the replay, clone the behaviour.

        With a checkpoint all that was learnt comes from there. Wandering (provenance SCRIPT) is for the encoder
        alone: it pursues nothing.
        """
        steps = list(steps)
        demos = [step for step in steps if step.provenance == Provenance.DEMO]
        if restored is not None:
            self._restore(restored)
        else:
            self._begin(steps, demos)
        cached = self.spec.encoder == "goal"
        self._replay = Replay(
            self.space,
            len(demos) + self._capacity,
            keep_images=self.spec.encoder == "end_to_end",
            vision_size=self.spec.vision_size if cached else 0,
            variants=self.config.feature_variants,
        )
        self._append(demos)
        self.replay.keep()
        if restored is None and self.config.agent.bc_initial_updates and demos:
            for _ in range(self.config.agent.bc_initial_updates):
                self.agent.clone_behaviour(self._batch(demo_fraction=1.0))
        if restored is None:
            self.agent.begin_average()

    def _begin(self, steps: Sequence[Step], demos: Sequence[Step]) -> None:
        vision = self.agent.policy.vision
        if self.spec.encoder == "goal" and vision is not None:
            torch.set_num_threads(self._all_threads)  # nothing else runs meanwhile
            self.goal_error = pretrain(vision, goal_frames(steps, self.spec), self.config.pretrain, self.seed)
            torch.set_num_threads(self.config.threads)
        if demos:
            names = [name for name, _ in self.spec.state]
            states = np.array([np.concatenate([step.observation[name] for name in names]) for step in demos])
            self.agent.policy.normaliser.fit(states)

    def add(self, steps: Sequence[Step]) -> None:
        """Take in own steps, in the order in which they were made."""
        self._append(steps)
        self.env_steps += sum(step.index > 0 for step in steps)
        self.episodes += sum(step.terminated or step.truncated for step in steps)

    def _append(self, steps: Sequence[Step]) -> None:
        if self.spec.encoder != "goal":
            for step in steps:
                self.replay.append(step)
            return
        for step, features in zip(steps, self._features(steps), strict=True):
            self.replay.append(step, features)

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

        `between` is called after each (to receive what has arrived meanwhile).
        """
        for _ in range(count):
            if until():
                break
            self._metrics.append(self.agent.update(self._batch(self.config.agent.demo_fraction), self.bc_weight))
            self.governor.count()
            between()

    @property
    def bc_weight(self) -> float:
        """Weight of the BC term now."""
        return linear_decay(self.config.agent.bc_weight, self.config.agent.bc_decay_steps, self.env_steps)

    def _batch(self, demo_fraction: float) -> Mapping[str, Tensor]:
        size = self.config.agent.batch_size
        n_demo = round(size * demo_fraction)
        indices = self.replay.sample(self._generator, n_demo, size - n_demo)
        variants = None
        if self.config.feature_variants > 1:
            drawn = self._generator.integers(0, self.config.feature_variants, (2, size))
            variants = (drawn[0], drawn[1])
        batch = self.replay.gather(indices, variants)
        if self.spec.encoder == "end_to_end" and self.config.shift_pixels:
            for name in [name for name in batch if "image/" in name]:
                shifted = random_shift(batch[name].numpy(), self._generator, self.config.shift_pixels)
                batch[name] = torch.from_numpy(shifted)
        if self.config.device == "cpu":
            return batch
        return {name: tensor.to(self.config.device, non_blocking=True) for name, tensor in batch.items()}

    def _blank_batch(self) -> dict[str, Tensor]:
        size, spec = self.config.agent.batch_size, self.spec
        shapes: dict[str, tuple[int, ...]] = {"state": (spec.state_size,), "action": (spec.action_size,)}
        shapes |= {"next_state": (spec.state_size,), "reward": (), "terminated": (), "demo": ()}
        batch = {name: torch.zeros(size, *shape) for name, shape in shapes.items()}
        if spec.encoder == "goal":
            batch |= {n: torch.zeros(size, spec.vision_size).half() for n in ("vision", "next_vision")}
        if spec.encoder == "end_to_end":
            names = [prefix + name for name in spec.cameras for prefix in ("image/", "next/image/")]
            batch |= {name: torch.zeros(size, *spec.image_size, 3, dtype=torch.uint8) for name in names}
        return {name: tensor.to(self.config.device) for name, tensor in batch.items()}

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
