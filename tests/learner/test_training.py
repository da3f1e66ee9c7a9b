"""The whole of learning without any process: a small problem is solved, and a run repeats and
resumes exactly.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from robot_rl.learner.agents.rlpd import Config as RLPDConfig
from robot_rl.learner.feature_cache import FeatureCache
from robot_rl.learner.options import LearnerConfig, variants_for
from robot_rl.learner.pretrain import PretrainConfig
from robot_rl.learner.schedule import ScheduleConfig
from robot_rl.learner.shown import Shown
from robot_rl.learner.training import Training
from robot_rl.networks.encoders import Vision
from robot_rl.networks.goal import GoalFilter
from robot_rl.networks.policy import LivePolicy
from robot_rl.networks.resnet10 import ResNet10, save_weights
from robot_rl.networks.vision import encode
from robot_rl.stream.episodes import EndedEpisode
from robot_rl.types import (
    AXES,
    ActionSpec,
    Array,
    DataError,
    Mark,
    MarkKind,
    Observation,
    Provenance,
    SpaceSpec,
    Step,
)
from tests.helpers import make_step

SPACE = SpaceSpec.unnamed({"state/goal": ((2,), "float32")}, 2)
OLD = SpaceSpec.unnamed({"state/goal": ((2,), "float32")}, 6)
CONFIG = LearnerConfig(
    "rlpd",
    RLPDConfig(hidden=(64, 64), batch_size=64, critics=2, bc_decay_steps=2_000),
    schedule=ScheduleConfig(utd=4.0, start_steps=50),
    compile=False,
)


def reach(
    rng: np.random.Generator, act: Callable[[Observation], Array], episode: int, author: Provenance
) -> Iterator[Step]:
    """Reach a goal in the plane: 20 steps of at most 0.2 per axis, reward 1 within 0.05. A time
    limit truncates.
    """
    goal, nothing = rng.uniform(-1, 1, 2).astype(np.float32), np.zeros(2, np.float32)
    yield make(episode, 0, goal, nothing, False, False, author)
    for t in range(1, 21):
        action = np.clip(act({"state/goal": goal}), -1, 1).astype(np.float32)
        goal = goal + np.float32(0.2) * action
        done = bool(np.abs(goal).max() < 0.05)
        yield make(episode, t, goal, action, done, t == 20 and not done, author)
        if done:
            return


def make(
    episode: int, index: int, goal: Array, action: Array, done: bool, late: bool, author: Provenance
) -> Step:
    return Step(
        episode=episode,
        index=index,
        observation={"state/goal": goal},
        proposed=action,
        commanded=action,
        executed=action,
        reward=float(done),
        success=done,
        terminated=done,
        truncated=late,
        provenance=author,
        weights_version=0,
        t_monotonic=0.0,
        t_wall=0.0,
    )


def demonstrations(count: int = 5) -> list[Step]:
    rng = np.random.default_rng(0)

    def act(seen: Observation) -> Array:
        return -5.0 * seen["state/goal"] + rng.normal(0.0, 0.3, 2)

    return [step for n in range(count) for step in reach(rng, act, n, Provenance.DEMO)]


def train(training: Training, until: int, episode: int = 0) -> int:
    """Alternate an episode and its updates; returns the number of episodes made in all."""
    live = LivePolicy(training.spec, training.policy())
    while training.env_steps < until:
        live.begin_episode(episode)
        training.add(
            list(reach(np.random.default_rng(episode), live.act, episode, Provenance.POLICY))
        )
        training.update(training.due())
        live.load(training.publishable())
        episode += 1
    return episode


def success_rate(training: Training) -> float:
    live = LivePolicy(training.spec, training.policy())

    def act(seen: Observation) -> Array:
        return live.act(seen, greedy=True)

    ends = [
        list(reach(np.random.default_rng(10_000 + n), act, n, Provenance.POLICY))[-1]
        for n in range(50)
    ]
    return sum(end.terminated for end in ends) / len(ends)


@pytest.mark.slow
def test_a_small_problem_is_solved_from_a_random_policy() -> None:
    """Fails if learning is broken: an untrained policy, or one whose critic learns nothing, stays
    near zero.
    """
    training = Training(SPACE, CONFIG, seed=0, run_steps=600)
    training.load_demonstrations(Shown.of(demonstrations()))
    assert success_rate(training) < 0.2
    train(training, 400)
    assert success_rate(training) >= 0.9
    metrics = training.metrics()
    assert {
        "q",
        "critic_loss",
        "entropy",
        "temperature",
        "bc_weight",
        "updates_per_s",
    } <= metrics.keys()
    assert metrics["updates"] == 4 * (training.env_steps - 50)
    assert metrics["bc_weight"] == pytest.approx(2.0 * (1 - training.env_steps / 2_000))
    far, near = (expected_at(training, distance) for distance in (0.9, 0.06))
    assert near > far + 0.2, "the critic expects the success sooner"


def expected_at(training: Training, distance: float) -> float:
    """The value of a state in the middle of an episode; where one begins or ends there is none."""
    goal, nothing, policy = (
        np.full(2, distance, np.float32),
        np.zeros(2, np.float32),
        Provenance.POLICY,
    )
    training.add([make(999, 0, goal, nothing, False, False, policy)])
    assert training.newest_value() == {}
    training.add([make(999, 1, goal, nothing, False, False, policy)])
    said = training.newest_value()
    assert said["value_episode"] == 999
    training.add([make(999, 2, goal, nothing, True, False, policy)])
    assert training.newest_value() == {}
    return said["value"]


def test_a_checkpoint_is_gone_on_with_if_its_actions_mean_the_same() -> None:
    """Also one of before actions had names, with the six axes of one arm."""
    demos = [make_step(i, OLD, episode=0, success=i == 2, truncated=False) for i in range(3)]

    def resume(*axes: str) -> None:
        space = SpaceSpec(OLD.observations, ActionSpec(tuple(f"panda.{axis}" for axis in axes)))
        Training(space, CONFIG, seed=1, run_steps=10).load_demonstrations(Shown.of(demos), saved)

    old = Training(OLD, CONFIG, seed=1, run_steps=10)
    old.load_demonstrations(Shown.of(demos))
    saved = old.checkpoint()
    resume(*AXES)
    with pytest.raises(DataError, match=r"another policy .*0\.rz.* than this run's .*panda\.rz"):
        resume(*reversed(AXES))


@pytest.mark.slow
def test_resumed_training_goes_on_exactly_as_it_would_have() -> None:
    straight = Training(SPACE, CONFIG, seed=1, run_steps=300)
    straight.load_demonstrations(Shown.of(demonstrations()))
    steps: list[Step] = []
    add = straight.add
    straight.add = lambda new: (steps.extend(new), add(new))  # type: ignore
    episodes = train(straight, 100)
    saved = straight.checkpoint(position=len(steps))
    resumed = Training(SPACE, CONFIG, seed=99, run_steps=300)
    resumed.load_demonstrations(Shown.of(demonstrations()), saved)
    resumed.add(steps)
    train(straight, 160, episodes)
    train(resumed, 160, episodes)
    assert all(np.array_equal(a, resumed.policy()[name]) for name, a in straight.policy().items())


def test_it_is_imitated_for_as_long_as_the_policy_needs_help() -> None:
    nothing, agent = np.zeros(2, np.float32), replace(CONFIG.agent, bc_while_helped=0.5)
    training = Training(SPACE, replace(CONFIG, agent=agent), seed=0, run_steps=2_000)

    def episode(number: int, success: bool, last: Provenance) -> None:
        policy, end = Provenance.POLICY, (success, not success)
        first = make(number, 0, nothing, nothing, False, False, policy)
        step = make(number, 1, nothing, nothing, False, False, policy)
        training.add([first, step, make(number, 2, nothing, nothing, *end, last)])

    training.load_demonstrations(Shown.of(demonstrations()))
    for number in range(5):
        episode(number, True, Provenance.POLICY)
    episode(5, True, Provenance.HUMAN)
    episode(6, False, Provenance.POLICY)
    assert training.memory.alone == 5 / 20
    for number in range(7, 27):
        episode(number, True, Provenance.POLICY)
    assert training.memory.alone == 1.0
    config = training.agent.config
    assert config.bc_weight_at(0, 0.25) == config.bc_weight
    assert config.bc_weight_at(9_999, 0.25) == 0.75 * 0.5 and config.bc_weight_at(9_999, 1.0) == 0.0


def test_warming_up_leaves_no_trace() -> None:
    warm, cold = (Training(SPACE, CONFIG, seed=2, run_steps=200) for _ in range(2))
    warm.warm_up()
    for training in (warm, cold):
        training.load_demonstrations(Shown.of(demonstrations()))
        train(training, 80)
    assert all(np.array_equal(a, cold.policy()[name]) for name, a in warm.policy().items())


def test_the_number_of_steps_in_a_return_reaches_the_critics() -> None:
    policies = []
    for n_step in (1, 3):
        config = replace(CONFIG, agent=replace(CONFIG.agent, n_step=n_step))
        training = Training(SPACE, config, seed=0, run_steps=100)
        training.load_demonstrations(Shown.of(demonstrations()))
        train(training, 60)
        assert np.isfinite(training.metrics()["critic_loss"])
        policies.append(training.policy())
    assert not all(np.array_equal(policies[0][name], policies[1][name]) for name in policies[0])


def test_the_operators_word_is_heard_between_updates_only() -> None:
    training = Training(SPACE, CONFIG, seed=0, run_steps=200)
    training.load_demonstrations(Shown.of(demonstrations()))
    stream = ("arm", 5)
    steps = list(reach(np.random.default_rng(1), lambda seen: np.ones(2), 0, Provenance.POLICY))
    training.add(steps, [stream] * len(steps))
    own = training.memory.replay.own_transitions
    training.apply(Mark(MarkKind.DISCARD, 0), "another arm", 5)
    assert training.memory.replay.own_transitions == own == len(steps) - 1
    training.apply(Mark(MarkKind.DISCARD, 0), *stream)
    assert training.memory.replay.own_transitions == 0
    assert training.env_steps == len(steps) - 1  # they were made: the schedule does not go back
    training.apply(Mark(MarkKind.UNDO, 0), *stream)
    assert training.memory.replay.own_transitions == own
    with pytest.raises(DataError, match="between two calls of update"):
        training.update(3, between=lambda: training.add(steps))
    training.add(steps)


def test_what_was_shown_for_a_classifier_is_a_demonstration_up_to_where_it_was_a_success() -> None:
    demos = demonstrations(2)
    shown = [s for s in demonstrations(4) if s.episode >= 2]
    # an outcome goes on behind its success, whose label stays; a near miss never has one
    outcomes: list[Step] = []
    for step in shown:
        fails = step.episode == 3
        outcomes.append(
            replace(step, episode=step.episode - 2, reward=step.reward * (not fails), success=False)
        )
        if step.terminated and not fails:
            outcomes[-1] = replace(outcomes[-1], terminated=False)
            outcomes += [replace(outcomes[-1], index=step.index + i) for i in (1, 2)]
    length = sum(step.episode == 2 for step in shown)
    for config, added in ((CONFIG, length), (replace(CONFIG, learn_outcomes=False), 0)):
        training = Training(SPACE, config, seed=0, run_steps=100)
        training.load_demonstrations(Shown.of(demos, outcomes))
        episodes = list(training.memory.replay.whole_episodes())
        assert [label.succeeded for _, label in episodes] == [True] * (2 + bool(added))
        assert training.metrics()["demo_transitions"] == len(demos) - 2 + max(0, added - 1)


def test_learning_needs_no_demonstrations() -> None:
    training = Training(SPACE, CONFIG, seed=0, run_steps=100)
    training.update(training.due())
    train(training, 60)
    assert np.isfinite(training.metrics()["critic_loss"]) and training.due() == 0


PIXELS = SpaceSpec.unnamed(
    {"state/tcp_pose": ((6,), "float32"), "image/eye": ((40, 40, 3), "uint8")}, 2
)


def pixel_steps(author: Provenance, episode: int = 0, count: int = 6) -> list[Step]:
    rng = np.random.default_rng(episode)
    steps = []
    for index in range(count):
        end = author == Provenance.DEMO and index == count - 1
        step = make(
            episode,
            index,
            np.zeros(2, np.float32),
            rng.uniform(-1, 1, 2).astype("f4"),
            end,
            False,
            author,
        )
        image = rng.integers(0, 256, (40, 40, 3)).astype(np.uint8)
        pose = (0.01 * rng.normal(size=6)).astype(np.float32)
        steps.append(
            Step(**{**vars(step), "observation": {"state/tcp_pose": pose, "image/eye": image}})
        )
    return steps


def pixel_training(encoder: str, folder: Path, **options: Any) -> Training:
    weights = folder / "resnet10.safetensors"
    if encoder == "resnet10" and not weights.exists():
        save_weights(ResNet10(), weights)
    config = LearnerConfig(
        "rlpd",
        RLPDConfig(hidden=(32, 32), batch_size=8),
        schedule=ScheduleConfig(start_steps=0),
        encoder=encoder,
        encoder_weights=str(weights),
        camera_features=8,
        compile=False,
        **{"feature_variants": 2, "pretrain": PretrainConfig(epochs=1, batch_size=4), **options},
    )
    return Training(PIXELS, config, seed=0, run_steps=20)


def vision_of(training: Training) -> Vision:
    assert isinstance(training.agent.policy.vision, Vision)
    return training.agent.policy.vision


PIXEL_DEMOS = [
    *pixel_steps(Provenance.DEMO),
    *pixel_steps(Provenance.SCRIPT),
    *pixel_steps(Provenance.DEMO),
]


@pytest.mark.parametrize("encoder", ["goal", "goal_points", "end_to_end", "resnet10"])
def test_all_regimes_of_pixels_learn_and_publish_what_they_should(
    encoder: str, tmp_path: Path
) -> None:
    training = pixel_training(encoder, tmp_path)
    training.load_demonstrations(Shown.of(PIXEL_DEMOS))
    # wandering pursues nothing: it is for the encoder alone
    assert training.memory.replay.demo_transitions == 10
    *begun, last = pixel_steps(Provenance.POLICY, episode=1)
    training.add(begun)
    assert np.isfinite(training.newest_value()["value"])
    training.add([last])
    training.update(training.due())
    assert np.isfinite(training.metrics()["critic_loss"])
    published = training.publishable()
    assert any(name.startswith("vision.") for name in published) != encoder.startswith("goal")
    assert not any(name.startswith("vision.trunks.") for name in published)
    live = LivePolicy(training.spec.to_json(), training.policy())
    assert live.act(pixel_steps(Provenance.POLICY)[0].observation).shape == (2,)


def test_the_critics_see_the_goal_that_the_actor_saw(tmp_path: Path) -> None:
    """Which is made of all frames of the episode so far, of each actor's own."""
    training = pixel_training("goal", tmp_path, feature_variants=1)
    training.load_demonstrations(Shown.of(PIXEL_DEMOS))
    held = len(training.memory.replay)
    episodes = [pixel_steps(Provenance.POLICY, episode=number) for number in (1, 2)]
    training.add(
        [step for pair in zip(*episodes, strict=True) for step in pair],
        [("one", 7), ("two", 7)] * 6,
    )
    indices = training.memory.replay.transitions()
    cached = training.memory.replay.gather(indices[indices >= held])["vision"].numpy()[:, -6:]
    for number, steps in enumerate(episodes):
        goals, frames = GoalFilter(1), np.stack([step.observation["image/eye"] for step in steps])
        alone = encode(vision_of(training), {"eye": frames})[:, -6:].astype(np.float32)
        seen = [goals.update(step.observation["state/tcp_pose"][None], goal[None])[0]
                for step, goal in zip(steps, alone, strict=True)]  # fmt: skip
        np.testing.assert_allclose(cached[number::2], seen[:-1], atol=1e-3)
        assert np.abs(seen - alone).max() > 0.01, "all frames say the same: the test shows nothing"


