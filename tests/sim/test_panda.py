"""The model of the arm against what is published about the arm."""

import math
from dataclasses import replace

import mujoco
import numpy as np
import pytest

from robot_rl import config, geometry
from robot_rl.controllers.setup import open_driver
from robot_rl.sim import panda
from robot_rl.sim.stage import build_model, find_scene
from robot_rl.types import ConfigError


@pytest.fixture(scope="module")
def model():
    return build_model(find_scene(None))


def random_q(rng):
    low, high = np.array(panda.JOINT_RANGE).T
    return rng.uniform(low, high)


@pytest.mark.parametrize("name", ["sim_panda", "fci_sim", "franka_fr3"])
def test_the_home_of_each_bench_lies_within_its_own_limits(name):
    """Else the arm would fault where it stands; an FR3 has the Panda's kinematics."""
    (arm,) = config.load_hardware(name).arms
    pose = geometry.pose_multiply(panda.flange_pose(arm.home), np.array(arm.pose_flange_tcp))
    limits = arm.limits
    assert (pose[:3] > limits.workspace_low).all() and (pose[:3] < limits.workspace_high).all()
    assert (
        np.linalg.norm(geometry.pose_error(pose, np.array([0, 0, 0, *limits.workspace_quat]))[3:])
        < 0.01
    )
    assert (np.array(arm.home) > np.array(limits.joint_low) + limits.joint_margin).all()
    assert (np.array(arm.home) < np.array(limits.joint_high) - limits.joint_margin).all()


def test_forward_kinematics_agree_with_the_published_table_to_1e_6(model):
    data, rng = mujoco.MjData(model), np.random.default_rng(0)
    for _ in range(200):
        data.qpos[:] = q = random_q(rng)
        mujoco.mj_kinematics(model, data)
        pose, flange = panda.flange_pose(q), data.body("flange")
        np.testing.assert_allclose(flange.xpos, pose[:3], atol=1e-6)
        assert abs(abs(flange.xquat[[1, 2, 3, 0]] @ pose[3:]) - 1.0) < 1e-9


def test_the_ready_pose_is_where_franka_says_it_is():
    # Franka's documentation: with the hand's TCP (103.4 mm), the ready posture is at (0.3069, 0,
    # 0.4869) m
    np.testing.assert_allclose(
        panda.flange_pose(panda.READY)[:3], [0.3069, 0.0, 0.4869 + 0.1034], atol=1e-4
    )


def test_the_jacobian_is_the_derivative_of_the_pose(model):
    data, rng = mujoco.MjData(model), np.random.default_rng(1)
    data.qpos[:] = q = random_q(rng)
    mujoco.mj_forward(model, data)
    jacp, jacr = np.zeros((3, 7)), np.zeros((3, 7))
    mujoco.mj_jacBody(model, data, jacp, jacr, model.body("flange").id)
    for j in range(7):
        h = 1e-6 * np.eye(7)[j]
        slope = (panda.flange_pose(q + h)[:3] - panda.flange_pose(q - h)[:3]) / 2e-6
        np.testing.assert_allclose(jacp[:, j], slope, atol=1e-7)


def test_the_model_has_the_datasheets_limits(model):
    np.testing.assert_allclose(model.jnt_range, panda.JOINT_RANGE)
    assert model.jnt_limited.all()
    np.testing.assert_allclose(model.actuator_ctrlrange[:, 1], panda.MAX_TORQUE)
    np.testing.assert_allclose(model.body_mass[1:].sum(), 18.0, atol=2.0)  # datasheet: about 18 kg


def test_gravity_is_compensated_so_that_it_floats(model):
    data = mujoco.MjData(model)
    data.qpos[:] = panda.READY
    mujoco.mj_step(model, data, 500)
    np.testing.assert_allclose(data.qpos, panda.READY, atol=1e-6)


def test_every_joint_range_contains_the_ready_posture():
    for (low, high), q in zip(panda.JOINT_RANGE, panda.READY, strict=True):
        assert low < q < high
    assert math.isclose(panda.DH[0][1], 0.333)


def arm_with(**options):
    return open_driver(replace(config.load_hardware("sim_panda").arms[0], options=options))


def test_a_joint_that_rubs_stands_below_its_friction_and_moves_above_it():
    for torque, moves in ((0.9, False), (1.4, True)):
        arm = arm_with(friction_nm=[1.0] * 7)
        begun = arm.read().q.copy()
        for _ in range(500):
            arm.read()
            arm.write(np.array([torque, 0, 0, 0, 0, 0, 0]) + arm.read().coriolis)
        way = np.abs(arm.read().q - begun)
        assert (way[0] > 0.01) == moves and way[1:].max() < 0.01
        if not moves:
            assert way.max() < 1e-4, "it creeps"


def test_an_unknown_load_pulls_with_its_weight_and_is_felt_as_a_force():
    """Gravity compensation does not know it, nor what the Coriolis torques are made of."""
    arm, stiffness = (
        arm_with(unknown_load_kg=0.8),
        np.array([600.0, 600.0, 600.0, 600.0, 250.0, 150.0, 50.0]),
    )
    home = arm.read().q.copy()
    for _ in range(1500):
        r = arm.read()
        arm.write(stiffness * (home - r.q) - 0.1 * stiffness * r.dq + r.coriolis)
    r = arm.read()
    np.testing.assert_allclose(r.wrench[:3], [0.0, 0.0, -0.8 * 9.81], atol=0.3)
    assert flange_height(r.q) < flange_height(home) - 0.001
    np.testing.assert_allclose(r.coriolis, 0.0, atol=0.01)


def flange_height(q):
    return panda.flange_pose(q)[2]


@pytest.mark.parametrize(("options", "complaint"), [
    ({"friction_nm": [0.1] * 6 + [-0.1]}, r"options: friction_nm = .* allowed: 0 to 10 Nm each"),
    ({"friction_nm": [0.1] * 6}, r"options: friction_nm"),
    ({"unknown_load_kg": 40.0}, r"options: unknown_load_kg = 40; allowed: 0 to 3 kg"),
    ({"ip": "172.16.0.2"}, r"options: ip is not a known key; allowed: friction_nm, unknown_load_kg"),
])  # fmt: skip
def test_options_that_no_arm_has_are_told(options, complaint):
    with pytest.raises(ConfigError, match=complaint):
        arm_with(**options)
