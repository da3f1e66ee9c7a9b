"""Is this arm ready? Its reach, its robot's own settings, the set-up for the task, its rhythm, and
where it stands: `robot-rl check`'s part of an arm.
"""

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np

from robot_rl import config, geometry, interfaces
from robot_rl.config import ArmConfig, Hardware, Task
from robot_rl.controllers.client import ArmClient, first_answer
from robot_rl.controllers.reach import Reach
from robot_rl.controllers.setup import open_driver
from robot_rl.links.sockets import free_addresses
from robot_rl.machine.processes import Supervisor
from robot_rl.tools.findings import Finding, fine, judged, wrong
from robot_rl.types import (
    ArmFacts,
    ArmLimits,
    ArmState,
    Array,
    ConfigError,
    DeviceError,
    RobotRLError,
)

LEAST_RATE_SHARE = 0.99
LARGEST_LATE_SHARE = 0.01
LEAST_COMMAND_SUCCESS = 0.99
LARGEST_ROUND_TRIP_MS = 2.0
LARGEST_FORCE_AT_REST = 5.0
"""What is right: rate of the loop, share of late ticks, share of the commands that the robot says
it got in time, p99 of a pose there and back, [N] without contact."""

STATS_EVERY_S = 1.0
"""How often the loop is asked for the robot's success rate, which is about its last 100 commands."""


def limits_of(arm: ArmConfig, task: Task | None) -> ArmLimits:
    """What binds the arm in this task. Raises ConfigError if the task asks for more than the
    hardware file allows.
    """
    return config.tighten(arm.limits, task.limits) if task else arm.limits


def tool_of(arm: ArmConfig, task: Task | None) -> Array:
    """Pose `(7,)` of the point that the task controls, seen from the flange; without a task, the
    TCP.
    """
    tcp = np.array(arm.pose_flange_tcp)
    pose: Array = geometry.pose_multiply(tcp, np.array(task.pose_tcp_tool)) if task else tcp
    return pose


def check_reach(arm: ArmConfig, task: Task | None) -> Iterator[Finding]:
    """Whether the arm gets wherever its workspace lets it be sent, with the task's tool."""
    facts: ArmFacts | None = config.driver("controllers/arms", arm.driver).facts
    if facts is None or not facts.dh:
        hint = (
            "its driver does not say how the arm is built (docs/another_arm.md): choose a small"
            " workspace"
        )
        yield fine(arm.name, "reach", "not looked at", hint)
        return
    reach = Reach(facts, limits_of(arm, task), np.array(arm.home), tool_of(arm, task))
    missed = reach.unreachable()
    if not missed:
        everywhere = "every corner of the workspace, on the edge of the cone as well"
        yield fine(arm.name, "reach", everywhere)
        return
    worst = max(missed, key=lambda miss: miss.missed_m + 0.1 * miss.missed_rad)
    found = (
        f"{len(missed)} poses at the workspace's corners are out of reach; the furthest: {worst}"
    )
    angle = reach.widest_angle()
    straight = "even straight: pull this corner in"
    remedy = f"workspace_angle {angle:.2f} would do" if angle >= 0.0 else straight
    advice = (
        f"a target there is never met, and the arm stands stretched. {remedy}; or a smaller box, or"
        " another home"
    )
    yield wrong(arm.name, "reach", found, advice)


def check_arm(
    hardware: Hardware, arm: ArmConfig, task: Task | None, seconds: float
) -> Iterator[Finding]:
    serving = _serving(arm)
    if serving is None:
        yield from _check_settings(arm, task)
    else:
        serving.close()
    with arm_process(hardware, arm, task) as client:
        info, name = client.info, arm.name
        kind = "simulated" if info.simulated else "real"
        yield fine(name, "connection", f"{kind}, {info.joints} joints, driver {arm.driver}")
        if client.refresh().fault:
            yield _check_fault(name, client.refresh())
            return
        if task is not None:
            yield _set_up(client, arm, task, own=serving is None)
        yield from check_timing(arm, client, seconds)
        state = client.refresh()
        yield _check_fault(name, state)
        yield from _check_stance(arm, task, state)


def _serving(arm: ArmConfig) -> ArmClient | None:
    """A client of the arm's process, if one runs already: its starter may be using it."""
    try:
        return ArmClient(arm.address, timeout_s=0.3)
    except RobotRLError:
        return None


def _check_settings(arm: ArmConfig, task: Task | None) -> Iterator[Finding]:
    """What the robot itself is set to, as far as its driver can tell, before the arm's process
    takes it over.
    """
    if config.driver("controllers/arms", arm.driver).examine is interfaces.Arm.examine:
        return
    driver = open_driver(replace(arm, load=None), task.scene if task else None)
    try:
        for what, right, found, advice in driver.examine():
            yield Finding(arm.name, what, right, found, advice)
    finally:
        driver.close()


def _set_up(client: ArmClient, arm: ArmConfig, task: Task, own: bool) -> Finding:
    """Whether the arm takes what the task wants of it, as an actor would ask; if the arm's process
    is our own.
    """
    what = f"set-up of task '{task.name}'"
    if not own:
        advice = (
            "its process ran already, for somebody else perhaps; end that one to have the set-up"
            " tried as well"
        )
        return fine(arm.name, what, "not tried", advice)
    try:
        client.configure(
            tool_of(arm, task),
            task.compliance,
            limits_of(arm, task),
            task.leash_translation,
            task.leash_rotation,
        )
    except (ConfigError, DeviceError) as error:
        return wrong(arm.name, what, "refused", str(error))
    return fine(arm.name, what, "tool, compliance, limits and leash are taken")


