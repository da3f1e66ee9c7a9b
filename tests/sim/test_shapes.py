"""The shapes that the console draws are where the published kinematics say."""

import numpy as np

from robot_rl.geometry import pose_inverse, pose_multiply
from robot_rl.sim.panda import READY, flange_pose
from robot_rl.sim.shapes import ArmShapes
from robot_rl.types import Use, WorldState
from tests.two_arms import SCENE


def test_the_hand_stays_on_the_flange_and_the_base_on_the_table():
    drawn = ArmShapes(Use("peg_insert"))
    kinds = {shape.kind for shape in drawn.shapes}
    assert kinds == {"box", "capsule", "cylinder"}
    seen = []
    for q in (np.array(READY), np.array(READY) + 0.3):
        poses = drawn.poses(q)
        assert poses.shape == (len(drawn.shapes), 7)
        poses = poses[~np.isnan(poses).any(axis=1)]
        seen.append((
            poses,
            np.array([pose_multiply(pose_inverse(flange_pose(q)), pose) for pose in poses]),
        ))
    still = [np.allclose(a, b, atol=1e-9) for a, b in zip(seen[0][0], seen[1][0], strict=True)]
    held = [
        np.allclose(np.abs(a), np.abs(b), atol=1e-6)
        for a, b in zip(seen[0][1], seen[1][1], strict=True)
    ]
    assert sum(held) >= 6, "two boxes of the hand, four of the fingers"
    assert 1 <= sum(still) <= 3, "the foot and the table"
    assert not any(a and b for a, b in zip(still, held, strict=True))


def test_what_a_reset_moves_is_drawn_where_it_is_and_nowhere_while_nobody_knows():
    drawn, q = ArmShapes(Use("peg_insert")), np.array(READY)
    unknown = np.isnan(drawn.poses(q)).all(axis=1)
    assert unknown.sum() == 5, "the socket's walls and its bottom"
    socket = np.array([[0.4, 0.1, 0.0, 0.0, 0.0, 0.0, 1.0]])
    there = drawn.poses(q, WorldState(0, 0.0, q, socket, socket[0], False))[unknown]
    np.testing.assert_allclose(there[:, :2].mean(axis=0), [0.4, 0.1], atol=1e-9)
    assert np.isnan(drawn.poses(q)).any()


def test_without_a_scene_there_is_the_arm():
    assert len(ArmShapes(None).shapes) >= 18


def test_without_the_scenery_everything_stands_on_the_arm():
    drawn, alone = (ArmShapes(Use("peg_insert"), arm) for arm in (0, 1))
    assert len(alone.shapes) < len(drawn.shapes)
    up, down = (alone.poses(np.array(READY) + turn) for turn in (0.0, 0.3))
    assert sum(np.allclose(a, b, atol=1e-9) for a, b in zip(up, down, strict=True)) <= 1, "the foot"


def test_of_two_arms_in_one_world_each_is_drawn_once_and_seen_from_its_own_foot():
    left, right = (ArmShapes(SCENE, arm) for arm in (0, 1))
    table = len(left.shapes) - len(right.shapes)
    assert 1 <= table <= 2, "what is no arm's comes with the first alone"
    q = np.array(READY)
    mine, others = left.poses(q), right.poses(q)
    assert all(any(same_pose(a, b) for b in mine) for a in others), "the same, from its own foot"
    turned = right.poses(q + 0.3)
    assert sum(same_pose(a, b) for a, b in zip(others, turned, strict=True)) <= 1


def same_pose(a, b):
    """Whichever of its two quaternions an orientation has."""
    return np.allclose(a[:3], b[:3], atol=1e-9) and abs(a[3:] @ b[3:]) > 1.0 - 1e-9
