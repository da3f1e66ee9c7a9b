"""The arm's process as its clients see it: real processes, real sockets, both clocks."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import zmq

from robot_rl import interfaces
from robot_rl.controllers import messages
from robot_rl.controllers.client import ArmClient
from robot_rl.controllers.messages import Kind
from robot_rl.controllers.realtime import HUNG_S, RealTimeArm
from robot_rl.controllers.served_arm import open_arm
from robot_rl.controllers.world import WorldClient
from robot_rl.links import sockets
from robot_rl.links.address import read_secret
from robot_rl.types import ArmTarget, ConfigError, DeviceError, Fault, LinkError
from tests.controllers.bench import HARDWARE, LIMITS, TASK, TOOL
from tests.helpers import wait_until
from tests.system.main_job import descendants, still_running

pytestmark = pytest.mark.real_clock


def connect(address):
    arm = ArmClient(address, timeout_s=100.0)  # the first start on a machine compiles
    configure(arm)
    return arm


def configure(arm, **changes):
    return arm.configure(
        TOOL,
        TASK.compliance,
        replace(LIMITS, **changes),
        TASK.leash_translation,
        TASK.leash_rotation,
    )


def step(arm, dx=0.0, dy=0.0, dz=0.0, period_s=0.1):
    pose = arm.state().target_base_tcp.copy()
    pose[:3] += (dx, dy, dz)
    return arm.command(ArmTarget(pose, period_s))


def test_lockstep_a_run_repeats_exactly_for_a_seed(lockstep_arm):
    arm, world = connect(lockstep_arm), WorldClient(lockstep_arm)
    assert arm.info == messages.ArmInfo("panda", 7, 1, 0, "lockstep", True)
    runs = []
    for _ in range(2):
        world.reset(11)
        arm.refresh()
        states = [
            step(arm, *delta) for delta in np.random.default_rng(5).uniform(-0.008, 0.004, (25, 3))
        ]
        runs.append((states, world.refresh()))
    for a, b in zip(runs[0][0], runs[1][0], strict=True):
        for name in ("q", "dq", "wrench_base_tcp", "target_base_tcp", "pose_base_tcp"):
            np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    np.testing.assert_array_equal(runs[0][1].objects, runs[1][1].objects)
    different = world.reset(12)
    assert not np.array_equal(different.objects, runs[0][1].objects)
    arm.close()
    world.close()


def test_lockstep_time_stands_still_between_targets(lockstep_arm):
    arm = connect(lockstep_arm)
    before = step(arm, 0.005)
    time.sleep(0.5)
    after = arm.refresh()
    assert after.t == before.t and not after.holding
    np.testing.assert_array_equal(after.q, before.q)
    np.testing.assert_allclose(step(arm, period_s=0.05).t - before.t, 0.05, atol=1e-9)
    arm.close()


def test_garbage_gets_an_error_and_the_server_lives(lockstep_arm):
    arm = connect(lockstep_arm)
    raw = raw_client(lockstep_arm)
    rng = np.random.default_rng(0)
    junk = [rng.bytes(int(n)) for n in rng.integers(0, 300, 30)]
    life, secret = life_of(raw), read_secret(lockstep_arm)
    bodies = {
        Kind.COMMAND: b"\xff" * messages.TARGET.itemsize,
        Kind.CONFIGURE: rng.bytes(3),
        Kind.RESET: rng.bytes(3),
    }
    junk += [messages.encode(kind, life, 1, body, secret=secret) for kind, body in bodies.items()]
    junk += [
        messages.encode(200, life, 1),
        messages.encode(Kind.COMMAND, life, 1, rng.bytes(3), secret=secret),
    ]
    for message in junk:
        raw.send(message)
        assert raw.poll(5000), "no answer"
        assert messages.HEADER.unpack_from(raw.recv())[2] == messages.ERROR
    raw.send_multipart([b"two", b"frames"])
    assert raw.poll(5000) and raw.recv()
    assert step(arm, 0.001).fault == Fault.NONE
    raw.close()
    arm.close()


def raw_client(address):
    raw = sockets.new_socket(zmq.DEALER)
    sockets.connect(raw, address)
    return raw


def life_of(raw):
    raw.send(messages.encode(Kind.INFO, 0, 1))
    assert raw.poll(100_000), "no answer"
    return messages.decode(raw.recv()).life


@pytest.mark.parametrize("clock", ["lockstep", "real"])
def test_an_arm_that_was_started_anew_obeys_nobody_who_takes_it_for_the_old_one(start_arm, clock):
    """It has forgotten the task's tool and limits: a target for the tip would drive the bare hand
    there.
    """
    process = start_arm(clock)
    arm, world = connect(process.address), WorldClient(process.address)
    step(arm, 0.002)
    process.stop(signal.SIGKILL)
    start_arm(clock)
    ArmClient(process.address).close()  # waits until it is there
    for ask in (
        arm.refresh,
        arm.tare,
        arm.acknowledge_fault,
        lambda: step(arm),
        lambda: configure(arm),
        world.refresh,
    ):
        with pytest.raises(DeviceError, match=r"started anew.*connect again"):
            ask()
    again = connect(process.address)
    assert step(again, 0.002).fault == Fault.NONE
    for client in (arm, world, again):
        client.close()


def test_who_is_there_is_asked_again_if_the_one_who_heard_it_has_died(start_arm, address):
    dying = sockets.new_socket(zmq.ROUTER)
    with dying, ThreadPoolExecutor() as pool:
        sockets.bind(dying, address)
        connecting = pool.submit(ArmClient, address, timeout_s=100.0)
        assert dying.poll(10_000), "it is not asked"
        dying.recv_multipart()
        dying.close(0)
        start_arm("lockstep")
        arm = connecting.result(60.0)
    assert arm.info.name == "panda"
    arm.close()


def test_an_arm_moves_only_for_the_program_that_set_it_up_last(lockstep_arm):
    """Else two programs would drive it, each with the tool and the limits of the other."""
    first, onlooker = connect(lockstep_arm), ArmClient(lockstep_arm)
    step(first, 0.002)
    second = connect(lockstep_arm)
    for ask in (lambda: step(first), lambda: first.tune(TASK.compliance)):
        with pytest.raises(DeviceError, match=r"another program has set it up.*stop one"):
            ask()
    assert step(second, 0.002).fault == Fault.NONE
    with pytest.raises(DeviceError, match="another program"):
        step(onlooker)
    for client in (first, onlooker):
        assert client.refresh().fault == Fault.NONE  # whoever likes may look
    configure(first)
    assert step(first, 0.002).fault == Fault.NONE
    for client in (first, second, onlooker):
        client.close()


def test_who_has_not_set_the_arm_up_does_not_move_it(start_arm):
    process = start_arm("lockstep")
    stranger = ArmClient(process.address, timeout_s=100.0)
    before = stranger.refresh()
    for ask in (
        lambda: step(stranger, 0.01),
        lambda: stranger.tune(TASK.compliance),
        stranger.tare,
    ):
        with pytest.raises(DeviceError, match="nobody has set it up"):
            ask()
    raw = raw_client(process.address)
    life = life_of(raw)
    for kind in (
        Kind.ACKNOWLEDGE,
        Kind.CONFIGURE,
    ):  # without the number that an answer to INFO says
        raw.send(messages.encode(kind, life, 2, client=7, secret=read_secret(process.address)))
        assert raw.poll(5000) and b"set it up" in messages.decode(raw.recv()).body
    assert stranger.refresh().t == before.t
    raw.close(0)
    stranger.close()


@pytest.mark.parametrize("clock", ["lockstep_arm", "real_arm"])
def test_a_copy_of_a_message_and_one_without_a_time_move_nothing(request, clock):
    """An attacker's replay, a proxy that sends twice, a program that does not look before it leaps."""
    address = request.getfixturevalue(clock)
    arm = connect(address)
    raw = raw_client(address)
    life, secret = life_of(raw), read_secret(address)

    def say(number, seen_t):
        state = arm.refresh()
        pose = state.pose_base_tcp + [0.01, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
        seen_t = state.t if seen_t is None else seen_t
        body = messages.record(messages.TARGET, ArmTarget(pose, 0.1, seen_t=seen_t))
        setup = arm._link._own
        message = messages.encode(
            Kind.COMMAND, life, number, body, setup=setup, client=3, secret=secret
        )
        raw.send(message)
        assert raw.poll(5000)
        return message, messages.decode(raw.recv())

    message, answer = say(1, None)
    assert answer.status == messages.OK
    raw.send(message)
    assert raw.poll(5000) and b"came before" in messages.decode(raw.recv()).body
    assert b"came before" in say(1, None)[1].body
    unstamped = say(2, np.nan)[1]
    assert unstamped.status == messages.WRONG and b"seen_t" in unstamped.body
    raw.close(0)
    arm.close()


def test_a_loop_that_hangs_says_how_old_its_state_is_and_is_ended(start_arm):
    process = start_arm("real")
    arm = connect(process.address)
    assert arm.refresh().age_s < 0.1
    below = descendants(process.process.pid)
    (loop,) = [pid for pid, command in below.items() if "multiprocessing.spawn" in command]
    for stopped_s in (1.0, *[0.2] * 9):  # anywhere, in the middle of its report as well
        os.kill(loop, signal.SIGSTOP)
        time.sleep(stopped_s)
        assert arm.refresh().age_s > stopped_s - 0.1
        os.kill(loop, signal.SIGCONT)
        time.sleep(0.2)
        assert arm.refresh().age_s < 0.1
    os.kill(loop, signal.SIGSTOP)
    # DeviceError: `robot-rl arm` makes it 3, and is started anew
    assert process.process.wait(20.0) != 0
    assert not still_running([loop])
    arm.close()


def test_an_arm_whose_machine_has_slept_goes_on(real_arm, shared_real_arm):
    process = shared_real_arm
    arm = connect(real_arm)
    network = process.process.pid
    below = descendants(network)
    (loop,) = [pid for pid, command in below.items() if "multiprocessing.spawn" in command]
    for pid in (network, loop):
        os.kill(pid, signal.SIGSTOP)
    time.sleep(HUNG_S + 0.5)
    os.kill(network, signal.SIGCONT)  # it wakes first, and finds an old state
    time.sleep(0.5)
    os.kill(loop, signal.SIGCONT)
    time.sleep(0.5)
    assert process.process.poll() is None
    assert arm.refresh().age_s < 0.1
    arm.close()


def test_who_waits_for_an_order_looks_at_the_loop_that_hangs(monkeypatch):
    """A client that asks again and again does not keep a hung loop alive."""
    arm: Any = object.__new__(RealTimeArm)
    now, killed = [0.0], list[bool]()
    arm._looked = arm._watched_since = 0.0
    arm._process = SimpleNamespace(require=lambda: None, kill=lambda: killed.append(True))
    arm._report = SimpleNamespace(read=lambda: {"state": {"sequence": 1}, "refusal": 0})
    arm.state = lambda: SimpleNamespace(age_s=now[0])

    def sleep(_: float) -> None:
        now[0] += 0.5

    monkeypatch.setattr(
        "robot_rl.controllers.realtime.time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep)
    )
    with pytest.raises(DeviceError, match="did not carry out"):
        arm._wait(lambda report: False, HUNG_S + 1.0, "carry out it")
    assert not killed
    with pytest.raises(DeviceError, match="measured nothing"):
        arm.require_alive()
    assert killed


@pytest.mark.parametrize("clock", ["lockstep", "real"])
@pytest.mark.parametrize("after_s", [0.3, 0.7, 1.5])
def test_a_signal_ends_a_start_at_any_moment(address, clock, after_s):
    command = [
        sys.executable,
        "-m",
        "robot_rl",
        "arm",
        "sim_panda",
        "--clock",
        clock,
        "--address",
        address,
    ]
    # as a run's processes begin
    blocked = partial(signal.pthread_sigmask, signal.SIG_BLOCK, {signal.SIGINT})
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, preexec_fn=blocked
    ) as process:
        time.sleep(after_s)
        process.send_signal(signal.SIGINT)
        begun = time.monotonic()
        _, said = process.communicate(timeout=30.0)
    assert process.returncode in (
        0,
        130,
        -signal.SIGINT,
    ), said  # -SIGINT: of Python itself, before it is ours
    assert time.monotonic() - begun < 10.0


