"""The governor in the loop: every command gets a verdict, and none leaves the limits."""

from dataclasses import replace

import numpy as np
import pytest

from robot_rl.controllers.arms.mujoco import Arm, Options
from robot_rl.controllers.law import SPARE_S, SPRINT
from robot_rl.controllers.loop import ArmLoop
from robot_rl.controllers.recorder import Ring
from robot_rl.controllers.setup import open_driver
from robot_rl.types import (
    ArmTarget,
    Box,
    Command,
    Compliance,
    DeviceError,
    Fault,
    JointTarget,
    LimitFlags,
)
from tests.controllers.bench import GIVEN, HARDWARE, LIMITS, SETUP, TASK, make_loop, moved, run
from tests.controllers.truth import TrueArm


@pytest.fixture
def loop():
    return make_loop()


def test_the_verdict_says_what_limited_a_command(loop):
    loop.command(moved(loop, 0.001, 0.0, 0.0), loop.t + 0.3)
    assert loop.state().verdict == LimitFlags.PASSED
    loop.command(moved(loop, 0.1, 0.0, 0.0), loop.t + 0.3)
    state = loop.state()
    ahead = np.linalg.norm(state.target_base_tcp[:3] - state.pose_base_tcp[:3])
    assert state.verdict == LimitFlags.LEASH and ahead == pytest.approx(TASK.leash_translation)
    slow = make_loop(max_reference_speed=0.1)
    slow.command(moved(slow, 0.012, 0.0, 0.0), slow.t + 0.3)
    run(slow, 5)
    assert slow.state().verdict & LimitFlags.SPEED
    z = loop.observe().pose_base_tcp[2]
    low = make_loop(workspace_low=(0.35, -0.2, z - 0.005))
    low.command(moved(low, 0.0, 0.0, -0.008), low.t + 0.3)
    assert (
        low.state().verdict == LimitFlags.WORKSPACE and low.state().verdict.reasons == "workspace"
    )


def test_a_target_is_no_further_ahead_than_the_reference_goes_until_the_next_one():
    loop = make_loop(max_reference_speed=0.05)
    run(loop, 1000)
    reach = loop.law.reach(0.1)[0]
    for delta in ((0.008, 0.008, 0.0), (-0.008, -0.008, 0.0), (0.0, 0.0, 0.004)):
        reference = loop.control.reference.copy()
        asked = ArmTarget(moved(loop, *delta), 0.1, seen_t=loop.t)
        is_far = np.linalg.norm(asked.pose_base_tcp[:3] - reference[:3]) > reach
        loop.obey(asked, loop.t + 0.3)
        target = loop.state().target_base_tcp
        assert np.linalg.norm(target[:3] - reference[:3]) <= reach + 1e-12
        assert bool(loop.state().verdict & LimitFlags.SPEED) == is_far
        run(loop, 100)
        # it has gone there; the filter keeps back a part, and nothing is left to make up for
        assert np.linalg.norm(target[:3] - loop.control.reference[:3]) < 0.3 * reach


@pytest.mark.parametrize("period_ticks", [1, 7, 100, 250])
def test_the_reference_is_no_faster_than_its_limit_but_for_a_moment(period_ticks):
    # whatever comes how often: the period that a command states is not believed
    loop, speed = make_loop(max_reference_speed=0.05), 0.05
    run(loop, 300)
    rng, path = np.random.default_rng(period_ticks), [loop.control.reference[:3].copy()]
    for tick in range(1500):
        if tick % period_ticks == 0:
            way = rng.uniform(-0.02, 0.02, 3) if rng.random() < 0.7 else np.zeros(3)
            target = ArmTarget(moved(loop, *way), 0.1, seen_t=loop.t)
            loop.obey(target, loop.t + 0.5)
        run(loop, 1)
        path.append(loop.control.reference[:3].copy())
    gone = np.r_[0.0, np.cumsum(np.linalg.norm(np.diff(path, axis=0), axis=1))]
    assert np.diff(gone).max() <= SPRINT * speed * 0.001 + 1e-12
    for window in (10, 50, 100, 400, 1000):
        fastest = (gone[window:] - gone[:-window]).max()
        assert fastest <= speed * (0.001 * window + SPARE_S) + 1e-9
    assert gone[-1] > 0.3 * speed * 1.5


def test_a_target_in_a_keep_out_box_stops_at_its_face():
    p = make_loop().observe().pose_base_tcp[:3]
    box = Box(tuple(p + [0.004, -0.05, -0.05]), tuple(p + [0.1, 0.05, 0.05]))
    loop = make_loop(keep_out=(box,))
    for _ in range(8):
        loop.command(moved(loop, 0.005, 0.0, 0.0), loop.t + 0.3)
        assert loop.state().target_base_tcp[0] <= box.low[0] + 1e-12
        run(loop, 100)
    assert loop.state().verdict & LimitFlags.KEEP_OUT and loop.fault == Fault.NONE


