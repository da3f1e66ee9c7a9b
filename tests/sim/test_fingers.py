"""Fingers that move: they hold by friction alone, and by nothing else."""

from dataclasses import replace

import numpy as np
import pytest

from robot_rl import config, geometry
from robot_rl.config.compliance import default_within
from robot_rl.controllers.lockstep import LockstepArm
from robot_rl.controllers.setup import DEFAULT_LEASH, ArmSetup, open_driver
from robot_rl.sim.hand import MAX_WIDTH, HandOutcome
from robot_rl.sim.shapes import ArmShapes
from robot_rl.sim.stage import size_of
from robot_rl.types import ArmTarget, Use

(CONFIG,) = config.load_hardware("sim_panda").arms
PEG = {"width_m": 0.02, "height_m": 0.06, "mass_kg": 0.065, "below_m": 0.012}
FORCE_N = 40.0
STILL = np.zeros(6)


class Bench:
    """An arm under its own law in lockstep, whose fingers have just closed upon a block."""

    def __init__(self, **block):
        self.scene = Use("tests.sim.pinched:Scene", block)
        self.driver = open_driver(CONFIG, self.scene)
        tool, law = np.array(CONFIG.pose_flange_tcp), default_within(CONFIG.limits)
        setup = ArmSetup(tool, law, CONFIG.limits, *DEFAULT_LEASH)
        self.arm = LockstepArm(self.driver, setup, CONFIG.guards)
        self.arm.reset(0)
        self.start, self.fingers = self.arm.state().pose_base_tcp, self.driver.fingers
        self.grasp(block.get("width_m", 0.04))

    def grasp(self, width, force=FORCE_N):
        self.fingers.grasp(width, 0.005, 0.005, 0.1, force)
        self.go(5)

    def go(self, periods, move=STILL):
        for _ in range(periods):
            state = self.arm.command(ArmTarget(geometry.pose_move(self.start, move), 0.1))
            assert not state.fault, state.reason
        return state

    def pull(self, force):
        """For a second, at the block's middle [N]; how far it has slipped [m]."""
        before = self.seen_from_hand()
        self.driver._data.body("block").xfrc_applied[:3] = force
        self.go(10)
        self.driver._data.body("block").xfrc_applied[:] = 0.0
        return np.linalg.norm(self.seen_from_hand() - before)

    def seen_from_hand(self):
        block, hand = (self.driver._data.body(name) for name in ("block", "hand"))
        return hand.xmat.reshape(3, 3).T @ (block.xpos - hand.xpos)


@pytest.mark.parametrize("mass_kg", [0.05, 0.2])
def test_a_cube_is_held_while_the_arm_shakes_at_its_limits_and_dropped_when_they_open(mass_kg):
    bench, rng = Bench(mass_kg=mass_kg), np.random.default_rng(0)
    before, speeds = bench.seen_from_hand(), []
    for _ in range(20):
        shake = [*rng.choice([-0.03, 0.03], 3), *rng.choice([-0.1, 0.1], 3)]
        twist = bench.go(1, np.array(shake)).twist_base_tcp
        speeds.append(np.linalg.norm(twist[:3]))
    assert max(speeds) > 0.1 and bench.fingers.grasped
    assert np.linalg.norm(bench.seen_from_hand() - before) < 0.001
    bench.fingers.move(MAX_WIDTH, 0.1)
    bench.go(8)
    assert bench.fingers.outcome == HandOutcome.SUCCESS and not bench.fingers.grasped
    assert bench.driver._data.body("block").xpos[2] < 0.021, "it lies on the table"


def test_a_peg_slips_by_less_than_a_tenth_of_a_millimetre_under_20_newtons():
    bench = Bench(**PEG)
    for force in ([20.0, 0.0, 0.0], [0.0, 20.0, 0.0], [0.0, 0.0, -20.0]):
        assert bench.pull(force) < 1e-4, force


def test_nothing_but_friction_holds_it():
    bench = Bench(**PEG)
    assert bench.pull([0.0, 0.0, -1.5 * 2 * FORCE_N]) > 0.05
    bench.go(5)
    assert not bench.fingers.grasped and bench.fingers.width < 0.001


def test_the_arm_is_not_told_of_what_it_holds():
    bench = Bench(mass_kg=0.2)
    state = bench.go(5)
    sag = bench.start[2] - state.pose_base_tcp[2]
    assert state.wrench_base_tcp[2] == pytest.approx(-0.2 * 9.81, rel=0.1) and sag > 5e-4


def test_a_grasp_of_nothing_and_a_way_that_is_blocked_are_told():
    bench = Bench(held=False)
    bench.go(5)  # 80 mm at 0.1 m/s take longer than half a second
    assert bench.fingers.outcome == HandOutcome.UNSUCCESSFUL and bench.fingers.width < 1e-3
    held = Bench(mass_kg=0.05)
    held.fingers.move(0.0, 0.1)
    held.go(5)
    assert held.fingers.outcome == HandOutcome.UNSUCCESSFUL
    assert held.fingers.width == pytest.approx(0.04, abs=1e-3)


def test_fingers_are_none_of_the_scenes_joints_and_are_drawn_where_they_are():
    bench = Bench(width_m=0.03)
    world = bench.arm.world()
    assert size_of(bench.scene) == (len(world.objects), len(world.scene_q)) == (1, 7)
    assert world.width_m == pytest.approx(0.03, abs=1e-3)
    drawn, wider = ArmShapes(bench.scene), replace(world, width_m=world.width_m + 0.02)
    opened = drawn.poses(world.q, wider) - drawn.poses(world.q, world)
    moved = np.linalg.norm(opened[:, :3], axis=1)
    np.testing.assert_allclose(moved[moved > 1e-9], 0.01, atol=1e-9)
    assert (moved > 1e-9).sum() == 8, "two fingers, each of a body, a plate and two rods"
