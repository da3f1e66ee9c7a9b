"""What an episode's frames say of the goal together: less noise than each alone, and no memory of
another episode.
"""

import numpy as np
import pytest
import torch

from robot_rl import geometry
from robot_rl.networks import poses as learnt
from robot_rl.networks.goal import GoalFilter, GoalVision

GOAL = np.array([0.01, -0.02, 0.05, 0.02, -0.03, 0.1])
RNG = np.random.default_rng(0)


def pose(vector):
    return geometry.pose_move(geometry.IDENTITY, np.asarray(vector, float))


def seen_from(tool, goal=GOAL):
    return geometry.pose_delta(pose(tool), pose(goal))


def path(steps):
    """Tool poses `(steps, 6)` from the start pose: a random walk of some centimetres and tenths of
    a radian.
    """
    return np.cumsum(RNG.normal(size=(steps, 6)) * [0.003, 0.003, 0.003, 0.02, 0.02, 0.02], axis=0)


def test_what_every_frame_says_is_what_comes_out():
    goals = GoalFilter(1)
    for tool in path(50):
        np.testing.assert_allclose(
            goals.update(tool[None], seen_from(tool)[None])[0], seen_from(tool), atol=1e-6
        )


def test_errors_of_single_frames_average_out():
    goals, alone, together = GoalFilter(1), [], []
    for tool in path(400):
        truth = seen_from(tool)
        seen = truth + RNG.normal(size=6) * [5e-4, 5e-4, 5e-4, 0.01, 0.01, 0.01]
        alone.append(seen - truth)
        together.append(goals.update(tool[None], seen[None])[0] - truth)
    assert (np.std(together[20:], axis=0) < 0.4 * np.std(alone[20:], axis=0)).all()


def test_a_goal_that_is_moved_is_followed_within_two_seconds():
    goals = GoalFilter(1)
    for tool in path(30):
        goals.update(tool[None], seen_from(tool)[None])
    moved = GOAL + [0.01, 0, 0, 0, 0, 0]
    for tool in path(20):
        seen = goals.update(tool[None], seen_from(tool, moved)[None])[0]
    assert np.abs(seen - seen_from(tool, moved))[:3].max() < 0.002


@pytest.mark.parametrize("arms", [1, 2])
def test_an_episode_begins_with_its_first_frame(arms):
    goals = GoalFilter(arms)
    goals.update(np.zeros((arms, 6)), np.full((arms, 6), 0.1))
    goals.begin_episode()
    first = RNG.normal(size=(arms, 6)) * 0.05
    np.testing.assert_allclose(goals.update(np.zeros((arms, 6)), first), first, atol=1e-6)


def test_when_a_hand_moves_the_goal_before_it_is_forgotten_and_no_other_arm_s():
    goals, tool = GoalFilter(2), np.zeros((2, 6))
    for _ in range(20):
        goals.update(tool, np.tile(GOAL / 10.0, (2, 1)))  # near, so that it counts much
    seen = goals.update(tool, np.tile(GOAL, (2, 1)), moving=[False, True])
    assert np.abs(seen[0] - GOAL / 10.0).max() < 0.02
    np.testing.assert_allclose(seen[1], GOAL, atol=1e-6)


@pytest.mark.parametrize("mover", [0, 1])
def test_what_an_arm_saw_while_the_other_one_carried_something_to_it_is_soon_forgotten(mover):
    goals, tools, told = GoalFilter(2), np.zeros((2, 6)), np.zeros((2, 6))
    for moved in np.linspace(0.0, 0.10, 20):
        tools[mover, 0] = moved
        told[:, 0] = 0.10 + moved  # where both go next follows from where that one is
        seen = goals.update(tools, told)
    late = np.abs(seen - told)[:, 0]
    assert late[1 - mover] < 0.005 and late[mover] > 0.02
    for _ in range(5):
        seen = goals.update(tools, told)
    assert np.abs(seen - told)[1 - mover].max() < 0.001


def test_poses_that_are_learnt_through_are_those_of_geometry():
    here, there = RNG.normal(size=(200, 6)), RNG.normal(size=(200, 6))
    here[0], there[:5] = 0.0, here[:5]
    wanted = [geometry.pose_delta(pose(a), pose(b)) for a, b in zip(here, there, strict=True)]
    place, other = torch.from_numpy(here), torch.from_numpy(there).requires_grad_()
    seen = learnt.seen_from(place, other)
    np.testing.assert_allclose(seen.detach().numpy(), wanted, atol=1e-9)
    torch.testing.assert_close(learnt.seen_from(place, learnt.moved(place, seen)), seen)
    seen.sum().backward()
    assert other.grad is not None
    assert torch.isfinite(other.grad).all()


def sees_nothing(frame):
    """An encoder whose head says the same of every picture, and has not learnt which frame to go by."""
    torch.manual_seed(0)
    vision = GoalVision(("eye",), (32, 32), 16, goal_size=6, told=[(f"state/{frame}", 6)])
    for parameter in vision.head[-1].parameters():
        torch.nn.init.zeros_(parameter)
    return vision


def said(vision, tools):
    """Where the goal is from tools at `tools (N, 6)` in the other frame."""
    pictures = torch.zeros(len(tools), 32, 32, 3, dtype=torch.uint8)
    with torch.no_grad():
        return vision({"eye": pictures}, tools)[:, -6:].numpy()


def test_where_goals_spread_little_in_a_frame_it_is_gone_by_from_the_start():
    vision = sees_nothing("place")
    tools = torch.from_numpy(path(500)).float()
    # along x the goals spread little there, along y they are at the same place from every tool
    seen = [seen_from(tool, [RNG.normal(scale=1e-3), 0.1, 0.0, 0.0, 0.0, 0.0]) for tool in tools]
    goals = torch.from_numpy(np.array(seen)).float()
    goals[:, 1] = 0.05 + 1e-3 * torch.randn(500)
    vision.scale_to(goals, tools)
    true = goals.numpy()
    errors = np.abs(said(vision, tools) - true)
    assert np.median(errors[:, 0]) < 0.3 * np.median(np.abs(true[:, 0] - true[:, 0].mean()))
    assert np.median(errors[:, 1]) < 2e-3
    # what has been learnt since is not undone
    learnt_since = vision.head[-1].bias.detach().fill_(3.0).clone()
    vision.scale_to(goals, tools)
    torch.testing.assert_close(vision.head[-1].bias.detach(), learnt_since)


def test_a_hand_that_holds_nothing_says_nothing_of_where_it_took_hold():
    vision = sees_nothing("grasp")
    tools = torch.from_numpy(path(100)).float()
    tools[50:] = 0.0
    goals = torch.full((100, 6), 0.03) + 0.01 * torch.randn(100, 6)
    vision.scale_to(goals, tools)
    vision.head[-1].bias.detach()[-6:] = 20.0  # it has learnt to go by nothing else
    seen = said(vision, tools)
    np.testing.assert_allclose(seen[50:], goals.mean(0).expand(50, 6), rtol=1e-5)
    assert np.abs(seen[:50] - goals.mean(0).numpy()).max() > 0.005