def test_old_and_overtaken_and_future_targets_are_refused(loop):
    run(loop, 2000)
    target = moved(loop, 0.002, 0.0, 0.0)
    for seen_t, verdict in (
        (loop.t - LIMITS.max_lease_s - 0.01, LimitFlags.REFUSED_OLD),
        (loop.t + 1.0, LimitFlags.REFUSED_OUT_OF_ORDER),
        (loop.t - 0.1, LimitFlags.PASSED),
        (loop.t - 0.2, LimitFlags.REFUSED_OUT_OF_ORDER),
    ):
        before = loop.state().target_base_tcp
        loop.command(target, loop.t + 0.3, seen_t)
        assert loop.state().verdict == verdict
        if verdict.refused:
            np.testing.assert_array_equal(loop.state().target_base_tcp, before)
    loop.command(target, loop.t + 0.3, np.nan)
    assert loop.fault == Fault.TARGET_NOT_FINITE and loop.state().reason


@pytest.mark.parametrize("kind", ["pose", "joints"])
def test_a_command_that_was_long_on_its_way_moves_the_arm_no_longer_than_one_that_came_at_once(
    kind,
):
    holds_at = {}
    for late_s in (0.0, 0.1, 0.25):
        loop = make_loop()
        run(loop, 500)
        seen_t = loop.t
        run(loop, round(1000 * late_s))
        period_s = 0.05
        targets: dict[str, Command] = {
            "pose": ArmTarget(moved(loop, 0.05, 0.0, 0.0), period_s, seen_t=seen_t),
            "joints": JointTarget(loop.state().q + 0.01, period_s, seen_t=seen_t),
        }
        target = targets[kind]
        loop.obey(target, loop.t + target.lease_s)
        if late_s == 0.25:
            assert loop.state().verdict == LimitFlags.REFUSED_OLD and loop.holding
            continue
        ticks = 0
        while not loop.holding:
            run(loop, 1)
            ticks += 1
        holds_at[late_s] = late_s + 0.001 * ticks
        assert holds_at[late_s] <= target.lease_s + period_s + 0.002
    assert holds_at[0.0] == pytest.approx(target.lease_s, abs=0.003)


def test_a_hard_blow_makes_the_arm_back_away_and_stay_latched():
    z = {}
    for blow in (100.0, 200.0):
        arm = TrueArm(Options(), GIVEN)
        loop = ArmLoop(arm, SETUP)
        arm.felt[2] = blow
        run(loop, 1)
        arm.felt[2] = 0.0
        begun = loop.state().pose_base_tcp[2]
        run(loop, 500)
        assert loop.fault == Fault.FORCE and f"{blow:.0f}" in loop.reason
        z[blow] = loop.observe().pose_base_tcp[2] - begun
    assert abs(z[100.0]) < 0.002 and 0.015 < z[200.0] < 0.025


def test_a_tare_is_what_the_tool_feels_and_is_refused_in_contact():
    arm = TrueArm(Options(), GIVEN)
    loop = ArmLoop(arm, SETUP)
    arm.felt[:] = (3.0, -2.0, 8.0, 0.1, 0.0, 0.2)
    run(loop, 500)
    np.testing.assert_allclose(loop.observe().wrench_base_tcp, arm.felt, atol=0.01)
    loop.tare()
    run(loop, 5)
    np.testing.assert_allclose(loop.observe().wrench_base_tcp, 0.0, atol=0.01)
    arm.felt *= 4.0
    run(loop, 500)
    with pytest.raises(DeviceError, match="cannot be tared: the tool feels 3"):
        loop.tare()


def test_a_joint_move_arrives_within_its_speeds_and_only_while_it_is_repeated(loop):
    start = loop.observe().q
    goal = start + np.array([0.2, -0.1, 0.1, 0.15, 0.1, -0.1, 0.3])
    speeds, tool = [], []

    def watch():
        speeds.append(np.abs(loop.state().dq).max())
        tool.append(np.linalg.norm(loop.state().twist_base_tcp[:3]))

    for _ in range(30):
        loop.move_joints(goal, 0.5, loop.t + 0.3)
        run(loop, 100, watch)
    assert loop.fault == Fault.NONE
    np.testing.assert_allclose(loop.observe().q, goal, atol=0.01)
    assert max(speeds) < 0.6 and max(tool) < 1.2 * LIMITS.max_reference_speed
    loop.move_joints(start, 0.5, loop.t + 0.3)
    run(loop, 600)
    assert loop.holding and np.abs(loop.observe().q - start).max() > 0.05


def test_the_compliance_changes_while_the_arm_goes_on_without_a_jump(loop):
    soft = replace(TASK.compliance, stiffness=(500.0,) * 3 + (50.0,) * 3, gain_time_s=0.1)
    loop.command(moved(loop, 0.008, 0.0, 0.0), loop.t + 1.0)
    run(loop, 100)
    before = loop.control.tau.copy()
    loop.tune(soft)
    run(loop, 1)
    assert not loop.holding and np.abs(loop.control.tau - before).max() < 0.3
    run(loop, 800)
    np.testing.assert_allclose(loop.law.gains[0], soft.stiffness, rtol=1e-3)


