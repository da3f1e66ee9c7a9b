"""A run's own goals beside those that were shown: held to what these agree on, and to nothing else."""

from dataclasses import replace

import numpy as np
import torch

from robot_rl import geometry
from robot_rl.learner.goal_agreement import BEYOND, ENOUGH, ROOM, as_shown
from robot_rl.learner.goal_frames import goal_frames
from robot_rl.networks.policy_spec import PolicySpec
from robot_rl.networks.poses import moved, seen_from
from robot_rl.stream.episodes import EndedEpisode
from robot_rl.types import Array, Provenance, SpaceSpec, Step
from tests.learner.test_pretrain import SPACE, episode, random_pose

SHOWN = 20
FRAMES = 4


def on_bench(places: Array, goals: Array) -> Array:
    return moved(torch.from_numpy(places), torch.from_numpy(goals)).numpy()


def from_tool(places: Array, there: Array) -> Array:
    return seen_from(torch.from_numpy(places), torch.from_numpy(there)).numpy()


def scenes_of(rng: np.random.Generator, count: int) -> Array:
    """A goal on the bench of each scene: anywhere within 2 cm, at one height, turned by 0.1."""
    spread = np.array([0.02, 0.02, 0.0, 0.0, 0.0, 0.1])
    return rng.uniform(-1.0, 1.0, (count, 6)) * spread + [0.0, 0.0, 0.09, 0.0, 0.0, 0.0]


def frames_of(rng: np.random.Generator, there: Array) -> tuple[Array, Array, Array]:
    """Goals from the tool, the tool's places and the scenes of some frames of each scene."""
    places = rng.normal(0.0, [0.03] * 3 + [0.2] * 3, (FRAMES * len(there), 6))
    scenes = np.repeat(np.arange(len(there)), FRAMES)
    return from_tool(places, there[scenes]), places, scenes


def kept(there: Array, own_scenes: int, holds: Array | None = None) -> Array:
    """The goals on the bench that are left of frames, of which the last scenes are own."""
    goals, places, scenes = frames_of(np.random.default_rng(1), there)
    own = scenes >= len(there) - own_scenes
    held = np.zeros((len(scenes), 1), bool) if holds is None else holds[scenes][:, None]
    return on_bench(places, as_shown(goals, places, own, scenes, held))[::FRAMES]


def test_an_own_success_22_mm_lower_is_taken_for_none_there():
    there = scenes_of(np.random.default_rng(0), SHOWN + 1)
    there[-1, 2] += 0.022

    left = kept(there, own_scenes=1)

    assert abs(left[-1, 2] - 0.09) < ROOM[2] + 1e-6
    np.testing.assert_allclose(np.delete(left[-1], 2), np.delete(there[-1], 2), atol=1e-6)
    np.testing.assert_allclose(left[:-1], there[:-1], atol=1e-6)


def test_where_scenes_vary_an_own_one_may_be_further_out_than_any_that_was_shown():
    there = scenes_of(np.random.default_rng(0), SHOWN + 1)
    there[-1] = [0.028, -0.028, 0.0912, 0.0, 0.0, 0.14]
    assert (np.abs(there[-1] - there[:-1].mean(0)) < BEYOND * there[:-1].std(0) + ROOM).all()

    np.testing.assert_allclose(kept(there, own_scenes=1), there, atol=1e-6)


def test_few_scenes_agree_on_nothing():
    there = scenes_of(np.random.default_rng(0), ENOUGH)
    there[-1, 2] += 0.022

    np.testing.assert_allclose(kept(there, own_scenes=1), there, atol=1e-6)


def test_what_is_shown_with_empty_hands_says_nothing_of_full_ones():
    there = scenes_of(np.random.default_rng(0), 2 * SHOWN + 1)
    holds = np.arange(len(there)) >= SHOWN
    there[holds, 2] = 0.15

    np.testing.assert_allclose(kept(there, own_scenes=1, holds=holds), there, atol=1e-6)


def test_what_nobody_knows_stays_unknown():
    there = scenes_of(np.random.default_rng(0), SHOWN + 1)
    goals, places, scenes = frames_of(np.random.default_rng(1), there)
    goals[::3] = np.nan

    left = as_shown(goals, places, scenes == SHOWN, scenes, np.zeros((len(scenes), 1), bool))

    np.testing.assert_allclose(left, goals, atol=1e-6)


def test_each_arm_is_held_to_its_own():
    there = scenes_of(np.random.default_rng(0), SHOWN + 1)
    goals, places, scenes = frames_of(np.random.default_rng(1), there)
    lower = there.copy()
    lower[-1, 2] += 0.022
    low = from_tool(places, lower[scenes])
    holds = np.zeros((len(scenes), 2), bool)

    both = np.hstack([goals, low]), np.hstack([places, places])
    left = as_shown(*both, scenes == SHOWN, scenes, holds)

    np.testing.assert_allclose(left[:, :6], goals, atol=1e-6)
    heights = on_bench(places, left[:, 6:])[scenes == SHOWN, 2]
    assert (np.abs(heights - 0.09) < ROOM[2] + 1e-6).all()


def test_an_encoder_learns_no_own_goal_beside_what_was_shown_where_the_bench_is_observed():
    rng = np.random.default_rng(0)
    spec = PolicySpec.from_space(
        SpaceSpec.unnamed(dict(SPACE.observations) | {"state/place": ((6,), "float32")}, 2), "goal"
    )
    there = scenes_of(rng, ENOUGH + 1)
    there[-1, 2] += 0.022
    poses = [geometry.pose_move(geometry.IDENTITY, goal) for goal in there]

    def at_bench(number: int, author: Provenance) -> list[Step]:
        way = [random_pose(rng), random_pose(rng), poses[number]]
        return [
            replace(step, observation={**step.observation, "state/place": place})
            for step, place in zip(
                episode(way, poses[number], author, number=number),
                (geometry.pose_delta(geometry.IDENTITY, pose).astype(np.float32) for pose in way),
                strict=True,
            )
        ]

    shown = [step for i in range(ENOUGH) for step in at_bench(i, Provenance.DEMO)]
    own = EndedEpisode(at_bench(ENOUGH, Provenance.POLICY), success=True)
    frames = goal_frames(shown, spec, [own])

    assert frames.scenes.tolist() == [i for i in range(ENOUGH + 1) for _ in range(3)]
    places = np.array([step.observation["state/place"] for step in (*shown, *own.steps)], float)
    heights = on_bench(places, frames.goals.astype(float))[:, 2]
    np.testing.assert_allclose(heights[:-3], 0.09, atol=1e-5)
    assert (np.abs(heights[-3:] - 0.09) < ROOM[2] + 1e-5).all()
