"""What has been learnt so far, and how it goes on: memory, agent and schedule in one object,
without any process.

`learner/loop.py` drives it from the links, a test or a benchmark from a plain loop.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import torch

from robot_rl.learner.batches import BatchConfig, Batches, blank_batch
from robot_rl.learner.checkpoint import Checkpoint
from robot_rl.learner.divergence import diverged, diverged_figure, tensor_not_finite
from robot_rl.learner.health import Means, health, newest_value
from robot_rl.learner.memory import Memory
from robot_rl.learner.options import (
    LearnerConfig,
    make_agent,
    noise_for,
    shift_for,
    spec_for,
    take_over,
    variants_for,
    with_encoder,
)
from robot_rl.learner.potential import Potential
from robot_rl.learner.pretrain import Pretraining, Progress, Sight, no_progress
from robot_rl.learner.schedule import UtdSchedule
from robot_rl.learner.shown import Shown
from robot_rl.learner.tally import Tally
from robot_rl.networks.precision import use_onednn_matmul
from robot_rl.networks.vision import UNSEEN
from robot_rl.stream.episodes import EndedEpisode, EpisodeOf, Relabel
from robot_rl.types import (
    ActorStream,
    Array,
    DataError,
    DivergedError,
    Mark,
    SpaceSpec,
    Step,
)

log = logging.getLogger(__name__)


class Training:
    """Memory, agent and schedule.

    ```
    training = Training(space, LearnerConfig(), seed=0, run_steps=5000)
    training.load_demonstrations(Shown.of(demo_log.read()))    # if there are any
    training.clone_behaviour(training.offline_due)
    while training.env_steps < 5000:
        training.add(steps)                          # whatever has arrived
        training.update(training.due())
        publish(training.publishable())
    ```
    Everything random comes from `seed`: the same steps in the same portions give the same weights.
    """

    def __init__(
        self,
        space: SpaceSpec,
        config: LearnerConfig,
        seed: int,
        run_steps: int,
        *,
        said_late_s: float = 0.0,
    ):
        """`said_late_s`: how much later success is said than it is meant, where a person judges."""
        threads = torch.get_num_threads()
        torch.set_num_threads(config.threads)
        if config.device == "cpu":
            use_onednn_matmul()
        self.space, self.seed = space, seed
        self._threads, self._said_late_s = threads, said_late_s
        self.offline_updates = 0
        # + one reset step per episode
        self.capacity = config.capacity or run_steps + run_steps // 10 + 1000
        self._generator = np.random.default_rng(seed)
        self._updating = False
        self._means = Means()
        self.sight: Sight | None = None
        self._make(config)

    def _make(self, config: LearnerConfig) -> None:
        """An agent that has learnt nothing, and an empty memory."""
        self.config, self.spec = config, spec_for(config, self.space)
        self.governor = UtdSchedule(config.schedule)
        self.agent = make_agent(config, self.spec, self.seed)
        self.pretraining = Pretraining(
            self.agent.policy, config.pretrain, self.seed, self._threads, self._said_late_s
        )
        self.batch_config = BatchConfig(
            self.agent.plan,
            variants_for(config, self.spec),
            shift_for(config, self.spec),
            config.device,
            noise_for(config, self.spec),
            self.spec.goal_size,
        )
        discount = self.agent.plan.window.discount
        self.potential = Potential(
            config.progress, self.agent.policy, discount, config.progress_steps, self.seed
        )
        self._remember([], None)

    def _remember(self, demos: Sequence[Step], features: Path | None) -> None:
        """A memory that begins with the demonstrations. Own steps and marks are to be added from
        their first on.
        """
        self.memory = Memory(
            self.space, self.config, self.agent.policy, self.seed, self.capacity, demos, features
        )
        self._batches = Batches(self.memory.replay, self.batch_config, self._generator)

    @property
    def env_steps(self) -> int:
        """Own steps learnt from or taken back: control steps, without those of a reset."""
        return self.memory.env_steps

    def warm_up(self) -> None:
        """Let the compiler do its work (20 s cold on two cores, 2 s cached) while the
        demonstrations are recorded.
        """
        saved = {name: tensor.clone() for name, tensor in self.agent.state_dict().items()}
        for _ in range(self.agent.period):
            blank = blank_batch(self.spec, self.batch_config, self.agent.policy.cached_size)
            self.agent.update(blank, self.env_steps)
        self.agent.load_state_dict(saved)

    def load_demonstrations(
        self,
        shown: Shown,
        restored: Checkpoint | None = None,
        progress: Progress = no_progress,
        features: Path | None = None,
        learnt: Checkpoint | None = None,
    ) -> None:
        """Fit the normaliser, pretrain the encoder, begin the replay.

        With a checkpoint all that was learnt comes from there. One of another run, `learnt`, is what
        this one begins with; its encoder is trained on with what was shown here. `progress` is
        called during the pretraining; what it raises ends it. `features`: the file that keeps what a
        frozen encoder makes of the frames.
        """
        demos = shown.demonstrations(of_outcomes=self.config.learn_outcomes)
        if restored is not None:
            self._take_encoder(restored.spec.encoder)
            self._restore(restored)
        elif learnt is not None:
            self._take_encoder(learnt.spec.encoder)
            self._begin_with(learnt)
            self.pretraining.go_on(shown, progress)
            self.agent.begin_average()
        else:
            self._choose_encoder(shown, progress)
            self.pretraining.begin(shown, progress)
            self.agent.policy.fit_normaliser([step.observation for step in demos])
            self.agent.begin_average()
        self.memory.close()
        self._remember(demos, features)

    def _choose_encoder(self, shown: Shown, progress: Progress) -> None:
        """What "auto" means, by what the demonstrations show."""
        if self.config.encoder == "auto":
            self.sight = self.pretraining.look(shown, progress)
        if self.sight is not None:
            seen = self.sight.seen
            log.log(
                logging.INFO if seen else logging.WARNING,
                "%s: the encoder is %r%s", self.sight, self.spec.encoder if seen else UNSEEN,
                "" if seen else ", which learns slowly without a GPU. Do the cameras see what"
                " decides, from the first frame to the last?",
            )  # fmt: skip
            self._take_encoder(self.spec.encoder if seen else UNSEEN)

    def _take_encoder(self, encoder: str) -> None:
        """Begin anew with another encoder than "auto" has meant so far."""
        if self.config.encoder == "auto" and encoder != self.spec.encoder:
            self.memory.close()
            self._make(with_encoder(self.config, encoder))

    @property
    def renewal_due(self) -> bool:
        """Whether it is time to pretrain the encoder again, and the policy in need of it."""
        needs = self.config.pretrain.renew_below
        return self.pretraining.due(self.env_steps) and self.memory.alone < needs

    def renew_encoder(
        self,
        shown: Shown,
        own: Sequence[EndedEpisode],
        progress: Progress = no_progress,
        features: Path | None = None,
    ) -> None:
        """Pretrain the encoder further, on what was shown and on the run's `own` episodes.

        All that the replay holds was seen with the old one: it begins anew with the demonstrations,
        and own steps and marks are to be added once more, from the first on. If `progress` raises,
        everything is as it was.
        """
        renewed = self.pretraining.renew(shown, own, self.env_steps, progress)
        for policy in (self.agent.policy, self.agent.average):
            assert policy.vision is not None
            policy.vision.load_state_dict(renewed)
        self.governor.grant(self.config.pretrain.renew_updates)
        self.potential.forget()
        self.memory.close()
        self._remember(shown.demonstrations(of_outcomes=self.config.learn_outcomes), features)

    def skip(self, before: Tally) -> None:
        """The own steps before the first that will be added count, and are no longer held."""
        self.memory.skip(before)

    def add(self, steps: Sequence[Step], streams: Sequence[ActorStream] | None = None) -> None:
        """Take in own steps, in the order in which they were made; `streams` says whose each is
        (actor, epoch).
        """
        self._check_written_between_updates()
        self.memory.add(steps, streams)

    def apply(self, mark: Mark, actor: str, epoch: int) -> None:
        """Take in a mark of this actor, when all steps before it have been. Steps taken back count
        as made.
        """
        self._check_written_between_updates()
        self.memory.apply(mark, (actor, epoch))

    def relabel(self, about: EpisodeOf, said: Relabel) -> None:
        """Take in what a version of the judge makes of an episode, at any time."""
        self._check_written_between_updates()
        self.memory.replay.relabel(about, said)

    def _check_written_between_updates(self) -> None:
        if self._updating:
            raise DataError(
                "steps and marks are taken in between two calls of update, not during one: the next"
                " batch may be on its way"
            )

    @property
    def offline_due(self) -> int:
        """Updates on the demonstrations that are still to be made before the first own step."""
        if self.memory.replay.demo_transitions:
            return self.config.agent.bc_initial_updates - self.offline_updates
        return 0

    def clone_behaviour(self, count: int, until: Callable[[], bool] = lambda: False) -> None:
        """Make `count` updates on the demonstrations alone, or fewer if `until()` turns true."""
        self._value_steps(count)
        with closing(self._batches.draw(count, until, demo_fraction=1.0)) as batches:
            for batch in batches:
                self._means.add(self.agent.clone_behaviour(batch))
                self.offline_updates += 1

    def _value_steps(self, updates: int) -> None:
        """Before updates: each step that is held has its potential, by the version that is due."""
        if updates:
            self.potential.prepare(self.memory.replay, self.env_steps)

    def due(self) -> int:
        """Updates that the schedule asks for now. None before there is a transition to learn from."""
        if not self.memory.replay.own_transitions and not self.memory.replay.demo_transitions:
            return 0
        return self.governor.due(self.env_steps)

    def update(
        self,
        count: int,
        between: Callable[[], Any] = lambda: None,
        until: Callable[[], bool] = lambda: False,
    ) -> None:
        """Make `count` updates, or fewer if `until()` turns true.

        `between` is called after each (to receive what has arrived meanwhile, not to add it).
        """
        self._value_steps(count)
        self.agent.alone = self.memory.alone
        self._updating = True
        try:
            with closing(self._batches.draw(count, until)) as batches:
                for batch in batches:
                    self._means.add(self.agent.update(batch, self.env_steps))
                    self.governor.count()
                    between()
        finally:
            self._updating = False

    def metrics(self) -> dict[str, float]:
        """Means over the updates since the last call, speed and counters: a line of metrics.jsonl,
        beside `health`.
        """
        counts = {
            "env_steps": self.env_steps,
            "episodes": self.memory.episodes,
            "updates": self.governor.updates,
            "forgiven_updates": self.governor.forgiven,
            "granted_updates": self.governor.granted,
            "offline_updates": self.offline_updates,
            "updates_per_s": self._means.per_s(self._updates),
            "demo_transitions": self.memory.replay.demo_transitions,
            "own_transitions": self.memory.replay.own_transitions,
        }
        figures = self.agent.scheduled(self.env_steps) | self.potential.figures
        return counts | figures | self._means.take()

    def health(self) -> dict[str, float]:
        """What `learner/health.py` says of agent and newest episodes: the rest of a line of
        metrics.jsonl.
        """
        self.potential.fill(self.memory.replay)
        return health(
            self.agent, self.memory.replay, self.agent.plan.window.discount, self.config.device
        )

    def newest_value(self) -> dict[str, float]:
        """What the critic expects from the newest step on, and in which episode that is.

        Nothing where an episode begins or ends, or without a critic.
        """
        self.potential.fill(self.memory.replay)
        return newest_value(self.agent, self.memory, self.config.device)

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
        done = f"after {self.env_steps} own steps and {self._updates} updates: {what}"
        return diverged(done, self.config.agent.learning_rate, means, self.memory.replay)

    def checkpoint(self, **counters: Any) -> Checkpoint:
        """All that cannot be had from the log again; `counters` are added to its own. Raises as
        `publishable`.
        """
        self._require_finite()
        own = self.governor.counters(self.env_steps) | {
            "offline_updates": self.offline_updates,
            "renewals": self.pretraining.renewals,
            "generator": self._generator.bit_generator.state,
            "potential": self.potential.counters(),
        }
        learnt = self.agent.state_dict() | self.potential.tensors()
        return Checkpoint(self.spec, learnt, self.agent.average_parameters(), {**own, **counters})

    def _restore(self, checkpoint: Checkpoint) -> None:
        """Weights, optimisers and update counters; the steps come back with `add`, from the log."""
        take_over(self.agent, checkpoint)
        self.governor.restore(checkpoint.counters)
        self.offline_updates = checkpoint.counters["offline_updates"]
        self.pretraining.renewals = checkpoint.counters.get("renewals", 0)
        self.potential.restore(checkpoint.agent, checkpoint.counters.get("potential", {}))
        self._generator.bit_generator.state = checkpoint.counters["generator"]
        self._means.begin(self._updates)

    def _begin_with(self, learnt: Checkpoint) -> None:
        """What another run has learnt, its cloning included; steps and updates are counted anew."""
        take_over(self.agent, learnt)
        self.offline_updates = learnt.counters["offline_updates"]
        self._means.begin(self._updates)