def test_the_integral_brings_a_pressed_arm_to_its_target(loop):
    errors = {}
    for integral in (0.0, 4000.0):
        fresh = make_loop()
        fresh.tune(replace(TASK.compliance, integral=(integral,) * 3 + (0.0,) * 3))
        target = moved(fresh, 0.004, 0.004, 0.0)
        fresh.command(target, fresh.t + 3.0)
        run(fresh, 2500)
        errors[integral] = np.linalg.norm(fresh.observe().pose_base_tcp[:3] - target[:3])
    assert errors[4000.0] < 1e-5 and errors[4000.0] <= errors[0.0]


def test_a_robot_that_stops_by_itself_is_a_named_fault_and_recovers_when_acknowledged():
    arm = TrueArm(Options(), GIVEN)
    loop = ArmLoop(arm, SETUP)
    for fault in (Fault.REFLEX, Fault.USER_STOP):
        arm.stop_by_itself(fault, recoverable=False)
        run(loop, 3)
        loop.acknowledge()
        assert (
            loop.state().fault == fault
            and loop.state().reason == f"stopped by itself: {fault.name}"
        )
    arm.stopped = DeviceError("unplugged")  # no kind of its own
    run(loop, 3)
    assert loop.state().fault == Fault.DRIVER and loop.holding
    arm.recoverable = True
    loop.acknowledge()
    run(loop, 3)
    assert loop.state().fault == Fault.NONE and loop.holding


class FollowingArm(Arm):
    """A simulated arm in pose mode: its own controller follows poses, as a UR's or an xArm's does."""

    mode = "pose"

    def __init__(self):
        super().__init__(Options(), GIVEN)
        self._controller = ArmLoop(open_driver(HARDWARE, TASK.scene), SETUP)
        self._controller._arm, self._controller._read = self, super().read
        self._controller._write = super().write
        self.poses = []

    def read(self):
        reading = super().read()
        reading.twist = reading.jacobian @ reading.dq
        return reading

    def follow(self, pose_base_tcp):
        self.poses.append(pose_base_tcp.copy())
        self._controller.command(pose_base_tcp, self._controller.t + 1.0)
        self._controller.tick(self._controller.t + 0.001)


def test_an_arm_that_follows_poses_has_the_same_lease_and_limits():
    arm = FollowingArm()
    loop = ArmLoop(arm, SETUP)
    target = moved(loop, 0.006, 0.0, 0.0)
    loop.command(target, loop.t + 1.0)
    run(loop, 900)
    assert np.linalg.norm(loop.observe().pose_base_tcp[:3] - target[:3]) < 1e-3
    steps = np.linalg.norm(np.diff(np.array(arm.poses)[:, :3], axis=0), axis=1)
    assert steps.max() <= LIMITS.max_reference_speed * 0.001 + 1e-12
    run(loop, 200)
    assert loop.holding
    loop.command(np.full(7, np.nan), loop.t + 1.0)
    run(loop, 600)
    assert loop.fault == Fault.TARGET_NOT_FINITE
    held = arm.poses[-1]
    run(loop, 100)
    np.testing.assert_allclose(arm.poses[-1], held, atol=1e-5)
    steps = np.linalg.norm(np.diff(np.array(arm.poses)[:, :3], axis=0), axis=1)
    assert steps.max() <= LIMITS.max_reference_speed * 0.001 + 1e-12  # at holds and faults either
    with pytest.raises(DeviceError, match="follows poses"):
        loop.acknowledge()
        loop.move_joints(np.zeros(7), 0.5, loop.t + 0.1)


@pytest.mark.parametrize(
    "compliance",
    [TASK.compliance, replace(Compliance(), error_clip_minus=(0.005,) * 3 + (0.03,) * 3)],
)
def test_pressing_at_the_bound_with_random_targets_stays_below_stiffness_times_clip(compliance):
    """Averaged over 100 ms, on each axis, from contact on: an action at its bound each step, in
    random directions.
    """
    ring = Ring(7)
    loop = ArmLoop(open_driver(HARDWARE, TASK.scene), replace(SETUP, compliance=compliance), ring)
    rng = np.random.default_rng(3)
    for _ in range(120):
        corner = rng.choice([-1.0, 1.0], 3) * TASK.action_translation
        corner[2] = -TASK.action_translation if rng.random() < 0.75 else TASK.action_translation
        loop.command(moved(loop, *corner), loop.t + 0.3)
        run(loop, 100)
        assert loop.fault == Fault.NONE
    first = ring.columns.index("force_x")
    force = ring.copy()[:, first : first + 3]
    mean = np.apply_along_axis(lambda x: np.convolve(x, np.full(100, 0.01), "valid"), 0, force)
    clip = np.maximum(compliance.error_clip, compliance.error_clip_minus or compliance.error_clip)
    bound = (np.array(compliance.stiffness) * clip)[:3]
    assert np.abs(mean).max() > 5.0
    assert (np.abs(mean).max(0) < 1.2 * bound).all(), np.abs(mean).max(0)
