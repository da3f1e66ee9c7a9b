"""Frames of the observation (SERL's frame errors, each as a law)."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from robot_rl import config, geometry
from robot_rl.actor.observe import Observer
from robot_rl.types import ArmState, Fault

HARDWARE = config.load_hardware("sim_panda")
angles = st.floats(-3.0, 3.0)
vectors = st.tuples(angles, angles, angles).map(np.array)


def arm_state(pose, target=None, twist=None, wrench=None) -> ArmState:
    zeros = np.zeros(7)
    return ArmState(
        sequence=0,
        t=0.0,
        q=zeros,
        dq=zeros,
        pose_base_tcp=pose,
        twist_base_tcp=np.zeros(6) if twist is None else twist,
        wrench_base_tcp=np.zeros(6) if wrench is None else wrench,
        target_base_tcp=pose if target is None else target,
        holding=False,
        fault=Fault.NONE,
    )


def pose_at(translation, turn):
    return np.concatenate([translation, geometry.quat_from_rotvec(turn)])


def observe(start, now):
    observer = Observer(HARDWARE, sees_goal=False)
    observer.begin_episode([start])
    return observer.observe([now], {}, None)


@given(vectors, vectors, vectors)
def test_a_translation_never_leaks_into_a_rotation(position, turn, velocity):
    pose = pose_at(position, turn)
    moving = arm_state(pose, twist=np.concatenate([velocity, np.zeros(3)]))
    twist = observe(moving, moving)["state/tcp_twist"]
    np.testing.assert_allclose(twist[3:], 0.0, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(twist[:3]), np.linalg.norm(velocity), rtol=1e-4, atol=1e-6)


@given(vectors, vectors, vectors, vectors, vectors, vectors)
def test_the_observation_does_not_change_when_the_whole_scene_is_moved(p0, r0, p1, r1, p_scene, r_scene):
    scene = pose_at(p_scene, r_scene * 0.9)
    start, now = pose_at(p0, r0 * 0.3), pose_at(p1, r1 * 0.3)
    here = observe(arm_state(start), arm_state(now, target=start))
    moved_start, moved_now = geometry.pose_multiply(scene, start), geometry.pose_multiply(scene, now)
    there = observe(arm_state(moved_start), arm_state(moved_now, target=moved_start))
    for name in ("state/tcp_pose", "state/target_offset"):
        np.testing.assert_allclose(here[name], there[name], atol=1e-4)


def test_wrench_is_turned_into_the_tool_frame():
    down = pose_at(np.array([0.5, 0.0, 0.1]), np.array([np.pi, 0.0, 0.0]))  # tool z points down
    pressed = arm_state(down, wrench=np.array([0.0, 0.0, 5.0, 0.0, 0.0, 0.0]))  # the table pushes up
    np.testing.assert_allclose(observe(pressed, pressed)["state/tcp_wrench"][:3], [0.0, 0.0, -5.0], atol=1e-6)
