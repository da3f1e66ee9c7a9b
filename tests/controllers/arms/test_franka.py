"""The driver of a Franka against the simulated one, by Franka's own client library: what only this
kind of arm has.
"""

import contextlib
import json
import math
import socket
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

from robot_rl import config
from robot_rl.controllers.arms import _franka_address, _franka_frames
from robot_rl.controllers.setup import open_driver
from robot_rl.geometry import pose_error, pose_multiply
from robot_rl.sim.fci.process import Simulation
from robot_rl.sim.panda import flange_pose
from robot_rl.tools.pose import PoseWatcher
from robot_rl.types import ArmDriverError, ConfigError, Fault, Load

pytestmark = pytest.mark.real_clock

pytest.importorskip(
    "pylibfranka", reason="pip install robot_rl[franka] (x86-64 Linux with glibc 2.34)"
)
franka = config.find("controllers/arms", "franka")
BENCH, TASK = config.load_hardware("fci_sim").arms[0], config.load_task("peg_insert")


@pytest.fixture(scope="module")
def simulation():
    """In lockstep, so that nothing depends on how busy the machine is."""
    with Simulation(BENCH, None, "lockstep") as running:
        yield running


@pytest.fixture
def robot(simulation):
    """At home and idle, as its maker has set it."""
    simulation.ask("recovery", {"status": 0, "seconds": 0.0})
    simulation.ask("hand_mass", 0.73)
    simulation.ask("touch", [0.0, 0.0, 0.0])
    simulation.ask("mode", "IDLE")
    simulation.reset(0)
    return simulation


def hardware_of(robot, **options):
    return replace(
        BENCH, load=None, driver="franka", options={**BENCH.options, "ip": robot.ip, **options}
    )


@pytest.fixture
def arm(robot):
    opened = open_driver(hardware_of(robot))
    yield opened
    opened.close()


def hold(arm, ticks, tau=lambda reading: np.zeros(7)):
    for _ in range(ticks):
        arm.write(tau(arm.read()))


def stopped_by(arm, ticks=50):
    """The error that ends a motion."""
    with pytest.raises(ArmDriverError) as caught:
        hold(arm, ticks)
    return caught.value


# --------------------------------------------------------------------------------------------- pose


def idle_client(robot):
    """Sets an end effector frame that is nobody's here, and leaves."""
    import pylibfranka

    client = pylibfranka.Robot(robot.ip, pylibfranka.RealtimeConfig.kIgnore)
    client.set_EE([1.0, 0, 0, 0, 0, 0, 1.0, 0, 0, -1.0, 0, 0, 0.02, 0.05, -0.03, 1.0])
    client.set_K([0, 1.0, 0, 0, -1.0, 0, 0, 0, 0, 0, 1.0, 0, 0.01, 0.0, 0.04, 1.0])


@pytest.mark.parametrize("mode", ["IDLE", "REFLEX", "USER_STOPPED", "OTHER", "GUIDING"])
def test_a_pose_is_the_tools_in_whatever_mode_the_robot_is(robot, mode):
    """Whoever guides an arm by hand does so where it takes no frames: what another program has set
    must not matter.
    """
    idle_client(robot)
    robot.ask("mode", mode)
    watcher = PoseWatcher(hardware_of(robot), TASK)
    tool = pose_multiply(np.array(BENCH.pose_flange_tcp), np.array(TASK.pose_tcp_tool))
    truth = pose_multiply(flange_pose(robot.world().q), tool)
    try:
        pose = watcher.look()
        assert robot.ask("status")["mode"] == mode, "looking is no command"
    finally:
        watcher.close()
    np.testing.assert_allclose(pose_error(pose, truth), 0.0, atol=1e-4)
    printed = watcher.lines(pose, 0.01)
    assert f"({', '.join(f'{x + 0.0:.5f}' for x in pose)})" in printed


