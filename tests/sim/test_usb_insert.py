"""The plug: as large and as stiff as the specification has it, and in only where it is in."""

import math
from dataclasses import replace

import mujoco
import numpy as np
import pytest

from robot_rl.config import load_task
from robot_rl.geometry import pose_move, pose_multiply
from robot_rl.sim.grasping import hold_on
from robot_rl.sim.scenes import usb_insert
from robot_rl.sim.stage import find_scene
from robot_rl.teleop._waypoints import TURN_LEFT_RAD
from robot_rl.types import ConfigError, OperatorCommand, Use, WorldState
from tests.sim.misled import successes
from tests.sim.picking import Still
from tests.sim.player import HAND, Player

SEEDS = range(1000, 1005)  # on which nobody has tuned anything
OPENING = np.array([0.37, 0.0, usb_insert.AXIS_Z])


@pytest.fixture
def player() -> Player:
    """Whose hand is as unsteady in a test whatever was played before."""
    return Player("usb_insert", seed=3)


@pytest.fixture(scope="module")
def still() -> Still:
    return Still("usb_insert")


def with_tip_at(depth: float, *turn: float, y: float = 0.0, z: float = 0.0) -> np.ndarray:
    """A plug whose tip is `depth` [m] inside the plane of the opening, turned about the tip."""
    yaw, pitch = (*turn, 0.0, 0.0)[:2]
    quat = np.array([0.0, math.sin(pitch / 2), math.sin(yaw / 2), 1.0])
    tip = np.array([*(OPENING + [-depth, y, z]), *(quat / np.linalg.norm(quat))])
    return pose_multiply(tip, np.array([-usb_insert.TIP_X, 0, 0, 0, 0, 0, 1.0]))


def test_the_operator_picks_it_up_and_plugs_it_in(player):
    done = []
    for seed in SEEDS:
        done.append(player.play(seed) == OperatorCommand.SUCCESS)
        if done[-1]:
            goal, at = player.latest.goal_base_tcp, player.arm.state().pose_base_tcp
            assert np.linalg.norm(goal[:3] - at[:3]) < 0.003, (
                "the goal, with the plug as it is held"
            )
    assert sum(done) >= len(SEEDS) - 1


@pytest.mark.parametrize(("y", "z"), [(1.0, -1.0), (-1.0, 1.0)])
def test_an_edge_finds_what_the_eye_does_not(y, z):
    """0.6 mm aside and in height, and 0.6 degrees, with 0.25 and 0.31 mm of air."""
    off = np.array([0.0, 6e-4 * y, 6e-4 * z, 0.0, 0.0, math.radians(0.6)])

    def seen(world: WorldState) -> WorldState:
        plug, receptacle = world.objects
        return replace(world, objects=np.array([plug, pose_move(receptacle, off)]))

    task = load_task("usb_insert")
    assert successes(task, seen, SEEDS, task.max_steps) >= len(SEEDS) - 1


def test_the_goal_is_the_plug_until_it_is_held(player):
    """Or a policy that sees the goal alone would not know where the plug lies."""
    player.begin(12)
    for seed in SEEDS[:3]:
        world = player.arm.reset(seed)
        plug, tool = world.objects[0], world.goal_base_tcp
        assert np.linalg.norm(tool[:2] - plug[:2]) < 1e-6
        assert 0.0 < tool[2] - plug[2] < 0.01


def test_a_plug_that_falls_on_the_way_is_fetched_again(player):
    state = player.begin(11)
    while player.latest.objects[0, 2] < 0.018:
        assert player.go_on(state, 10) == OperatorCommand.NONE
        state = player.arm.state()
    for _ in range(7):
        state = player.act(state, np.zeros(6), 1.0)
    assert player.latest.objects[0, 2] < 0.006
    assert player.go_on(state, player.task.max_steps) == OperatorCommand.SUCCESS


def taken_at(player: Player, monkeypatch, x: float, z: float) -> OperatorCommand:
    """An episode of an operator who takes hold of the plug so far [m] behind its middle and above where
    they would, and calls all of it held.
    """
    around = usb_insert._around_plug
    aside = np.array([x, 0.0, -z, 0.0, 0.0, 0.0, 1.0])
    with monkeypatch.context() as patch:
        patch.setattr(usb_insert, "_around_plug", lambda data: pose_multiply(around(data), aside))
        patch.setattr(usb_insert, "HOLDS", ((-0.02, 0.02),) * 3)
        return player.go_on(player.begin(21), player.task.max_steps)


@pytest.mark.parametrize("turned", [-1.82, 1.82])
def test_a_plug_that_lies_turned_further_than_the_hand_may_be_is_taken_too(player, turned):
    """By 4 degrees: the fingers put it in line. The hand that went on turning never closed."""
    state, plug = player.begin(1000), player.driver._data.joint("plug").qpos
    assert HAND.limits.workspace_turn < abs(turned) < HAND.limits.workspace_turn + TURN_LEFT_RAD
    plug[3:] = [math.cos(turned / 2), 0.0, 0.0, math.sin(turned / 2)]
    player.refresh()
    assert player.go_on(state, player.task.max_steps) == OperatorCommand.SUCCESS