def _check_fault(name: str, state: ArmState) -> Finding:
    if not state.fault:
        return fine(name, "error state", "no fault")
    advice = (
        f"{state.reason}. Look at the arm, mend that, then start again: a fault is never cleared by"
        " itself"
    )
    return wrong(name, "error state", state.fault.name, advice)


def check_timing(arm: ArmConfig, client: ArmClient, seconds: float) -> Iterator[Finding]:
    """The loop's rhythm while somebody asks for states at 100 Hz, how long those take, and what the
    robot gets.
    """
    name, timing = arm.name, measure_timing(client, seconds)
    rate, late, lost = timing["rate_hz"], timing["late_share"], timing["lost_ticks"]
    found = f"{rate:.1f} Hz over {seconds:g} s, {100 * late:.1f} % of ticks late, {lost:.0f} lost"
    advice = "close other programs, allow real-time priority, give the loop a core (loop_cpu)"
    right = rate >= LEAST_RATE_SHARE * timing["nominal_hz"] and late <= LARGEST_LATE_SHARE
    yield judged(name, "loop", right, found, advice)
    p99 = timing["pose_round_trip_ms_p99"]
    right = p99 <= LARGEST_ROUND_TRIP_MS
    found = f"{timing['pose_round_trip_ms_p50']:.2f} ms, p99 {p99:.2f} ms"
    advice = "the machine is busy: close other programs"
    yield judged(name, "round trip of a pose", right, found, advice)
    if config.driver("controllers/arms", arm.driver).success_rate is not None:
        success = timing["command_success"]
        right = success >= LEAST_COMMAND_SUCCESS
        found = (
            f"{100 * success:.1f} % of the commands reached the robot in time, in the worst second"
        )
        advice = (
            "a cable of its own without a switch, no power saving, a real-time kernel"
            " (docs/franka.md)"
        )
        yield judged(name, "communication with the robot", right, found, advice)


def measure_timing(
    client: ArmClient, seconds: float, beside: Callable[[], None] = lambda: None
) -> dict[str, float]:
    """Rate and lost cycles of the loop over `seconds`, and the round trip of a state, asked for at
    100 Hz.

    `command_success` is the lowest share of its last 100 commands that the robot says it got in
    time; 1 if it says nothing. `beside` is called between two of them.
    """
    before, first = client.stats(), client.refresh()
    trips: list[float] = []
    successes: list[float] = []
    until, stats_due = time.monotonic() + seconds, time.monotonic() + STATS_EVERY_S
    while time.monotonic() < until:
        if time.monotonic() > stats_due:
            successes.append(client.stats().command_success)
            stats_due = time.monotonic() + STATS_EVERY_S
        begun = time.perf_counter()
        client.refresh()
        trips.append(1e3 * (time.perf_counter() - begun))
        beside()
        time.sleep(0.01)
    after, last = client.stats(), client.refresh()
    successes.append(after.command_success)
    ticks = last.sequence - first.sequence
    return {
        "nominal_hz": after.nominal_hz,
        "rate_hz": ticks / max(last.t - first.t, 1e-3),
        "late_share": (after.late_ticks - before.late_ticks) / max(ticks, 1),
        "lost_ticks": after.lost_ticks - before.lost_ticks,
        "command_success": min(successes),
        "law_us_p50": after.law_us_p50,
        "tick_us_p50": after.tick_us_p50,
        "tick_us_p999": after.tick_us_p999,
        "pose_round_trip_ms_p50": float(np.median(trips)),
        "pose_round_trip_ms_p99": float(np.percentile(trips, 99)),
    }


def _check_stance(arm: ArmConfig, task: Task | None, state: ArmState) -> Iterator[Finding]:
    """Where the arm stands, against its limits, and what it feels there."""
    limits = limits_of(arm, task)
    position = state.pose_base_tcp[:3]
    low, high = np.array(limits.workspace_low), np.array(limits.workspace_high)
    inside = bool((position >= low).all() and (position <= high).all())
    found = "TCP at " + ", ".join(f"{x:.3f}" for x in position) + " m"
    advice = "guide it into the box, or measure another one with `robot-rl pose`"
    found += ", inside" if inside else ", outside"
    yield judged(arm.name, "workspace", inside, found, advice)
    margin = np.minimum(state.q - limits.joint_low, limits.joint_high - state.q)
    right = bool((margin > limits.joint_margin).all())
    found = (
        f"joint {int(margin.argmin()) + 1} is {margin.min():.2f} rad from its limit, the nearest"
    )
    yield judged(arm.name, "joints", right, found, "guide the arm to another posture")
    force = float(np.linalg.norm(state.wrench_base_tcp[:3]))
    right = force < LARGEST_FORCE_AT_REST
    advice = (
        "does it touch anything? else `load` in the hardware file, or the end effector in Desk, is"
        " wrong"
    )
    yield judged(arm.name, "force at rest", right, f"{force:.1f} N", advice)


@contextmanager
def arm_process(hardware: Hardware, arm: ArmConfig, task: Task | None) -> Iterator[ArmClient]:
    """A client of an arm's process: of one that runs already, or of one that is started for this."""
    client = _serving(arm)
    if client is not None:
        try:
            yield client
        finally:
            client.close()
        return
    served = next(arms for arms in config.arms_by_process(hardware) if arm in arms)
    addresses = free_addresses(len(served))
    address = addresses[served.index(arm)]
    arguments = ["arm", hardware.name, "--arm", arm.name, "--clock", "real"]
    arguments += ["--address", *addresses]
    with tempfile.TemporaryDirectory() as folder, Supervisor(Path(folder)) as processes:
        processes.start(arm.name, arguments + (["--task", task.name] if task else []))
        client = first_answer(arm.name, address, Path(folder) / f"{arm.name}.log", processes.check)
        try:
            yield client
        finally:
            client.close()