def renewing(folder: Path, **options: Any) -> Training:
    usual = PretrainConfig(epochs=1, batch_size=4, renew_at=(4,), renew_epochs=2, renew_updates=6)
    pretrain = replace(usual, **options)
    return pixel_training("goal", folder, pretrain=pretrain)


@pytest.mark.parametrize(("below", "due"), [(0.05, False), (0.06, True)])
def test_an_encoder_is_left_as_it_is_while_the_policy_does_without_help(
    below: float, due: bool, tmp_path: Path
) -> None:
    training = renewing(tmp_path, renew_below=below)
    training.load_demonstrations(Shown.of(PIXEL_DEMOS))
    *steps, last = pixel_steps(Provenance.POLICY, episode=1)
    training.add([*steps, replace(last, terminated=True, truncated=False, success=True)])
    assert training.memory.alone == pytest.approx(0.05), "one of twenty"
    assert training.renewal_due == due


def test_a_renewed_encoder_is_published_and_everything_is_seen_with_it(tmp_path: Path) -> None:
    training = renewing(tmp_path)
    training.load_demonstrations(Shown.of(PIXEL_DEMOS))
    first, success = (
        pixel_steps(Provenance.POLICY, episode=1)[:3],
        pixel_steps(Provenance.POLICY, episode=2),
    )
    dues = []
    for steps in (first, success):
        training.add(steps)
        dues.append(training.renewal_due)
    training.update(training.due())
    before, held = training.publishable(), len(training.memory.replay)
    training.renew_encoder(Shown.of(PIXEL_DEMOS), [EndedEpisode(success, success=True)])
    dues.append(training.renewal_due)
    assert dues == [False, True, False]
    assert training.env_steps == 0 and training.memory.replay.demo_transitions == 10
    training.add([*first, *success])
    assert len(training.memory.replay) == held and training.env_steps == 7
    assert training.due() == 6
    training.update(6)
    published = training.publishable()
    assert any(
        not np.array_equal(before[n], published[n])
        for n in published
        if n.startswith("vision.cameras.")
    )
    averaged = training.agent.average_parameters()
    assert all(
        np.array_equal(averaged[n], published[n]) for n in published if n.startswith("vision.")
    )
    live = LivePolicy(training.spec.to_json(), training.policy())
    live.load(published)
    cached = training.memory.replay.gather(training.memory.replay.transitions()[-1:])[
        "vision"
    ].numpy()[0, :8]
    frame = success[-2].observation["image/eye"][None]
    np.testing.assert_array_equal(cached, encode(vision_of(training), {"eye": frame})[0, :8])


