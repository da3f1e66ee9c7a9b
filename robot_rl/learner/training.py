"""What has been learnt so far, and how it goes on: replay, agent and schedule in one object, without any process.

`learner/loop.py` drives it from the links, a test or a benchmark from a plain loop.
"""

import copy
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from robot_rl.config import find
from robot_rl.data.codec import too_large
from robot_rl.data.replay import LOCAL, Replay
from robot_rl.data.tally import Tally
from robot_rl.data.windows import Window
from robot_rl.learner.agents._parts import AnyAgent
from robot_rl.learner.batches import BatchConfig, Batches, blank_batch
from robot_rl.learner.checkpoint import Checkpoint
from robot_rl.learner.divergence import diverged_figure, tensor_not_finite
from robot_rl.learner.health import health
from robot_rl.learner.options import AGENTS, LearnerConfig, shift_for, spec_for, variants_for
from robot_rl.learner.pretrain import GoalError, GoalFrames, PretrainConfig, goal_frames, pretrain
from robot_rl.learner.schedule import UpdateGovernor
from robot_rl.learner.vision_cache import VisionCache
from robot_rl.networks.encoders import Vision
from robot_rl.networks.policy import Policy
from robot_rl.networks.precision import use_onednn_matmul
from robot_rl.networks.resnet10 import load_weights
from robot_rl.networks.trunks import TrunkVision
from robot_rl.types import Array, DataError, DivergedError, Mark, MarkKind, Provenance, SpaceSpec, Step, Stream

DEMONSTRATIONS: Stream = ("demonstrations", 0)
log = logging.getLogger(__name__)
BEGIN = "load_demonstrations comes first: normaliser, encoder and replay begin with them"


def replay_for(space: SpaceSpec, config: LearnerConfig, policy: Policy, capacity: int) -> Replay:
    """An empty replay of what the policy learns from: images, or what is cached of them, or neither."""
    traits = policy.spec.traits
    return Replay(
        space,
        capacity,
        keep_images=bool(policy.spec.cameras) and not traits.cached,
        vision_size=policy.cached_size,
        variants=variants_for(config, policy.spec),
        pad=shift_for(config, policy.spec),
    )


def step_bytes(space: SpaceSpec, config: LearnerConfig) -> float:
    """Memory that a step takes in the replay of a run."""
    return replay_for(space, config, Policy(spec_for(config, space)), capacity=1_000).bytes_per_step


