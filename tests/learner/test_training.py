"""The whole of learning without any process: a small problem is solved, and a run repeats and resumes exactly."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest

from robot_rl.learner.agents.rlpd import RLPDConfig
from robot_rl.learner.pretrain import PretrainConfig
from robot_rl.learner.schedule import ScheduleConfig
from robot_rl.learner.training import LearnerConfig, Training
from robot_rl.networks.policy import LivePolicy
from robot_rl.types import Array, DataError, Mark, MarkKind, Observation, Provenance, SpaceSpec, Step

SPACE = SpaceSpec({"state/goal": ((2,), "float32")}, 2)
CONFIG = LearnerConfig(
    agent=RLPDConfig(hidden=(64, 64), batch_size=64, bc_decay_steps=2_000),
    schedule=ScheduleConfig(utd=4.0, start_steps=50),
    compile=False,
)


def reach(
    rng: np.random.Generator, act: Callable[[Observation], Array], episode: int, author: Provenance
) -> Iterator[Step]:
    """Reach a goal in the plane: 20 steps of at most 0.2 per axis, reward 1 within 0.05. A time limit truncates."""
    goal, nothing = rng.uniform(-1, 1, 2).astype(np.float32), np.zeros(2, np.float32)
    yield make(episode, 0, goal, nothing, False, False, author)
    for t in range(1, 21):
        action = np.clip(act({"state/goal": goal}), -1, 1).astype(np.float32)
        goal = goal + np.float32(0.2) * action
        done = bool(np.abs(goal).max() < 0.05)
        yield make(episode, t, goal, action, done, t == 20 and not done, author)
        if done:
            return


def make(episode: int, index: int, goal: Array, action: Array, done: bool, late: bool, author: Provenance) -> Step:
    return Step(
        episode=episode,
        index=index,
        observation={"state/goal": goal},
        proposed=action,
        commanded=action,
        executed=action,
        reward=float(done),
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
        live.seed(episode)
        training.add(list(reach(np.random.default_rng(episode), live.act, episode, Provenance.POLICY)))
        training.update(training.due())
        live.load(training.publishable())
        episode += 1
    return episode


def success_rate(training: Training) -> float:
    live = LivePolicy(training.spec, training.policy())

    def act(seen: Observation) -> Array:
        return live.act(seen, greedy=True)

    ends = [list(reach(np.random.default_rng(10_000 + n), act, n, Provenance.POLICY))[-1] for n in range(50)]
    return sum(end.terminated for end in ends) / len(ends)


def test_a_small_problem_is_solved_from_a_random_policy() -> None:
    """Fails if learning is broken: an untrained policy, or one whose critic learns nothing, stays near zero."""
    training = Training(SPACE, CONFIG, seed=0, run_steps=600)
    training.load_demonstrations(demonstrations())
    assert success_rate(training) < 0.2
    train(training, 500)
    assert success_rate(training) >= 0.9
    metrics = training.metrics()
    assert {"q", "critic_loss", "entropy", "temperature", "bc_weight", "updates_per_s"} <= metrics.keys()
    assert metrics["updates"] == 4 * (training.env_steps - 50)
    assert metrics["bc_weight"] == pytest.approx(2.0 * (1 - training.env_steps / 2_000))


def test_same_seed_same_weights() -> None:
    results = []
    for _ in range(2):
        training = Training(SPACE, CONFIG, seed=3, run_steps=200)
        training.load_demonstrations(demonstrations())
        train(training, 120)
        results.append(training.policy())
    assert all(np.array_equal(results[0][name], results[1][name]) for name in results[0])


def test_resumed_training_goes_on_exactly_as_it_would_have() -> None:
    straight = Training(SPACE, CONFIG, seed=1, run_steps=300)
    straight.load_demonstrations(demonstrations())
    steps: list[Step] = []
    add = straight.add
    straight.add = lambda new: (steps.extend(new), add(new))  # type: ignore
    episodes = train(straight, 100)
    saved = straight.checkpoint(position=len(steps))
    resumed = Training(SPACE, CONFIG, seed=99, run_steps=300)
    resumed.load_demonstrations(demonstrations(), saved)
    resumed.add(steps)
    train(straight, 160, episodes)
    train(resumed, 160, episodes)
    assert all(np.array_equal(a, resumed.policy()[name]) for name, a in straight.policy().items())


def test_warming_up_leaves_no_trace() -> None:
    warm, cold = (Training(SPACE, CONFIG, seed=2, run_steps=200) for _ in range(2))
    warm.warm_up()
    for training in (warm, cold):
        training.load_demonstrations(demonstrations())
        train(training, 80)
    assert all(np.array_equal(a, cold.policy()[name]) for name, a in warm.policy().items())


def test_the_number_of_steps_in_a_return_reaches_the_critics() -> None:
    policies = []
    for n_step in (1, 3):
        config = replace(CONFIG, agent=replace(CONFIG.agent, n_step=n_step))
        training = Training(SPACE, config, seed=0, run_steps=100)
        training.load_demonstrations(demonstrations())
        train(training, 60)
        assert np.isfinite(training.metrics()["critic_loss"])
        policies.append(training.policy())
    assert not all(np.array_equal(policies[0][name], policies[1][name]) for name in policies[0])


def test_the_operators_word_is_heard_between_updates_only() -> None:
    training = Training(SPACE, CONFIG, seed=0, run_steps=200)
    training.load_demonstrations(demonstrations())
    stream = ("arm", 5)
    steps = list(reach(np.random.default_rng(1), lambda seen: np.ones(2), 0, Provenance.POLICY))
    training.add(steps, [stream] * len(steps))
    own = training.replay.own_transitions
    training.apply(Mark(MarkKind.DISCARD, 0), "another arm", 5)
    assert training.replay.own_transitions == own == len(steps) - 1
    training.apply(Mark(MarkKind.DISCARD, 0), *stream)
    assert training.replay.own_transitions == 0
    assert training.env_steps == len(steps) - 1  # they were made: the schedule does not go back
    training.apply(Mark(MarkKind.UNDO, 0), *stream)
    assert training.replay.own_transitions == own
    with pytest.raises(DataError, match="between two calls of update"):
        training.update(3, between=lambda: training.add(steps))
    training.add(steps)


def test_learning_before_the_demonstrations_says_what_comes_first() -> None:
    with pytest.raises(DataError, match="load_demonstrations"):
        Training(SPACE, CONFIG, seed=0, run_steps=10).update(1)


PIXELS = SpaceSpec({"state/tcp_pose": ((6,), "float32"), "image/eye": ((40, 40, 3), "uint8")}, 2)


def pixel_steps(author: Provenance, episode: int = 0, count: int = 6) -> list[Step]:
    rng = np.random.default_rng(episode)
    steps = []
    for index in range(count):
        end = author == Provenance.DEMO and index == count - 1
        step = make(episode, index, np.zeros(2, np.float32), rng.uniform(-1, 1, 2).astype("f4"), end, False, author)
        image = rng.integers(0, 256, (40, 40, 3)).astype(np.uint8)
        pose = (0.01 * rng.normal(size=6)).astype(np.float32)
        steps.append(Step(**{**vars(step), "observation": {"state/tcp_pose": pose, "image/eye": image}}))
    return steps


@pytest.mark.parametrize("encoder", ["goal", "end_to_end"])
def test_both_regimes_of_pixels_learn_and_publish_what_they_should(encoder: str) -> None:
    config = LearnerConfig(
        agent=RLPDConfig(hidden=(32, 32), batch_size=8),
        schedule=ScheduleConfig(start_steps=0),
        pretrain=PretrainConfig(epochs=1, batch_size=4),
        encoder=encoder,
        camera_features=8,
        feature_variants=2,
        compile=False,
    )
    training = Training(PIXELS, config, seed=0, run_steps=20)
    training.load_demonstrations([
        *pixel_steps(Provenance.DEMO),
        *pixel_steps(Provenance.SCRIPT),
        *pixel_steps(Provenance.DEMO),
    ])
    assert training.replay.demo_transitions == 10  # wandering pursues nothing: it is for the encoder alone
    training.add(pixel_steps(Provenance.POLICY, episode=1))
    training.update(training.due())
    assert np.isfinite(training.metrics()["critic_loss"])
    published = training.publishable()
    assert any(name.startswith("vision.") for name in published) == (encoder == "end_to_end")
    live = LivePolicy(training.spec.to_json(), training.policy())
    assert live.act(pixel_steps(Provenance.POLICY)[0].observation).shape == (2,)
