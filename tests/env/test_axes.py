"""Laws of the axes that a task frees: an action has numbers for these alone, and the others are held."""

from dataclasses import replace

import numpy as np
import pytest

from robot_rl import config, geometry
from robot_rl.env.robot import RobotEnv
from robot_rl.types import AXES, ArmState, ArmTarget, Array

TASK = replace(config.load_task("peg_insert"), max_steps=10_000, wander=None)
HARDWARE = config.load_hardware("sim_panda")


@pytest.fixture
def make_env(lockstep_arm):
    opened: list[RobotEnv] = []

    def make(axes: tuple[str, ...]) -> RobotEnv:
        bench = replace(HARDWARE, arms=(replace(HARDWARE.arms[0], address=lockstep_arm),))
        opened.append(RobotEnv(replace(TASK, axes=axes), bench, obs="state"))
        return opened[-1]

    yield make
    for env in opened:
        env.close()


def commanded(env: RobotEnv, monkeypatch: pytest.MonkeyPatch) -> list[Array]:
    """Every target that the environment will command: the list grows."""
    told: list[Array] = []
    send = env.arms[0].command

    def command(target: ArmTarget) -> ArmState:
        told.append(target.pose_base_tcp)
        return send(target)

    monkeypatch.setattr(env.arms[0], "command", command)
    return told


def test_axes_that_are_held_do_not_drift_in_a_thousand_steps_of_contact(make_env, monkeypatch):
    """Pressed on the table and the socket, where the leash cuts the target back along all axes."""
    env, rng = make_env(("x", "y", "z", "rz")), np.random.default_rng(0)
    env.reset(seed=3)
    start, targets = env.arm_states[0].target_base_tcp, commanded(env, monkeypatch)
    forces, bent = [], []
    for _ in range(1000):
        action = rng.uniform(-1.0, 1.0, 4) + [0.0, 0.0, 0.3, 0.0]
        _, _, _, _, info = env.step(action.astype(np.float32))
        assert info["executed"].shape == (4,) and not any(info["faults"])
        forces.append(np.linalg.norm(env.arm_states[0].wrench_base_tcp[:3]))
        bent.append(geometry.pose_delta(start, env.arm_states[0].target_base_tcp)[3:5])
    moved = np.array([geometry.pose_delta(start, target) for target in targets])
    assert max(forces) > 10.0 and np.abs(bent).max() > 1e-4, "the limits did cut in"
    assert np.abs(moved[:, 3:5]).max() < 1e-9
    assert moved[:, [0, 1, 2, 5]].std(axis=0).min() > 1e-3


def test_in_free_space_what_is_executed_is_commanded_whatever_is_freed(make_env):
    """Also where what is held is no fixed direction: a turn about x and z makes one about y."""
    rng = np.random.default_rng(1)
    for axes in (("z",), ("rz", "x"), ("y", "rx", "rz"), AXES[3:]):
        env = make_env(axes)
        env.reset(seed=3)
        for _ in range(8):
            action = rng.uniform(-0.4, 0.4, len(axes)).astype(np.float32)
            before = env.arm_states[0].target_base_tcp
            _, _, _, _, info = env.step(action)
            np.testing.assert_allclose(info["executed"], action, atol=1e-5)
            delta = geometry.pose_delta(before, env.arm_states[0].target_base_tcp)
            assert np.abs(delta[[axis not in axes for axis in AXES]]).max(initial=0.0) < 1e-9