SWALLOWS = """
import os, signal, sys
from dataclasses import replace
from robot_rl import config
from robot_rl.controllers.server import serve
from robot_rl.machine.signals import remembered

arm = config.load_hardware("sim_panda").arms[0]
with remembered():
    try:
        os.kill(os.getpid(), signal.SIGINT)
    except KeyboardInterrupt:
        pass  # as an import does
    serve(replace(arm, address=sys.argv[1]), clock="lockstep")
"""


def test_a_ctrl_c_that_an_import_has_swallowed_ends_the_start(address):
    subprocess.run([sys.executable, "-c", SWALLOWS, address], check=True, timeout=50.0)


def test_a_wider_limit_is_refused_with_its_name_and_the_arm_goes_on(lockstep_arm):
    arm = connect(lockstep_arm)
    with pytest.raises(ConfigError, match=r"max_force.*80"):
        configure(arm, max_force=500.0)
    assert step(arm).fault == Fault.NONE
    arm.close()


def test_real_clock_resets_moves_and_keeps_time(real_arm):
    arm, world = connect(real_arm), WorldClient(real_arm)
    assert world.reset(3).objects.shape == (1, 7)
    before = arm.refresh()
    for _ in range(10):
        step(arm, dy=0.004)
        time.sleep(0.05)
    after = arm.refresh()
    assert after.pose_base_tcp[1] - before.pose_base_tcp[1] > 0.01
    assert after.t - before.t >= 0.5
    # it slips, it never bursts
    assert 0.3 < (after.sequence - before.sequence) / (1000.0 * (after.t - before.t)) < 1.05
    arm.close()
    world.close()