class Training:
    """Replay, agent and schedule.

    ```
    training = Training(space, LearnerConfig(), seed=0, run_steps=5000)
    training.load_demonstrations(demo_log.read())
    training.clone_behaviour(training.offline_due)
    while training.env_steps < 5000:
        training.add(steps)                          # whatever has arrived
        training.update(training.due())
        publish(training.publishable())
    ```
    Everything random comes from `seed`: the same steps in the same portions give the same weights.
    """

    def __init__(self, space: SpaceSpec, config: LearnerConfig, seed: int, run_steps: int, *, said_late_s: float = 0.0):
        """`said_late_s`: how much later success is said than it is meant, where a person judges."""
        self._said_late_s = said_late_s
        self._all_threads = torch.get_num_threads()
        torch.set_num_threads(config.threads)
        if config.device == "cpu":
            use_onednn_matmul()
        self.space, self.config, self.seed = space, config, seed
        self.spec = spec_for(config, space)
        self.options = config.options
        self.agent: AnyAgent = find(AGENTS, config.algorithm).Agent(self.spec, self.options, seed, config.device)
        self.vision = self.agent.policy.vision
        if self.spec.encoder == "resnet10" and isinstance(self.vision, TrunkVision):
            load_weights(self.vision.trunks[0], Path(config.encoder_weights))
        if config.compile:
            self.agent.compile()
        self.governor = UpdateGovernor(config.schedule)
        self.offline_updates = 0
        self.env_steps = 0
        self.episodes = 0
        self._newest_episode = -1
        self.goal_error: GoalError | None = None
        self.renewals = 0
        self.passed_over = 0
        self.capacity = config.capacity or run_steps + run_steps // 10 + 1000  # + one reset step per episode
        self._replay: Replay | None = None
        self._seen = VisionCache(self.agent.policy, config, seed)
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
        for _ in range(self.options.actor_period):
            blank = blank_batch(self.spec, self.batch_config, self.agent.policy.cached_size)
            self.agent.update(blank, self.bc_weight)
        self.agent.load_state_dict(saved)

    def load_demonstrations(
        self,
        steps: Iterable[Step],
        restored: Checkpoint | None = None,
        progress: Callable[[int, int], None] = lambda done, total: None,
        features: Path | None = None,
    ) -> None:
        """Fit the normaliser, pretrain the encoder, fill the replay.

        With a checkpoint all that was learnt comes from there. Wandering (provenance SCRIPT) is for the encoder
        alone: it pursues nothing. `progress` is called during the pretraining; what it raises ends it. `features`: the
        file that keeps what a frozen encoder makes of the frames.
        """
        steps = list(steps)
        steps = [steps[i] for i in self._learnable(steps)]
        demos = [step for step in steps if step.provenance == Provenance.DEMO]
        if restored is not None:
            self._restore(restored)
        else:
            self._begin(steps, demos, progress)
        self._fill_replay(demos, features)
        if restored is None:
            self.agent.begin_average()

    def _fill_replay(self, demos: Sequence[Step], features: Path | None) -> None:
        """A replay that begins with the demonstrations. Own steps and marks are to be added from their first on."""
        self.env_steps = self.episodes = 0
        self._replay = replay_for(self.space, self.config, self.agent.policy, len(demos) + self.capacity)
        self._seen.begin(features)
        self._append(demos, [DEMONSTRATIONS] * len(demos))
        self.replay.keep()
        self._batches = Batches(self.replay, self.batch_config, self._generator)

    @property
    def batch_config(self) -> BatchConfig:
        """How batches for this encoder and algorithm are made."""
        agent = self.options
        return BatchConfig(
            size=agent.batch_size,
            window=Window(agent.n_step, agent.discount),
            variants=variants_for(self.config, self.spec),
            shift_pixels=shift_for(self.config, self.spec),
            device=self.config.device,
        )

    def _begin(self, steps: Sequence[Step], demos: Sequence[Step], progress: Callable[[int, int], None]) -> None:
        if self.spec.encoder == "goal" and isinstance(self.vision, Vision):
            self._pretrain(self.vision, self._goal_frames(steps), self.config.pretrain, self.seed, progress)
        if demos:
            names = [name for name, _ in self.spec.state]
            states = np.array([np.concatenate([step.observation[name] for name in names]) for step in demos])
            self.agent.policy.normaliser.fit(states)

    def _goal_frames(self, steps: Iterable[Step], successes: Iterable[Sequence[Step]] = ()) -> GoalFrames:
        return goal_frames(steps, self.spec, successes, said_late_s=self._said_late_s)

    def _pretrain(
        self,
        vision: Vision,
        frames: GoalFrames,
        config: PretrainConfig,
        seed: int,
        progress: Callable[[int, int], None],
    ) -> None:
        torch.set_num_threads(self._all_threads)  # nothing else runs meanwhile
        try:
            self.goal_error = pretrain(vision, frames, config, seed, progress)
        finally:
            torch.set_num_threads(self.config.threads)
        if name := tensor_not_finite(vision.state_dict()):
            raise DivergedError(
                f"the pretraining of the encoder has diverged on {len(frames.goals)} frames: '{name}' has numbers that "
                f"are not finite; learning rate {config.learning_rate:g}"
            )

    @property
    def renewal_due(self) -> bool:
        """Whether it is time to pretrain the encoder again."""
        return self.spec.renewed and self._renewals_asked > self.renewals

    @property
    def _renewals_asked(self) -> int:
        return sum(self.env_steps >= steps for steps in self.config.pretrain.renew_at)

    def renew_encoder(
        self,
        steps: Iterable[Step],
        successes: Sequence[Sequence[Step]],
        progress: Callable[[int, int], None] = lambda done, total: None,
        features: Path | None = None,
    ) -> None:
        """Pretrain the encoder further, on the demonstrations and wandering `steps` and on own `successes`.

        All that the replay holds was seen with the old one: it begins anew with the demonstrations, and own steps and
        marks are to be added once more, from the first on. If `progress` raises, everything is as it was.
        """
        if not isinstance(self.vision, Vision):
            raise DataError("this encoder is not pretrained here, so it cannot be renewed")
        steps, options = list(steps), self.config.pretrain
        renewed = copy.deepcopy(self.vision)
        frames = self._goal_frames(steps, successes)
        again = replace(options, epochs=options.renew_epochs)
        self._pretrain(renewed, frames, again, self.seed + self._renewals_asked, progress)
        for policy in (self.agent.policy, self.agent.average):
            assert policy.vision is not None
            policy.vision.load_state_dict(renewed.state_dict())
        self.renewals = self._renewals_asked
        self.governor.grant(options.renew_updates)
        self._fill_replay([step for step in steps if step.provenance == Provenance.DEMO], features)

    def skip(self, before: Tally) -> None:
        """The own steps before the first that will be added count, and are no longer held."""
        self.env_steps, self.episodes = before.steps, before.episodes
        self._seen.skip(before.frames)

    def add(self, steps: Sequence[Step], streams: Sequence[Stream] | None = None) -> None:
        """Take in own steps, in the order in which they were made; `streams` says whose each is (actor, epoch)."""
        self._append(steps, [LOCAL] * len(steps) if streams is None else streams)
        self._newest_episode = steps[-1].episode if steps else self._newest_episode
        self.env_steps += sum(step.index > 0 for step in steps)
        self.episodes += sum(step.terminated or step.truncated for step in steps)

    def apply(self, mark: Mark, actor: str, epoch: int) -> None:
        """Take in a mark of this actor, when all steps before it have been. Steps taken back count as made."""
        self._check_written_between_updates()
        self.replay.apply(mark, (actor, epoch))
        self.episodes += mark.kind == MarkKind.TRUNCATED

    def _append(self, steps: Sequence[Step], streams: Sequence[Stream]) -> None:
        self._check_written_between_updates()
        kept = self._learnable(steps)
        steps, streams = [steps[i] for i in kept], [streams[i] for i in kept]
        features = self._seen.of(steps, streams) if self.spec.traits.cached else [None] * len(steps)
        for step, seen, stream in zip(steps, features, streams, strict=True):
            self.replay.append(step, seen, stream)

    def _learnable(self, steps: Sequence[Step]) -> list[int]:
        """Which of these may be learnt from: not those that were recorded with numbers too large for it."""
        wild = {i: reason for i, step in enumerate(steps) if (reason := too_large(step))}
        if wild:
            self.passed_over += len(wild)
            why = next(iter(wild.values()))
            log.warning("%d recorded steps are passed over, %d in all: %s", len(wild), self.passed_over, why)
        return [i for i in range(len(steps)) if i not in wild]

    def _check_written_between_updates(self) -> None:
        if self._updating:
            raise DataError("steps and marks are taken in between two calls of update, not during one: the next batch "
                            "may be on its way")  # fmt: skip

    @property
    def offline_due(self) -> int:
        """Updates on the demonstrations that are still to be made before the first own step."""
        return self.options.bc_initial_updates - self.offline_updates if self.replay.demo_transitions else 0

    def clone_behaviour(self, count: int, until: Callable[[], bool] = lambda: False) -> None:
        """Make `count` updates on the demonstrations alone, or fewer if `until()` turns true."""
        if self._batches is None:
            raise DataError(BEGIN)
        with closing(self._batches.draw(count, 1.0, until)) as batches:
            for batch in batches:
                self._metrics.append(self.agent.clone_behaviour(batch))
                self.offline_updates += 1

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
            with closing(self._batches.draw(count, self.options.demo_fraction, until)) as batches:
                for batch in batches:
                    self._metrics.append(self.agent.update(batch, self.bc_weight))
                    self.governor.count()
                    between()
        finally:
            self._updating = False

    @property
    def bc_weight(self) -> float:
        """Weight of the BC term now."""
        return self.options.bc_weight_at(self.env_steps)

    def metrics(self) -> dict[str, float]:
        """Means over the updates since the last call, speed and counters: a line of metrics.jsonl, beside `health`."""
        now, (then, updates) = time.monotonic(), self._measured_from
        names = {name for row in self._metrics for name in row}
        means = {n: float(torch.stack([row[n] for row in self._metrics if n in row]).mean()) for n in sorted(names)}
        if "q_mean" in means:
            means["q"] = means.pop("q_mean")
        out = {
            "env_steps": self.env_steps,
            "episodes": self.episodes,
            "updates": self.governor.updates,
            "forgiven_updates": self.governor.forgiven,
            "granted_updates": self.governor.granted,
            "offline_updates": self.offline_updates,
            "updates_per_s": (self._updates - updates) / max(now - then, 1e-9),
            "bc_weight": self.bc_weight,
            "demo_transitions": self.replay.demo_transitions,
            "own_transitions": self.replay.own_transitions,
        }
        self._metrics, self._measured_from = [], (now, self._updates)
        return out | means

    def health(self) -> dict[str, float]:
        """What `learner/health.py` says of agent and newest episodes: the rest of a line of metrics.jsonl."""
        return health(self.agent, self.replay, self.options.discount, self.config.device)

    def newest_value(self) -> dict[str, float]:
        """What the critic expects from the newest step on, and in which episode that is.

        Nothing where an episode begins or ends, or without a critic.
        """
        if not self.agent.has_critic:
            return {}
        batch = self.replay.gather(self.replay.newest())
        if batch["terminated"].tolist() != [0.0]:
            return {}
        _, q = self.agent.assess({name: tensor.to(self.config.device) for name, tensor in batch.items()}, "next")
        return {"value": float(q.mean()), "value_episode": self._newest_episode}

    @property
    def _updates(self) -> int:
        return self.governor.updates + self.offline_updates

    def publishable(self) -> dict[str, Array]:
        """The weights that the actor needs anew. DivergedError if anything learnt is not finite."""
        self._require_finite()
        return self.agent.policy_parameters()

    def policy(self) -> dict[str, Array]:
        """All weights of the newest policy, for an actor that begins. Raises as `publishable`."""
        return self.agent.frozen_parameters() | self.publishable()

    def averaged_policy(self) -> dict[str, Array]:
        """All weights of the averaged policy, for evaluation and use. Raises as `publishable`."""
        self._require_finite()
        return self.agent.average_parameters()

    def require_sound(self, means: Mapping[str, float]) -> None:
        """Raise DivergedError if a figure of `metrics` is no number, or beyond all that can be."""
        if figure := diverged_figure(means):
            raise self._diverged(figure, means)

    def _require_finite(self) -> None:
        if name := tensor_not_finite(self.agent.state_dict()):
            raise self._diverged(f"'{name}' has numbers that are not finite", {})

    def _diverged(self, what: str, means: Mapping[str, float]) -> DivergedError:
        """What has happened, and with which numbers it did."""
        done = f"after {self.env_steps} own steps and {self._updates} updates"
        rate = f"learning rate {self.options.learning_rate:g}"
        if "temperature" in means:
            rate += f", temperature {means['temperature']:.4g}"
        seen = "nothing has been learnt from yet"
        if self._replay is not None and len(self._replay):
            reward, name, state = self._replay.extremes()
            seen = f"the largest reward learnt from is {reward:g}, the largest observed number {state:g} ('{name}')"
        return DivergedError(f"learning has diverged {done}: {what}; {rate}; {seen}")

    def checkpoint(self, **counters: Any) -> Checkpoint:
        """All that cannot be had from the log again; `counters` are added to its own. Raises as `publishable`."""
        self._require_finite()
        own = {
            "env_steps": self.env_steps,
            "updates": self.governor.updates,
            "offline_updates": self.offline_updates,
            "forgiven": self.governor.forgiven,
            "granted": self.governor.granted,
            "allowed": self.governor.allowed(self.env_steps),
            "renewals": self.renewals,
            "generator": self._generator.bit_generator.state,
        }
        return Checkpoint(self.spec, self.agent.state_dict(), self.agent.average_parameters(), {**own, **counters})

    def _restore(self, checkpoint: Checkpoint) -> None:
        """Weights, optimisers and update counters; the steps come back with `add`, from the log."""
        if checkpoint.spec != self.spec:
            raise DataError(f"the checkpoint is of another policy ({checkpoint.spec}) than this run's ({self.spec})")
        self.agent.load_state_dict(checkpoint.agent)
        self.governor.updates = checkpoint.counters["updates"]
        self.offline_updates = checkpoint.counters["offline_updates"]
        self.governor.forgiven = checkpoint.counters["forgiven"]
        self.governor.granted = checkpoint.counters.get("granted", 0)  # (of a run before there were any)
        if "allowed" in checkpoint.counters:
            self.governor.keep(checkpoint.counters["allowed"], checkpoint.counters["env_steps"])
        self.renewals = checkpoint.counters.get("renewals", 0)
        self._generator.bit_generator.state = checkpoint.counters["generator"]
        self._measured_from = (time.monotonic(), self._updates)
