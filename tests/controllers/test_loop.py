"""The loop over the simulated arm: lease, leash, faults, and forces that stay bounded."""

import subprocess
import sys

import numpy as np
import pytest

from robot_rl.controllers.arms.mujoco import Options
from robot_rl.controllers.loop import ArmLoop
from robot_rl.geometry import pose_error
from robot_rl.types import Fault
from tests.controllers.bench import GIVEN, LIMITS, SETUP, TASK, make_loop, moved, run
from tests.controllers.truth import TrueArm


@pytest.fixture
def loop():
    return make_loop()


def test_it_follows_a_target_and_reports_it_as_executed(loop):
    target = moved(loop, 0.006, -0.005, -0.006)
    loop.command(target, loop.t + 2.0)
    np.testing.assert_allclose(loop.observe().target_base_tcp, target, atol=1e-9)
    run(loop, 1500)
    assert np.linalg.norm(pose_error(loop.observe().pose_base_tcp, target)[:3]) < 3e-4


def test_when_the_lease_runs_out_the_target_becomes_the_measured_pose(loop):
    loop.command(moved(loop, 0.02, 0.0, 0.0), loop.t + 0.05)
    run(loop, 49)
    assert not loop.holding
    run(loop, 2)
    assert loop.holding
    held = loop.state().target_base_tcp
    run(loop, 200)
    held = loop.state().target_base_tcp  # it has come to rest
    run(loop, 500)
    state = loop.observe()
    np.testing.assert_array_equal(state.target_base_tcp, held)
    assert np.linalg.norm(state.pose_base_tcp[:3] - held[:3]) < 2e-3
    loop.command(moved(loop, 0.001, 0.0, 0.0), loop.t + 0.3)
    assert not loop.holding


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_target_that_is_no_pose_latches_a_fault_until_somebody_acknowledges(loop, bad):
    target = moved(loop, 0.0, 0.0, 0.0)
    target[1] = bad
    loop.command(target, loop.t + 0.3)
    assert loop.observe().fault == Fault.TARGET_NOT_FINITE
    before = loop.observe()
    loop.command(moved(loop, 0.01, 0.0, 0.0), loop.t + 0.3)
    run(loop, 200)
    after = loop.observe()
    assert after.fault == Fault.TARGET_NOT_FINITE and after.holding
    np.testing.assert_array_equal(after.target_base_tcp, before.target_base_tcp)
    loop.acknowledge()
    assert loop.observe().fault == Fault.NONE and loop.observe().holding
    loop.command(moved(loop, 0.01, 0.0, 0.0), loop.t + 0.3)
    assert not loop.observe().holding


@pytest.mark.parametrize("field", ["wrench", "pose", "jacobian", "coriolis", "mass"])
def test_what_is_no_number_in_a_state_makes_the_arm_hold_with_what_is_left(field):
    """The joints' angles and speeds are enough; one such state is a fault, and the motion ends with
    it.
    """
    arm = TrueArm(Options(), GIVEN)
    loop = ArmLoop(arm, SETUP)
    loop.move_joints(loop.observe().q + [0.2, -0.1, 0.1, 0.15, 0.1, -0.1, 0.3], 0.5, 10.0)
    run(loop, 400)
    arm.spoilt, q = {field: np.nan}, arm.rows.get("q")[-1]
    run(loop, 1)
    arm.spoilt = {}
    run(loop, 300)
    stopped = arm.rows.get("q")[-1]
    run(loop, 1000)
    assert loop.state().fault == Fault.STATE_NOT_FINITE and loop.at_rest
    assert np.abs(stopped - q).max() < 0.05 and np.abs(arm.rows.get("q")[-1] - stopped).max() < 1e-3


def test_without_angles_the_torques_fade_and_the_next_posture_is_held():
    arm = TrueArm(Options(), GIVEN)
    loop = ArmLoop(arm, SETUP)
    loop.command(moved(loop, 0.02, 0.0, 0.0), loop.t + 1.0)
    run(loop, 20)
    assert np.abs(loop.control.tau).max() > 0.5
    arm.spoilt = {"q": np.nan}
    run(loop, 200)
    assert loop.state().fault == Fault.STATE_NOT_FINITE
    np.testing.assert_array_equal(loop.control.tau, np.zeros(7))
    arm.spoilt = {}
    run(loop, 300)
    held = arm.rows.get("q")[-1]
    run(loop, 500)
    assert loop.at_rest and np.abs(arm.rows.get("q")[-1] - held).max() < 1e-4


def test_a_measured_pose_outside_the_workspace_faults_and_can_be_driven_back():
    loop = make_loop()
    z = loop.observe().pose_base_tcp[2]
    tight = make_loop(workspace_low=(0.35, -0.2, z + 0.01), workspace_margin_m=0.005)
    run(tight, 2)
    assert tight.observe().fault == Fault.WORKSPACE
    tight.acknowledge()
    for _ in range(10):
        tight.command(moved(tight, 0.0, 0.0, 0.02), tight.t + 0.3)
        run(tight, 100)
    assert tight.observe().fault == Fault.NONE
    assert tight.observe().pose_base_tcp[2] > z + 0.008