def test_jacobian_and_wrench_are_the_tools_as_well_where_the_robot_has_another_frame(robot):

    idle_client(robot)
    robot.ask("mode", "GUIDING")
    robot.ask("touch", [0.0, 3.0, 8.0])  # at the robot's own end effector, wherever that is now
    arm, twin = (
        open_driver(hardware_of(robot)),
        open_driver(replace(BENCH, load=None, driver="mujoco", options={})),
    )
    tool = np.array([0.02, 0.0, 0.16, 0.0, 0.0, 0.0, 1.0])
    arm.set_tool(tool)
    twin.set_tool(tool)
    r, truth = arm.read(), twin.read()
    np.testing.assert_allclose(r.jacobian, truth.jacobian, atol=2e-5)
    ee = pose_multiply(
        np.array(BENCH.pose_flange_tcp), np.array([0.02, 0.05, -0.03, 0.0, 0.0, 0.0, 1.0])
    )
    lever = pose_multiply(flange_pose(r.q), ee)[:3] - r.pose[:3]
    np.testing.assert_allclose(r.wrench[:3], [0.0, 3.0, 8.0], atol=1e-4)
    np.testing.assert_allclose(r.wrench[3:], np.cross(lever, [0.0, 3.0, 8.0]), atol=1e-4)
    arm.close()


def test_the_frames_that_were_waiting_are_sent_before_torques_are(robot):
    robot.ask("mode", "USER_STOPPED")
    arm = open_driver(hardware_of(robot))
    tool = np.array([0.0, 0.0, 0.2, 0.0, 0.0, 0.0, 1.0])
    arm.set_tool(tool)
    robot.ask("mode", "IDLE")
    arm.recover()
    hold(arm, 20)
    r = arm.read()
    np.testing.assert_allclose(
        pose_error(r.pose, pose_multiply(flange_pose(r.q), tool)), 0.0, atol=2e-6
    )
    assert arm.success_rate > 0.9
    arm.close()


# ----------------------------------------------------------------------------------------- low-pass


def test_noise_of_the_speeds_becomes_two_and_a_half_times_less_torque_rate():
    """White noise of 0.01 rad/s through 30 Nms/rad: the low-pass at 100 Hz against none, both
    within the step limit.
    """
    rng = np.random.default_rng(0)
    wanted = 30.0 * 0.01 * rng.standard_normal((20_000, 7))
    rate = {}
    for hz in (0.0, 100.0):
        share, now, out = _franka_frames.share_per_tick(hz), np.zeros(7), np.zeros(7)
        sent = []
        for tau in wanted:
            _franka_frames.smooth_into(out, tau, now, share)
            assert (np.abs(out - now) <= _franka_frames.TORQUE_STEP + 1e-12).all()
            now = out.copy()
            sent.append(now)
        rate[hz] = np.diff(sent, axis=0).std()
    # a / sqrt(2 - a) of what a filter that takes over a = 0.47 per tick leaves
    assert rate[0.0] / rate[100.0] == pytest.approx(math.sqrt(2 - 0.4665) / 0.4665, rel=0.03)


def test_a_torque_that_stays_arrives():
    now, out, wanted = np.zeros(7), np.zeros(7), np.full(7, 5.0)
    for _ in range(40):
        _franka_frames.smooth_into(out, wanted, now, _franka_frames.share_per_tick(100.0))
        now = out.copy()
    np.testing.assert_allclose(now, wanted, atol=1e-3)


def test_a_noisy_hold_with_strong_joint_damping_stays_where_it_is(arm):
    """Through the wire, with a tick of delay more than the wire's own."""
    rng, start, waiting = np.random.default_rng(0), arm.read().q.copy(), [np.zeros(7)]
    K, D = np.array([400.0] * 4 + [100.0] * 3), np.array([50.0] * 4 + [10.0] * 3)
    speeds: list[float] = []

    def law(r):
        push = 15.0 * np.array([1, 1, 1, 1, 0.2, 0.2, 0.1]) * (len(speeds) < 60)
        waiting.append(
            push + K * (start - r.q) - D * (r.dq + 0.01 * rng.standard_normal(7)) + r.coriolis
        )
        speeds.append(np.abs(r.dq).max())
        return waiting.pop(0)

    hold(arm, 900, law)
    assert max(speeds[:100]) > 0.1, "nothing has disturbed it"
    assert max(speeds[-200:]) < 0.05
    assert np.abs(arm.read().q - start).max() < 0.01


# -------------------------------------------------------------------------------------------- stops