@pytest.mark.parametrize(("x", "z"), [(0.014, 0.0), (-0.005, 0.0), (0.0, 0.006), (0.010, 0.003)])
def test_wherever_it_is_held_it_goes_in(player, monkeypatch, x, z):
    """What a policy takes hold of otherwise than the operator is not dropped by them."""
    assert taken_at(player, monkeypatch, x, z) == OperatorCommand.SUCCESS
    held = hold_on(player.driver._data, "plug")[:3]
    for place, (low, high) in zip(held, usb_insert.HOLDS, strict=True):
        assert low - 0.001 < place < high + 0.001


def test_a_plug_that_is_held_too_far_in_front_is_taken_again(player, monkeypatch):
    """The fingers meet the housing before it is in: carrying on is no help."""
    assert taken_at(player, monkeypatch, -0.008, 0.0) == OperatorCommand.NONE
    state = player.arm.state()
    assert player.go_on(state, player.task.max_steps) == OperatorCommand.SUCCESS


def test_in_is_ten_millimetres_between_the_walls(still):
    assert still.success_with("plug", with_tip_at(0.0105))
    assert not still.success_with("plug", with_tip_at(0.0095))
    assert still.success_with("plug", with_tip_at(0.0105, y=0.0003, z=-0.0003)), (
        "as far as it plays"
    )
    for aside in ({"y": 0.002}, {"z": 0.002}, {"z": 0.012}, {"y": -0.03}, {"z": -0.016}):
        assert not still.success_with("plug", with_tip_at(0.0105, **aside)), aside
    assert not still.success_with("plug", with_tip_at(0.0105, 0.3)), "askew, through a wall"
    assert not still.success_with("plug", with_tip_at(0.0105, 0.0, 0.3))
    assert not still.success_with("plug", with_tip_at(0.0105, math.pi)), "the wrong end first"
    assert not still.success_with("plug", with_tip_at(0.05)), "through the back"


def test_a_plug_pushed_over_the_table_stays_outside(still):
    """Without a grasp it cannot get in: the opening is 20 mm above the table."""
    model, data = still.model, still.data
    pose = with_tip_at(-0.002, z=usb_insert.GRIP[2] / 2 - usb_insert.AXIS_Z)
    still.success_with("plug", pose)
    plug = model.body("plug").id
    data.xfrc_applied[plug, :3] = -5.0, 0.0, 0.0
    data.qvel[:] = 0.0
    for _ in range(200):
        mujoco.mj_step(model, data)
        assert not still.scene.success(data)
    data.xfrc_applied[plug] = 0.0
    assert still.scene.depth(data) == 0.0 and data.body("plug").xpos[2] < 0.012


def pushed(still: Still, start: float, end: float) -> tuple[float, float]:
    """The largest force [N] with which a stiff spring moves the plug straight from one depth [m] to
    another at 20 mm/s, and how deep it is then.
    """
    model, data, plug = still.model, still.data, still.data.body("plug")
    still.success_with("plug", with_tip_at(start))
    joint, away, worst = data.joint("plug"), plug.xpos[0] + start, 0.0
    for depth in np.linspace(start, end, round(abs(end - start) / 0.02 / model.opt.timestep)):
        force = 5000.0 * (away - depth - joint.qpos[0]) - 20.0 * joint.qvel[0]
        plug.xfrc_applied[:3] = force, 0.0, 9.81 * model.body("plug").mass[0]
        worst = max(worst, abs(force))
        mujoco.mj_step(model, data)
        joint.qpos[3:], joint.qvel[3:] = [1.0, 0.0, 0.0, 0.0], 0.0
    plug.xfrc_applied[:] = 0.0
    mujoco.mj_forward(model, data)
    return worst, still.scene.depth(data)


def test_it_goes_in_with_a_force_of_the_specification(still):
    force, depth = pushed(still, 0.001, 0.0115)
    assert depth > 0.009 and 10.0 < force < 35.0


def test_the_air_around_the_shell_is_that_of_the_specification(still):
    """0.31 mm above and below and 0.25 mm on each side, which the walls of the model leave."""
    wall = {i: still.model.geom(f"receptacle-{i}") for i in range(4)}
    room = [
        abs(wall[i].pos[axis]) - wall[i].size[axis] for i, axis in ((0, 2), (1, 2), (2, 1), (3, 1))
    ]
    shell = still.model.geom("shell").size
    air = np.array(room) - shell[[2, 2, 1, 1]]
    np.testing.assert_allclose(air, [0.00031, 0.00031, 0.00025, 0.00025], atol=1e-9)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (
            {"success_depth_m": 0.012},
            r"success_depth_m = 0.012: wanted more than 0, at most 0.01175",
        ),
        ({"range_rad": 90}, r"range_rad = 90: .*90 degrees are 1.571 rad"),
        ({"plug_rgb": (2.0, 0.0, 0.0)}, "red, green and blue"),
    ],
)
def test_a_plug_that_cannot_be_is_refused(options, complaint):
    with pytest.raises(ConfigError, match=complaint):
        find_scene(Use("usb_insert", options))