def test_pressing_on_the_table_is_bounded_by_stiffness_times_clip_and_never_tunnels(loop):
    def go(dx, dz, steps):
        for _ in range(steps):
            loop.command(moved(loop, dx, 0.0, dz), loop.t + 0.3)
            run(loop, 100)

    go(-0.008, 0.0, 12)  # away from the socket
    go(0.0, -0.008, 20)
    state = loop.observe()
    assert state.fault == Fault.NONE
    assert state.pose_base_tcp[2] > -0.0005
    pressed = state.wrench_base_tcp[2]
    depth = -LIMITS.workspace_low[2]
    assert (
        0.5 * 2000.0 * depth
        < pressed
        <= TASK.compliance.stiffness[2] * TASK.compliance.error_clip[2] + 1.0
    )


def test_too_much_force_latches_a_fault():
    loop = make_loop(max_force=4.0)
    for _ in range(12):
        loop.command(moved(loop, -0.008, 0.0, 0.0), loop.t + 0.3)
        run(loop, 100)
    for _ in range(25):
        loop.command(moved(loop, 0.0, 0.0, -0.008), loop.t + 0.3)
        run(loop, 100)
    assert loop.state().fault == Fault.FORCE
    run(loop, 300)
    # holding where it was touched lets go of the force
    assert np.linalg.norm(loop.observe().wrench_base_tcp[:3]) < 4.0


def test_a_reset_is_exact_and_leaves_a_fault_latched(loop):
    loop.command(np.full(7, np.nan), loop.t + 0.3)
    loop.reset(4)
    first = loop.observe()
    assert first.fault == Fault.TARGET_NOT_FINITE
    loop.acknowledge()
    loop.command(moved(loop, 0.01, 0.01, 0.0), loop.t + 0.3)
    run(loop, 150)
    loop.reset(4)
    np.testing.assert_array_equal(loop.observe().q, first.q)


WHAT_IS_COMPILED = """
import numpy as np
from numba.core.registry import CPUDispatcher
from robot_rl import geometry
from robot_rl.controllers import hold, impedance, joint_move, kinematics, law, loop
from robot_rl.controllers import neighbours, outline, safety, tick, tick_values
from robot_rl.controllers.setup import open_driver
from robot_rl.controllers.warm_up import warm_up
from tests.controllers.bench import HARDWARE, LIMITS, SETUP, TASK, moved, run
from robot_rl.types import Box
from dataclasses import replace

def compiled():
    modules = (geometry, hold, impedance, joint_move, kinematics, law, neighbours, outline, safety, tick, tick_values)
    functions = {id(f): f for module in modules for f in vars(module).values() if isinstance(f, CPUDispatcher)}
    return {f.__name__: len(f.nopython_signatures) for f in functions.values()}

arm = open_driver(HARDWARE, TASK.scene)  # what its driver compiles is its own matter
warm_up(7)
before = compiled()
boxes = (Box((0.5, 0.1, 0.0), (0.6, 0.2, 0.1)),)
AWAY = np.array([0.0, 0.7, 0.0, 0.0, 0.0, 0.0, 1.0])
limits = replace(LIMITS, keep_out=boxes, body_low=(-1.0,) * 3, body_high=(2.0,) * 3)
own = loop.ArmLoop(arm, replace(SETUP, limits=limits))
for act in (
    lambda: own.command(moved(own, 0.01, 0.0, 0.0), own.t + 1.0),
    lambda: own.move_joints(own.observe().q + 0.02, 0.5, own.t + 1.0),
    own.hold,
    lambda: own.tune(TASK.compliance),
    lambda: own.configure(SETUP),
    own.tare,
    lambda: own.command(np.full(7, np.nan), own.t + 1.0),
    own.acknowledge,
    lambda: own.reset(3),
    lambda: own.expect_neighbours(own.outline_names),
    lambda: own.neighbours.__setitem__(slice(None), outline.capsules_from(AWAY, own.outline())),
    lambda: own.command(moved(own, 0.01, 0.0, 0.0), own.t + 1.0),
):
    act()
    run(own, 5)
    own.state()
    own.explain()
own.excursion.begin(arm.read())
own.excursion.watch(arm.read())
print({name: (before.get(name), count) for name, count in compiled().items() if count != before.get(name)})
"""


@pytest.mark.slow
def test_warming_up_compiles_all_that_a_loop_will_need():
    """A function that is compiled when the robot waits for its torques takes seconds: the robot
    stops.
    """
    done = subprocess.run(
        [sys.executable, "-c", WHAT_IS_COMPILED], capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "{}"