@pytest.mark.parametrize(
    ("status", "words", "advice"),
    [
        (1, "not possible", "FCI active"),
        (2, "safety function", "Watchman"),
        (3, "manual error recovery", "in Desk"),
        (4, "reflex", "then acknowledge"),
        (5, "User Stop", "release the external stop"),
        (6, "aborted", "acknowledge again"),
    ],
)
def test_a_recovery_that_fails_says_why_and_what_to_do(robot, arm, status, words, advice):
    robot.ask("mode", "REFLEX")
    robot.ask("recovery", {"status": status, "seconds": 0.0})
    with pytest.raises(ArmDriverError) as caught:
        arm.recover()
    assert words in str(caught.value) and advice in str(caught.value)[:200], caught.value
    with pytest.raises(ArmDriverError):
        arm.write(np.zeros(7))
    robot.ask("recovery", {"status": 0, "seconds": 0.0})
    arm.recover()
    hold(arm, 5)


def test_a_recovery_may_take_its_time(robot, arm):
    robot.ask("mode", "REFLEX")
    robot.ask("recovery", {"status": 0, "seconds": 1.5})
    arm.recover()
    hold(arm, 5)


@pytest.mark.parametrize(
    ("mode", "fault", "advice"),
    [
        ("OTHER", Fault.DRIVER, "unlock the joints"),
        ("GUIDING", Fault.USER_STOP, "let go"),
        ("USER_STOPPED", Fault.USER_STOP, "release its external stop"),
        ("REFLEX", Fault.REFLEX, "look at it, then acknowledge"),
        ("RECOVERY", Fault.REFLEX, "wait, then acknowledge"),
    ],
)
def test_each_mode_that_takes_no_command_has_its_advice_in_the_first_200_characters(
    robot, arm, mode, fault, advice
):
    robot.ask("mode", mode)
    error = stopped_by(arm)
    assert error.fault == fault and advice in str(error)[:200] and robot.ip in str(error)


def test_the_journal_of_a_stop_holds_the_robots_own_last_states_and_its_errors(robot, arm):
    hold(arm, 80)
    assert not arm.journal()["stopped"]
    robot.ask("torque_jump", 5.0)
    error = stopped_by(arm)
    assert error.fault == Fault.REFLEX and "controller_torque_discontinuity" in str(error)
    journal = json.loads(json.dumps(arm.journal(), allow_nan=False))
    assert journal["mode"] == "Reflex" and journal["stopped"] == str(error)
    assert (
        "controller_torque_discontinuity"
        in journal["current_errors"] + journal["last_motion_errors"]
    )
    moving, after = journal["states"][:-1], journal["states"][-1]
    assert len(moving) == franka.JOURNAL_STATES and all(
        state["mode"] == "Move" for state in moving[:-1]
    )
    assert after["mode"] == "Reflex" and after["current_errors"]
    times = [state["t"] for state in journal["states"]]
    assert times == sorted(times) and 0.045 < times[-1] - times[0] < 0.1
    for name in ("q", "dq", "tau_J", "tau_J_d", "tau_ext", "joint_contact"):
        assert len(moving[0][name]) == 7
    for _ in range(60):  # looking on afterwards wipes nothing out
        arm.read()
        arm.rest()
    assert arm.journal() == journal
    arm.recover()
    assert not arm.journal()["stopped"]


def test_nobody_at_the_address_is_said_at_once_with_the_arms_name(monkeypatch):
    monkeypatch.setattr(_franka_address, "REACH_S", 0.2)
    require_refusal("127.9.9.9", "activate FCI in Desk")
    require_refusal("no-such-robot.invalid", "options.ip of the hardware file wrong")
    with socket.socket() as deaf, contextlib.ExitStack() as waiting:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        # a full queue: whoever comes now hears nothing, as from a robot that is off
        for _ in range(3):
            caller = waiting.enter_context(socket.socket())
            caller.setblocking(False)
            caller.connect_ex(deaf.getsockname())
        monkeypatch.setattr(_franka_address, "DESK_PORT", deaf.getsockname()[1])
        monkeypatch.setattr(_franka_address, "FCI_PORT", deaf.getsockname()[1])
        require_refusal("127.0.0.1", "robot off")


def require_refusal(ip, advice):
    begun = time.monotonic()
    with pytest.raises(ArmDriverError) as caught:
        open_driver(replace(BENCH, load=None, driver="franka", options={"ip": ip}))
    assert caught.value.fault == Fault.COMMUNICATION and time.monotonic() - begun < 20.0, (
        "libfranka waits for a minute"
    )
    assert (
        f"arm '{BENCH.name}', a Franka at {ip}" in str(caught.value)
        and advice in str(caught.value)[:200]
    )


