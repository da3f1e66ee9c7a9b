"""Scenes with joints and loose things, found in the folder one works in: docs/scenes.md, as it
stands there.
"""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from robot_rl import config, geometry
from robot_rl.controllers.arms.mujoco import Arm
from robot_rl.controllers.setup import open_driver
from robot_rl.env.robot import RobotEnv
from robot_rl.sim.panda import READY
from robot_rl.sim.shapes import ArmShapes
from robot_rl.sim.stage import find_scene, size_of
from robot_rl.types import ConfigError, Use

DOCS = Path(__file__).parents[2] / "docs"
HARDWARE = config.load_hardware("sim_panda")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the page's two files, in which one works."""
    scene = (DOCS / "examples" / "scenes" / "push_cube.py").read_text()
    (task,) = re.findall(
        r"```python\n([^`]*?TASK = .*?)```", (DOCS / "scenes.md").read_text(), re.DOTALL
    )
    for name, text in (("scenes", scene), ("tasks", task)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "push_cube.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def in_scene() -> Arm:
    return open_driver(HARDWARE.arms[0], config.load_task("push_cube").scene)


def run(arm: Arm, ticks: int) -> None:
    for _ in range(ticks):
        arm.write(arm.read().coriolis)


def test_a_reset_puts_loose_things_and_hinges_back_and_the_seed_places_them(folder):
    arm = in_scene()
    assert size_of(config.load_task("push_cube").scene) == (2, 7 + 1)
    arm.reset(3)
    placed = arm.world()
    assert (
        placed.objects.shape == (2, 7) and np.abs(placed.objects[0, :2] - [0.5, 0.0]).max() > 1e-4
    )
    arm._data.joint("door").qvel[:] = 2.0
    arm._data.joint("cube").qvel[:] = [0.0, 0.0, 0.5, 3.0, 0.0, 0.0]  # thrown up, spinning
    run(arm, 600)
    arm.read()
    moved = arm.world()
    assert (
        moved.scene_q[7] > 0.1
        and np.linalg.norm(moved.objects[0, :3] - placed.objects[0, :3]) > 0.005
    )
    # nobody has touched the arm
    np.testing.assert_allclose(moved.q, HARDWARE.arms[0].home, atol=1e-4)
    arm.reset(3)
    again = arm.world()
    np.testing.assert_array_equal(again.objects, placed.objects)
    np.testing.assert_array_equal(again.scene_q, placed.scene_q)
    assert not arm._data.qvel.any()


def test_loose_things_rest_on_the_table_and_the_arm_measures_as_it_does_alone(folder):
    arm, alone = in_scene(), open_driver(HARDWARE.arms[0])
    rng = np.random.default_rng(0)
    for _ in range(200):
        one, other = arm.read(), alone.read()
        for name in ("q", "dq", "pose", "jacobian", "mass", "coriolis", "wrench"):
            np.testing.assert_allclose(
                getattr(one, name), getattr(other, name), atol=1e-9, err_msg=name
            )
        tau = rng.uniform(-3.0, 3.0, 7)
        arm.write(tau)
        alone.write(tau)
    assert abs(arm.world().objects[0, 2] - 0.02) < 5e-4


def test_what_the_arm_pushes_moves_through_an_arm_process_in_lockstep(folder, start_arm):
    """The cube is pushed through the door, onto the mark: by actions, seen in the world channel and
    by a camera.
    """
    task = config.load_task("push_cube")
    arm = replace(HARDWARE.arms[0], address=start_arm("lockstep", "push_cube").address)
    env = RobotEnv(task, replace(HARDWARE, arms=(arm,)), obs="state", render_mode="rgb_array")
    scale = np.array([task.action_translation] * 3 + [task.action_rotation] * 3)
    assert env.world is not None
    env.reset(seed=1)
    before = env.render().astype(int)
    door = env.world.latest.scene_q[7]
    over = False
    for _ in range(task.max_steps):
        _, y, z = env.arm_states[0].target_base_tcp[:3]
        goal = np.array([0.5, y if z > 0.022 else 0.12, 0.02, 1.0, 0.0, 0.0, 0.0])
        move = geometry.pose_delta(env.arm_states[0].target_base_tcp, goal) / scale
        _, reward, over, truncated, _ = env.step(np.clip(move, -1.0, 1.0))
        if over or truncated:
            break
    world, after = env.world.latest, env.render()
    env.close()
    assert over and reward == 1.0 and world.success
    assert (
        np.linalg.norm(world.objects[0, :2] - [0.5, 0.1]) < 0.015 and world.scene_q[7] > door + 0.2
    )
    assert (np.abs(after - before) > 60).any(axis=2).sum() > 20


def test_what_moves_is_drawn_where_it_is_and_nowhere_while_nobody_knows(folder):
    drawn, still, q = (
        ArmShapes(config.load_task("push_cube").scene),
        ArmShapes(Use("empty")),
        np.array(READY),
    )
    unknown = np.isnan(drawn.poses(q)).all(axis=1)
    assert [
        shape for shape, is_unknown in zip(drawn.shapes, unknown, strict=True) if not is_unknown
    ] == still.shapes
    there = drawn.poses(q, in_scene().world())[unknown]
    assert np.isfinite(there).all() and len(there) == 2, "the cube and the door"


@pytest.mark.parametrize(("slip", "complaint"), [
    (("def success", "def succeeds"), "scenes/push_cube.py: its class Scene lacks success"),
    (('name="door", axis=[0.0, 0.0, 1.0]', 'name="cube"'), r"push_cube.py:\d+: ValueError: .*repeated name 'cube'"),
    (("data.joint(\"cube\").qpos", "data.joint(\"cup\").qpos"), r"push_cube.py:26: KeyError: .*cup"),
    (("cube = world.add", "spec.body(\"link3\").add_joint(axis=[0, 0, 1])\n        cube = world.add"),
     "the scene has joints of its own between the arm's"),
])  # fmt: skip
def test_what_is_wrong_in_a_scene_file_is_said_with_file_and_line(folder, slip, complaint):
    path = folder / "scenes" / "push_cube.py"
    assert slip[0] in path.read_text()
    path.write_text(path.read_text().replace(*slip))
    with pytest.raises(ConfigError, match=complaint):
        in_scene()


def test_a_scene_that_no_task_names_is_never_run(folder):
    (folder / "scenes" / "other.py").write_text("raise SystemExit('it was run')")
    assert find_scene(config.load_task("push_cube").scene) is not None
    assert "other" in config.names_of("sim/scenes")