def test_a_renewal_that_is_broken_off_changes_nothing(tmp_path: Path) -> None:
    training = renewing(tmp_path)
    training.load_demonstrations(Shown.of(PIXEL_DEMOS))
    training.add(pixel_steps(Provenance.POLICY, episode=1))
    before = training.checkpoint()

    def stop(done: int, total: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        training.renew_encoder(Shown.of(PIXEL_DEMOS), [], stop)
    after = training.checkpoint()
    assert all(torch.equal(before.agent[name], tensor) for name, tensor in after.agent.items())
    assert before.counters == after.counters and training.renewal_due


@pytest.mark.parametrize("encoder", ["goal", "end_to_end", "resnet10"])
def test_resumed_from_pixels_the_same_features_come_back(encoder: str, tmp_path: Path) -> None:
    """Shifts and lights of the cached variants as well, in whatever portions the steps come."""
    straight = pixel_training(encoder, tmp_path)
    straight.load_demonstrations(Shown.of(PIXEL_DEMOS))
    first, more = (
        pixel_steps(Provenance.POLICY, episode=1),
        pixel_steps(Provenance.POLICY, episode=2),
    )
    straight.add(first)
    straight.update(4)
    resumed = pixel_training(encoder, tmp_path)
    resumed.load_demonstrations(Shown.of(PIXEL_DEMOS), straight.checkpoint())
    resumed.add(first[:2])
    resumed.add(first[2:])
    for training in (straight, resumed):
        training.add(more)
        training.update(3)
    assert all(np.array_equal(a, resumed.policy()[name]) for name, a in straight.policy().items())


@pytest.mark.parametrize(("encoder", "shifted"), [("goal", False), ("resnet10", True)])
def test_only_images_without_a_goal_in_them_are_shifted(
    encoder: str, shifted: bool, tmp_path: Path
) -> None:
    """The first variant is the frame as it is, the others are moved: or lit otherwise, where that
    moved the goal.
    """
    training = pixel_training(encoder, tmp_path)
    frames = np.stack([step.observation["image/eye"] for step in pixel_steps(Provenance.POLICY)])
    cache = FeatureCache(training.agent.policy, training.config, seed=0)
    changed = cache.augmented(1, 0, "eye", frames, 0).float().numpy()
    for before, after in zip(frames.astype(float), changed, strict=True):
        places = [(y, x) for y in range(-4, 5) for x in range(-4, 5)]
        inner = after[10:30, 10:30]
        moved = [
            p
            for p in places
            if np.array_equal(before[10 + p[0] : 30 + p[0], 10 + p[1] : 30 + p[1]], inner)
        ]
        assert len(moved) == shifted
        if not shifted:
            assert np.corrcoef(before[..., 0].ravel(), after[..., 0].ravel())[0, 1] > 0.99
    assert variants_for(LearnerConfig(encoder=encoder, encoder_weights="x"), training.spec) == (
        4 if shifted else 1
    )


def test_features_that_sixteen_bit_cannot_hold_are_refused(tmp_path: Path) -> None:
    training = pixel_training("resnet10", tmp_path)
    training.load_demonstrations(Shown.of(PIXEL_DEMOS))
    with torch.no_grad():
        training.agent.policy.get_parameter("vision.trunks.0.blocks.3.norm2.bias").fill_(1e6)
    with pytest.raises(DataError, match="16 bit"):
        training.add(pixel_steps(Provenance.POLICY))