def test_a_second_program_is_told_that_another_one_has_the_robot(robot, arm):
    with pytest.raises(ArmDriverError, match="does another program have it") as caught:
        open_driver(hardware_of(robot))
    assert robot.ip in str(caught.value)
    hold(arm, 5)


# ----------------------------------------------------------------------------------------- settings


def test_an_end_effector_in_desk_that_is_not_the_files_is_found(robot, arm):
    assert all(right for _, right, _, _ in arm.examine())
    robot.ask("hand_mass", 0.0)
    what, right, found, advice = arm.examine()[1]
    assert (what, right, found) == (
        "end effector in Desk",
        False,
        "0.00 kg",
    ) and "End Effector" in advice
    robot.ask("hand_mass", 0.73)
    arm.close()
    arm = open_driver(
        replace(hardware_of(robot), pose_flange_tcp=(0.0, 0.0, 0.15, 0.0, 0.0, 0.0, 1.0))
    )
    what, right, found, advice = arm.examine()[2]
    assert right and found.startswith("46.6 mm, 0.785 rad") and advice
    arm.close()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"collision_torque": [60.0, 60.0, 60.0, 60.0, 12.0, 10.0, 10.0]},
            r"collision_torque\[4\] = 12: .* 12 Nm",
        ),
        (
            {"collision_torque": [0.0, 60.0, 60.0, 60.0, 10.0, 10.0, 10.0]},
            r"collision_torque\[0\] = 0: wanted more",
        ),
        ({"collision_force": [-1.0, 80.0, 80.0, 30.0, 30.0, 30.0]}, r"collision_force\[0\] = -1"),
        (
            {"torque_filter_hz": 600.0},
            "torque_filter_hz = 600: wanted 0 to 500, half the loop's rate",
        ),
        ({"end_effector_kg": -1.0}, "end_effector_kg = -1: wanted 0 to 3"),
    ],
)
def test_options_that_make_no_sense_are_refused_before_anybody_is_called(options, words):
    with pytest.raises(ConfigError, match=f"arm 'panda': options: {words}"):
        open_driver(
            replace(BENCH, load=None, driver="franka", options={"ip": "192.0.2.1", **options})
        )


def test_the_robot_says_contact_before_it_says_collision(robot, arm):
    """The lower thresholds stop nothing: they are for whoever reads the journal."""
    arm.set_load(Load(0.1, (0.0, 0.0, 0.1), (1e-4, 1e-4, 1e-4, 0.0, 0.0, 0.0)))
    hold(arm, 5)
    share = franka.CONTACT_SHARE * BENCH.options["collision_force"][1]
    robot.ask("touch", [0.0, share + 5.0, 0.0])
    hold(arm, 30)
    contact = arm.journal()["states"][-1]["cartesian_contact"]
    assert contact[1] == 1.0 and contact[0] == 0.0


COMPILED = """
import gc, sys
from dataclasses import replace
import numpy as np
from numba.core.dispatcher import Dispatcher
from robot_rl import config
from robot_rl.controllers.setup import open_driver
from robot_rl.types import Load
franka = config.find("controllers/arms", "franka")

def compiled():
    return {f"{f.py_func.__module__}.{f.__name__}{s}" for f in gc.get_objects() if isinstance(f, Dispatcher)
            for s in f.signatures}

before, connect = [], franka.Arm._connect
def noted(self):
    before.append(compiled())
    connect(self)
franka.Arm._connect = noted
bench = config.load_hardware("fci_sim").arms[0]
arm = open_driver(replace(bench, load=None, driver="franka", options={**bench.options, "ip": sys.argv[1]}))
arm.set_load(Load(0.1, (0.0, 0.0, 0.1), (1e-4, 1e-4, 1e-4, 0.0, 0.0, 0.0)))
arm.set_tool(np.array([0.0, 0.0, 0.2, 0.0, 0.0, 0.0, 1.0]))
for _ in range(5):
    arm.write(np.zeros(7) + 0.0 * arm.read().q)
arm.examine()
arm.rest()
arm.recover()
arm.write(np.zeros(7))
arm.close()
assert before and before[0], "nothing was compiled before"
print(*sorted(compiled() - before[0]), sep="\\n", end="")
"""


def test_nothing_is_compiled_once_the_robot_is_connected(robot):
    """It waits for nobody: a process of its own, in which nothing else has compiled it already."""
    done = subprocess.run(
        [sys.executable, "-c", COMPILED, robot.ip],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
