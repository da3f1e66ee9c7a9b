"""Frames of the observation (SERL's frame errors, each as a law)."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from robot_rl import config, geometry
from robot_rl.env.observe import Observer
from robot_rl.types import ArmState, Fault

HARDWARE = config.load_hardware("sim_panda")
SPACE = config.spaces(config.load_task("peg_insert_hard"), HARDWARE, "pixels")
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


def observe(start, now, hardware=HARDWARE):
    observer = Observer(hardware, SPACE)
    observer.begin_episode([start])
    return observer.observe([now], {}, None)


@given(vectors, vectors, vectors)
def test_a_translation_never_leaks_into_a_rotation(position, turn, velocity):
    pose = pose_at(position, turn)
    moving = arm_state(pose, twist=np.concatenate([velocity, np.zeros(3)]))
    twist = observe(moving, moving)["state/tcp_twist"]
    np.testing.assert_allclose(twist[3:], 0.0, atol=1e-6)
    np.testing.assert_allclose(
        np.linalg.norm(twist[:3]), np.linalg.norm(velocity), rtol=1e-4, atol=1e-6
    )


@given(vectors, vectors, vectors, vectors, vectors, vectors)
def test_the_observation_does_not_change_when_the_whole_scene_is_moved(
    p0, r0, p1, r1, p_scene, r_scene
):
    scene = pose_at(p_scene, r_scene * 0.9)
    start, now = pose_at(p0, r0 * 0.3), pose_at(p1, r1 * 0.3)
    here = observe(arm_state(start), arm_state(now, target=start))
    moved_start, moved_now = (
        geometry.pose_multiply(scene, start),
        geometry.pose_multiply(scene, now),
    )
    there = observe(arm_state(moved_start), arm_state(moved_now, target=moved_start))
    for name in ("state/tcp_pose", "state/target_offset"):
        np.testing.assert_allclose(here[name], there[name], atol=1e-4)


@given(vectors, vectors, vectors, angles)
def test_downwards_follows_the_tilt_alone_not_where_the_scene_is_or_how_it_is_turned(
    p, r, p_scene, about_vertical
):
    pose = arm_state(pose_at(p, r * 0.3))
    down = observe(pose, pose)["state/projected_gravity"]
    np.testing.assert_allclose(np.linalg.norm(down), 1.0, rtol=1e-5)
    scene = pose_at(p_scene, np.array([0.0, 0.0, about_vertical]))
    moved = arm_state(geometry.pose_multiply(scene, pose.pose_base_tcp))
    np.testing.assert_allclose(observe(moved, moved)["state/projected_gravity"], down, atol=1e-5)


@given(vectors, vectors, vectors, vectors)
def test_a_place_on_the_bench_has_the_same_name_wherever_the_episode_began(p0, r0, p1, r1):
    task = config.load_task("pick_cube")
    hand = config.load_hardware("sim_hand")
    observer = Observer(
        hand, config.spaces(task, hand, "pixels"), [start.pose_base_tool for start in task.start]
    )
    middle = np.array(task.start[0].pose_base_tool)
    offset = np.concatenate([p1 * 0.1, r1 * 0.3])
    for start in (middle, pose_at(p0, r0 * 0.3)):
        observer.begin_episode([arm_state(start)])
        now = arm_state(geometry.pose_move(middle, offset))
        seen = observer.observe([now], {}, None)["state/place"]
        np.testing.assert_allclose(seen, offset, atol=1e-4)


@given(vectors, vectors, vectors, vectors)
def test_what_a_hand_holds_is_told_from_where_it_was_taken_until_it_is_let_go(p0, r0, p1, r1):
    task = replace(config.load_task("pick_cube"), observe_grasp=True)
    hand = config.load_hardware("sim_hand")
    observer = Observer(hand, config.spaces(task, hand, "pixels"), [task.start[0].pose_base_tool])
    taken, offset = pose_at(p0, r0 * 0.3), np.concatenate([p1 * 0.1, r1 * 0.3])
    later = geometry.pose_move(taken, offset)

    def seen(pose, holding):
        return observer.observe([arm_state(pose)], {}, None, holding=holding)["state/grasp"]

    observer.begin_episode([arm_state(later)])
    assert not seen(later, ()).any()
    np.testing.assert_allclose(seen(taken, (0,)), 0.0, atol=1e-6)
    np.testing.assert_allclose(seen(later, (0,)), offset, atol=1e-4)
    observer.begin_episode([arm_state(later)])  # an episode that begins where the arm stands
    np.testing.assert_allclose(seen(later, (0,)), offset, atol=1e-4)
    assert not seen(later, ()).any()
    np.testing.assert_allclose(seen(later, (0,)), 0.0, atol=1e-6)


def test_downwards_is_the_benchs_also_for_an_arm_on_the_wall():
    flange_z_down = arm_state(pose_at(np.zeros(3), np.array([np.pi, 0.0, 0.0])))
    np.testing.assert_allclose(
        observe(flange_z_down, flange_z_down)["state/projected_gravity"], [0, 0, 1], atol=1e-6
    )
    (arm,) = HARDWARE.arms
    wall = (
        0.0,
        0.0,
        1.0,
        *geometry.quat_from_rotvec(np.array([0.0, np.pi / 2, 0.0])),
    )  # its z points along bench x
    hardware = replace(HARDWARE, arms=(replace(arm, pose_bench_base=wall),))
    outwards = arm_state(geometry.IDENTITY)
    np.testing.assert_allclose(
        observe(outwards, outwards, hardware)["state/projected_gravity"], [1.0, 0.0, 0.0], atol=1e-6
    )


def test_wrench_is_turned_into_the_tool_frame():
    down = pose_at(np.array([0.5, 0.0, 0.1]), np.array([np.pi, 0.0, 0.0]))  # tool z points down
    # the table pushes up
    pressed = arm_state(down, wrench=np.array([0.0, 0.0, 5.0, 0.0, 0.0, 0.0]))
    np.testing.assert_allclose(
        observe(pressed, pressed)["state/tcp_wrench"][:3], [0.0, 0.0, -5.0], atol=1e-6
    )