@pytest.mark.parametrize("clock", ["lockstep", "real"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_process_cleanly(start_arm, clock, number):
    process = start_arm(clock)
    arm = connect(process.address)
    children = descendants(process.process.pid)
    arm.close()
    assert process.stop(number) == 0
    wait_until_gone(children)


def test_when_the_network_side_is_killed_the_loop_leaves(start_arm):
    process = start_arm("real")
    arm = connect(process.address)
    children = descendants(process.process.pid)
    assert children
    arm.close()
    process.stop(signal.SIGKILL)
    wait_until_gone(children)


def wait_until_gone(children):
    """The loop's process, and multiprocessing's resource tracker, which ends when it sees that its
    parent has.
    """
    wait_until(lambda: not still_running(children), what="a child outlives the network side")


def test_nobody_at_the_address_is_an_error_that_says_what_to_start(address):
    with pytest.raises(LinkError, match=rf"{address}.*robot-rl arm"):
        ArmClient(address, timeout_s=0.2)


def test_an_arm_that_is_not_simulated_has_no_lockstep_clock(monkeypatch):
    monkeypatch.setattr("robot_rl.controllers.served_arm.driver", lambda *_: interfaces.Arm)
    with pytest.raises(ConfigError, match="not simulated"):
        open_arm(HARDWARE, None, "lockstep")
