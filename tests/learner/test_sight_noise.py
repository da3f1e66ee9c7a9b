"""Laws of the noise on what a frozen encoder has seen: as large as said, there for learning alone, and
what it is for.
"""

from contextlib import closing

import numpy as np
import pytest
import torch

from robot_rl.learner.agents.rlpd_bc import Agent, Config
from robot_rl.learner.batches import BatchConfig, Batches, SamplingPlan, SightNoise
from robot_rl.learner.options import LearnerConfig, with_encoder
from robot_rl.learner.replay import Replay
from robot_rl.types import ConfigError, Provenance, Step
from tests.learner.small import SPACES, make_agent, make_batch, same, snapshot, spec_of
from tests.learner.test_training import pixel_steps

NOISE = SightNoise(features=0.5, goal_m=0.002, goal_per_m=0.1, goal_rad=0.05)
FEATURES = 8  # of the one camera; behind them the goal from one tool
SCENES = 12


def seen(rng: np.random.Generator, scene: int, error_m: float) -> tuple[np.ndarray, np.ndarray]:
    """What an encoder makes of 12 frames of a scene, and where the goal is there [m]. By its features each
    scene can be told from any other.
    """
    goals = np.zeros((12, 6), np.float32)
    goals[:, :3] = rng.uniform(-0.05, 0.05, (12, 3))
    vision = np.zeros((12, FEATURES + 6), np.float32)
    vision[:, :FEATURES] = np.random.default_rng(scene).uniform(-1, 1, FEATURES)
    vision[:, FEATURES:] = goals
    vision[:, FEATURES : FEATURES + 3] += error_m * np.random.default_rng(scene).normal(size=3)
    return vision, goals[:, :3]


def shown(rng: np.random.Generator) -> Replay:
    """Demonstrations of an unsteady hand, in scenes that the encoder knows by heart."""
    replay = Replay(SPACES["goal"], 1000, keep_images=False, vision_size=FEATURES + 6)
    for scene in range(SCENES):
        vision, goals = seen(rng, scene, 0.0)
        done = np.zeros(3, np.float32)
        for index, step in enumerate(pixel_steps(Provenance.DEMO, scene, len(vision))):
            changed = {"executed": done, "commanded": done, "proposed": done}
            replay.append(Step(**{**vars(step), **changed}), vision[index][None].astype(np.float16))
            unsteady = rng.normal(0.0, 0.3, 3)
            done = np.clip(goals[index] / 0.05 + unsteady, -1, 1).astype(np.float32)
    return replay


def cloned(noise: SightNoise) -> float:
    """How far off a copy acts in scenes of others: root mean square."""
    torch.manual_seed(0)
    plan = SamplingPlan(64, demo_fraction=1.0)
    agent = Agent(spec_of("goal"), Config(hidden=(64, 64), batch_size=64, learning_rate=1e-3), 0)
    source = Batches(
        shown(np.random.default_rng(0)),
        BatchConfig(plan, noise=noise, goal_size=6),
        np.random.default_rng(1),
    )
    with closing(source.draw(1500)) as batches:
        for batch in batches:
            agent.clone_behaviour(batch)
    rng, off = np.random.default_rng(2), []
    for scene in range(100, 140):
        vision, goals = seen(rng, scene, 0.004)
        batch = {"state": torch.zeros(12, 6), "vision": torch.from_numpy(vision)}
        off.append(agent.assess(batch)[0].numpy() - goals / 0.05)
    return float(np.sqrt(np.square(off).mean()))


def test_who_learns_from_disturbed_sight_acts_better_where_sight_is_worse() -> None:
    assert cloned(NOISE) < 0.7 * cloned(SightNoise())


def test_the_noise_is_as_large_as_it_says() -> None:
    vision = torch.zeros(4000, FEATURES + 12)
    vision[:, FEATURES] = 0.3  # the first goal is 30 cm away, the second is here
    added = NOISE.disturbed(vision, 12, np.random.default_rng(0)) - vision
    expected = [0.5] * FEATURES + [0.032] * 3 + [0.05] * 3 + [0.002] * 3 + [0.05] * 3
    assert added.std(0).numpy() == pytest.approx(np.array(expected), rel=0.06)
    assert added.mean(0).abs().max() < 0.03


def test_the_policy_learns_from_what_is_disturbed_and_the_critics_do_not() -> None:
    def updated(**disturbed: torch.Tensor) -> tuple[dict, dict, dict]:
        agent = make_agent("goal")
        batch = make_batch(agent)
        agent.update(batch | disturbed)
        return snapshot(agent.critics), snapshot(agent.policy.head), batch

    critics, head, batch = updated()
    for noise, equal in ((0.0, True), (0.1, False)):
        theirs, heads, _ = updated(disturbed=batch["vision"] + noise)
        assert same(theirs, critics)
        assert same(heads, head) == equal


def test_it_is_drawn_anew_and_never_written_into_the_replay() -> None:
    replay = shown(np.random.default_rng(0))
    kept = replay.gather(np.arange(5))["vision"].clone()
    plan = BatchConfig(SamplingPlan(8), noise=NOISE, goal_size=6)
    with closing(Batches(replay, plan, np.random.default_rng(3)).draw(2)) as batches:
        one, two = ({n: t.clone() for n, t in batch.items()} for batch in batches)
    assert not torch.equal(one["disturbed"], two["disturbed"])
    assert not torch.equal(one["disturbed"], one["vision"])
    assert torch.equal(replay.gather(np.arange(5))["vision"], kept)
    again = Batches(replay, plan, np.random.default_rng(3))
    with closing(again.draw(1)) as batches:
        assert all(torch.equal(batch[n], one[n]) for batch in batches for n in one)


@pytest.mark.parametrize("wrong", [-0.1, float("inf"), float("nan")])
def test_what_is_no_size_is_refused(wrong: float) -> None:
    with pytest.raises(ConfigError, match="noise"):
        SightNoise(goal_m=wrong)


def test_where_no_goal_is_seen_noise_is_refused_and_left_off_where_that_shows_later() -> None:
    with pytest.raises(ConfigError, match="encoder end_to_end has shifts"):
        LearnerConfig(encoder="end_to_end", sight_noise=NOISE)
    auto = LearnerConfig(sight_noise=NOISE)
    assert with_encoder(auto, "goal").sight_noise == NOISE
    assert not with_encoder(auto, "end_to_end").sight_noise
