"""Is this bench ready? Everything that a set-up needs, tried one after the other, with what to do
where it is not.

`robot-rl check HARDWARE` starts the arm's process as a run would, and sets it up for the task: the
arm is held where it stands, and nothing else is commanded. An arm's process that runs already
serves somebody, whose set-up stays as it is. `robot-rl pose HARDWARE` only measures, so that a
person may guide the arm by hand meanwhile.
"""

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from robot_rl import config, geometry, interfaces
from robot_rl.cameras import is_simulated
from robot_rl.config import ArmConfig, GripperConfig, Hardware, Task
from robot_rl.config.limits import quat_angle
from robot_rl.controllers.client import ArmClient
from robot_rl.controllers.gripper import GripperProcess
from robot_rl.controllers.reach import Reach
from robot_rl.controllers.setup import open_driver
from robot_rl.links.sockets import free_addresses
from robot_rl.machine.terminal import bad, good
from robot_rl.operator.mapping import open_operator
from robot_rl.runs.arms import first_answer
from robot_rl.runs.processes import Supervisor
from robot_rl.runs.record import NO_WANDER
from robot_rl.tools import camera_check
from robot_rl.types import (
    ArmFacts,
    ArmLimits,
    ArmState,
    Array,
    ConfigError,
    DeviceError,
    RobotRLError,
)

PACKAGES = {"franka": ("pylibfranka",), "fci_sim": ("pylibfranka", "mujoco"), "mujoco": ("mujoco",),
            "realsense": ("pyrealsense2",)}  # fmt: skip
"""By driver: what it needs installed."""
EXTRAS = {"pylibfranka": "franka", "pyrealsense2": "realsense"}
"""By package: the extra that brings it."""

LEAST_RATE_SHARE = 0.99
LARGEST_LATE_SHARE = 0.01
LEAST_COMMAND_SUCCESS = 0.99
LARGEST_ROUND_TRIP_MS = 2.0
LARGEST_FORCE_AT_REST = 5.0
LEAST_GRIPPER_WIDTH = 0.01
LEAST_FRAME_SHARE = 0.9
LARGEST_AGE_SHARE = 0.5
"""What is right: rate of the loop, share of late ticks, share of the commands that the robot says
it got in time, p99 of a pose there and back, [N] without contact, [m] open, share of the frames
that a camera was asked for, p99 of a frame's age as a share of how old it may be."""

STATS_EVERY_S = 1.0
"""How often the loop is asked for the robot's success rate, which is about its last 100 commands."""

CAMERA_S = 3.0
"""For how long the cameras are watched."""


@dataclass(frozen=True)
class Finding:
    """One thing that was tried: whether it is right, what was found, and what to do if it is not."""

    part: str
    what: str
    right: bool
    found: str
    advice: str = ""


def check(hardware: Hardware, task: Task | None = None, seconds: float = 10.0) -> list[Finding]:
    """Try everything. Nothing raises: what does not work is a finding."""
    findings = list(_check_files(hardware, task))
    findings += _check_machine()
    for arm in hardware.arms:
        findings += _guarded(arm.name, lambda arm=arm: _check_reach(arm, task))
        findings += _guarded(arm.name, lambda arm=arm: _check_arm(hardware, arm, task, seconds))
    if hardware.cameras:
        findings += _guarded("cameras", lambda: _check_cameras(hardware))
    for gripper in hardware.grippers:
        findings += _guarded(gripper.name, lambda gripper=gripper: _check_gripper(gripper))
    if hardware.teleop:
        findings += _guarded("teleop", lambda: _check_teleop(hardware))
    return findings


def _guarded(part: str, findings: Any) -> list[Finding]:
    done: list[Finding] = []
    try:
        for finding in findings():
            done.append(finding)
    except RobotRLError as error:
        done.append(Finding(part, "connection", False, "failed", str(error)))
    return done


def _check_files(hardware: Hardware, task: Task | None) -> Iterator[Finding]:
    """The hardware file has been read already, strictly; here it meets the task and the packages."""
    yield Finding(
        "files",
        f"hardware '{hardware.name}'",
        True,
        f"{len(hardware.arms)} arm(s), every field valid",
    )
    if task is not None:
        try:
            config.check_fit(task, hardware)
            for arm in hardware.arms:
                config.tighten(arm.limits, task.limits)
            yield Finding(
                "files", f"limits against task '{task.name}'", True, "start poses and limits fit"
            )
        except RobotRLError as error:
            yield Finding(
                "files", f"limits against task '{task.name}'", False, "do not fit", str(error)
            )
        if hardware.teleop is None:
            advice = (
                "demonstrations and corrections need one: add `teleop: {name: NAME}` to the file"
                " (docs/teleop.md)"
            )
            yield Finding("files", "operator's device", False, "the file names none", advice)
        if task.wander is None and task.cameras:
            advice = f"the task {NO_WANDER} (docs/tasks_and_hardware.md: which tasks may have one)"
            yield Finding("files", "motion after a demonstration", True, "none", advice)
    drivers = [arm.driver for arm in hardware.arms] + [
        gripper.driver for gripper in hardware.grippers
    ]
    drivers += [camera.driver for camera in hardware.cameras]
    for package in dict.fromkeys(
        package for driver in drivers for package in PACKAGES.get(driver, ())
    ):
        try:
            yield Finding("files", f"package {package}", True, metadata.version(package))
        except metadata.PackageNotFoundError:
            advice = (
                f"pip install 'robot_rl[{EXTRAS[package]}]'"
                if package in EXTRAS
                else f"pip install {package}"
            )
            yield Finding("files", f"package {package}", False, "not installed", advice)


def _check_machine() -> Iterator[Finding]:
    """What a 1 kHz loop wants of the machine."""
    realtime = Path("/sys/kernel/realtime")
    if realtime.exists() and realtime.read_text().strip() == "1":
        yield Finding("machine", "kernel", True, f"{os.uname().release}, real-time")
    else:
        advice = (
            "expect a lost cycle now and then; a PREEMPT_RT kernel keeps the tails short"
            " (docs/franka.md)"
        )
        yield Finding("machine", "kernel", True, f"{os.uname().release}, not real-time", advice)
    try:
        before = os.sched_getscheduler(0), os.sched_getparam(0)
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        os.sched_setscheduler(0, *before)
        yield Finding("machine", "real-time priority", True, "permitted")
    except OSError:
        advice = (
            "allow it in /etc/security/limits.conf: rtprio 99 and memlock unlimited"
            " (docs/franka.md)"
        )
        yield Finding("machine", "real-time priority", False, "not permitted", advice)


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


def _check_reach(arm: ArmConfig, task: Task | None) -> Iterator[Finding]:
    """Whether the arm gets wherever its workspace lets it be sent, with the task's tool."""
    facts: ArmFacts | None = config.driver("controllers/arms", arm.driver).facts
    if facts is None or not facts.dh:
        advice = (
            "its driver does not say how the arm is built (docs/another_arm.md): choose a small"
            " workspace"
        )
        yield Finding(arm.name, "reach", True, "not looked at", advice)
        return
    reach = Reach(facts, limits_of(arm, task), np.array(arm.home), tool_of(arm, task))
    missed = reach.unreachable()
    if not missed:
        yield Finding(
            arm.name,
            "reach",
            True,
            "every corner of the workspace, on the edge of the cone as well",
        )
        return
    angle = reach.widest_angle()
    remedy = (
        f"workspace_angle {angle:.2f} would do"
        if angle >= 0.0
        else "even straight: pull this corner in"
    )
    worst = max(missed, key=lambda miss: miss.missed_m + 0.1 * miss.missed_rad)
    found = (
        f"{len(missed)} poses at the workspace's corners are out of reach; the furthest: {worst}"
    )
    advice = (
        f"a target there is never met, and the arm stands stretched. {remedy}; or a smaller box, or"
        " another home"
    )
    yield Finding(arm.name, "reach", False, found, advice)


def _check_arm(
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
        yield Finding(
            name, "connection", True, f"{kind}, {info.joints} joints, driver {arm.driver}"
        )
        if client.refresh().fault:
            yield _check_fault(name, client.refresh())
            return
        if task is not None:
            yield _set_up(client, arm, task, own=serving is None)
        yield from _check_timing(arm, client, seconds)
        state = client.refresh()
        yield _check_fault(name, state)
        yield from _check_stance(arm, task, state)


def _serving(arm: ArmConfig) -> ArmClient | None:
    """A client of the arm's process, if one runs already: whoever started it may be using it."""
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
        return Finding(arm.name, what, True, "not tried", advice)
    try:
        client.configure(
            tool_of(arm, task),
            task.compliance,
            limits_of(arm, task),
            task.leash_translation,
            task.leash_rotation,
        )
    except (ConfigError, DeviceError) as error:
        return Finding(arm.name, what, False, "refused", str(error))
    return Finding(arm.name, what, True, "tool, compliance, limits and leash are taken")


def _check_fault(name: str, state: ArmState) -> Finding:
    if not state.fault:
        return Finding(name, "error state", True, "no fault")
    advice = (
        f"{state.reason}. Look at the arm, mend that, then start again: a fault is never cleared by"
        " itself"
    )
    return Finding(name, "error state", False, state.fault.name, advice)


def _check_timing(arm: ArmConfig, client: ArmClient, seconds: float) -> Iterator[Finding]:
    """The loop's rhythm while somebody asks for states at 100 Hz, how long those take, and what the
    robot gets.
    """
    name, timing = arm.name, measure_timing(client, seconds)
    rate, late, lost = timing["rate_hz"], timing["late_share"], timing["lost_ticks"]
    found = f"{rate:.1f} Hz over {seconds:g} s, {100 * late:.1f} % of ticks late, {lost:.0f} lost"
    advice = "close other programs, allow real-time priority, give the loop a core (loop_cpu)"
    right = rate >= LEAST_RATE_SHARE * timing["nominal_hz"] and late <= LARGEST_LATE_SHARE
    yield Finding(name, "loop", right, found, "" if right else advice)
    p99 = timing["pose_round_trip_ms_p99"]
    right = p99 <= LARGEST_ROUND_TRIP_MS
    found = f"{timing['pose_round_trip_ms_p50']:.2f} ms, p99 {p99:.2f} ms"
    yield Finding(
        name,
        "round trip of a pose",
        right,
        found,
        "" if right else "the machine is busy: close other programs",
    )
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
        yield Finding(name, "communication with the robot", right, found, "" if right else advice)


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
    yield Finding(
        arm.name,
        "workspace",
        inside,
        found + (", inside" if inside else ", outside"),
        "" if inside else advice,
    )
    margin = np.minimum(state.q - limits.joint_low, limits.joint_high - state.q)
    right = bool((margin > limits.joint_margin).all())
    found = (
        f"joint {int(margin.argmin()) + 1} is {margin.min():.2f} rad from its limit, the nearest"
    )
    yield Finding(
        arm.name, "joints", right, found, "" if right else "guide the arm to another posture"
    )
    force = float(np.linalg.norm(state.wrench_base_tcp[:3]))
    right = force < LARGEST_FORCE_AT_REST
    advice = (
        "does it touch anything? else `load` in the hardware file, or the end effector in Desk, is"
        " wrong"
    )
    yield Finding(arm.name, "force at rest", right, f"{force:.1f} N", "" if right else advice)


def _check_teleop(hardware: Hardware) -> Iterator[Finding]:
    """Whether the operator's device is there and may be opened; `robot-rl teleop` shows what it
    says.
    """
    assert hardware.teleop is not None, "asked of a bench that has one"
    if not config.driver("teleop", hardware.teleop.name).is_person:
        return
    operator = open_operator(hardware)
    operator.close()
    yield Finding("teleop", "device", True, operator.device.name)


def _check_cameras(hardware: Hardware) -> Iterator[Finding]:
    """Every camera at once, as a run would read them."""
    for camera in hardware.cameras:
        if is_simulated(camera):
            problem = config.driver("cameras", camera.driver).problem()
            yield Finding(camera.name, "camera", not problem, "drawn by the simulation", problem)
    seen, problems = camera_check.look(hardware.cameras, CAMERA_S)
    for name, problem in problems.items():
        yield Finding(name, "camera", False, "failed", problem)
    for view in seen:
        name, (height, width) = view.camera.name, view.picture.shape[:2]
        if not view.is_measured:
            yield Finding(
                name, "frames", True, f"{width} x {height}, rate and age are not measured"
            )
            continue
        if view.port:
            is_slow = view.port.startswith(("USB 1", "USB 2"))
            advice = (
                "fewer modes, and frames that fail: take a USB 3 port (blue) and a short USB 3"
                " cable, no USB 2 hub"
            )
            yield Finding(name, "port", True, view.port, advice if is_slow else "")
        right = view.rate_hz >= LEAST_FRAME_SHARE * view.asked_hz
        advice = "the cable, the port (USB 3?), or too many cameras on one controller"
        yield Finding(
            name,
            "frames",
            right,
            f"{width} x {height}, {view.rate_hz:.1f} Hz",
            "" if right else advice,
        )
        right = view.age_ms(99) <= 1e3 * LARGEST_AGE_SHARE * view.max_age_s
        found = f"{view.age_ms(50):.0f} ms, p99 {view.age_ms(99):.0f} ms"
        advice = (
            f"near the limit of {view.max_age_s:g} s: frames will be missing now and then; see"
            " above, or raise it"
        )
        yield Finding(name, "age of a frame", right, found, "" if right else advice)
        automatic = [
            control for control in view.controls if view.camera.options.get(control) is None
        ]
        found = (
            ", ".join(f"{control} {value:g}" for control, value in view.controls.items())
            or "no controls"
        )
        advice = (
            f"automatic: {', '.join(automatic)}. Lock them, or pictures change with the light"
            " (docs/cameras.md)"
        )
        yield Finding(name, "exposure, white balance", True, found, advice if automatic else "")


def _check_gripper(gripper: GripperConfig) -> Iterator[Finding]:
    """What the hand says of itself: nothing is moved."""
    process = GripperProcess(gripper)
    try:
        reading = process.state().reading
        right = reading.max_width_m >= LEAST_GRIPPER_WIDTH
        found = (
            f"{1e3 * reading.width_m:.0f} of {1e3 * reading.max_width_m:.0f} mm open"
            + ", holds" * reading.grasped
        )
        advice = "the hand does not know its range: home it, with nothing between the fingers"
        yield Finding(gripper.name, "gripper range", right, found, "" if right else advice)
    finally:
        process.close()


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
    (address,) = free_addresses(1)
    arguments = ["arm", hardware.name, "--arm", arm.name, "--clock", "real", "--address", address]
    with tempfile.TemporaryDirectory() as folder, Supervisor(Path(folder)) as processes:
        processes.start(arm.name, arguments + (["--task", task.name] if task else []))
        client = first_answer(arm.name, address, Path(folder) / f"{arm.name}.log", processes.check)
        try:
            yield client
        finally:
            client.close()


def table(name: str, findings: Sequence[Finding]) -> Any:
    """The findings as a table for a terminal."""
    from rich.table import Table

    out = Table(
        title=f"{name}: " + ("ready" if all(f.right for f in findings) else "not ready yet")
    )
    for heading in ("part", "what", "", "found", "what to do"):
        out.add_column(heading)
    for f in findings:
        out.add_row(f.part, f.what, good("right") if f.right else bad("mend"), f.found, f.advice)
    return out


def as_json(name: str, findings: Sequence[Finding]) -> dict[str, Any]:
    """The findings as plain data."""
    ready = all(finding.right for finding in findings)
    return {"hardware": name, "ready": ready, "findings": [asdict(finding) for finding in findings]}


# --------------------------------------------------------------------------------------------- pose


SAME_RAD = 0.002
"""Orientations that are nearer to each other are one."""
TURN_MARGIN_RAD = 0.1
"""By how much the cone of orientations is wider than the tool was turned."""


class PoseWatcher:
    """Measures an arm that somebody guides by hand: its pose now, and the box that its tool has
    been in.
    """

    def __init__(self, arm: ArmConfig, task: Task | None):
        tool = tool_of(arm, task)
        self._arm = open_driver(
            replace(arm, pose_flange_tcp=tuple(tool), load=None), task.scene if task else None
        )
        try:
            self._arm.set_tool(tool)
        except BaseException:
            self._arm.close()
            raise
        self._low, self._high = np.full(3, np.inf), np.full(3, -np.inf)
        self._quats: list[list[float]] = []  # the orientations that differ
        self._limits = arm.limits
        self._q: Array = np.array(arm.home)

    def look(self) -> Array:
        """The pose `(7,)` of the tool in the base, now."""
        reading = self._arm.read()
        pose: Array = reading.pose.copy()
        self._q = reading.q.copy()
        self._arm.rest()  # nothing is answered here: the next look measures anew
        self._low, self._high = np.minimum(self._low, pose[:3]), np.maximum(self._high, pose[:3])
        quat: list[float] = pose[3:].tolist()
        if not self._quats or quat_angle(self._quats[-1], quat) > SAME_RAD:
            self._quats.append(quat)
        return pose

    @property
    def box(self) -> tuple[Array, Array]:
        """Where the tool has been: the lowest and the highest x, y, z [m]."""
        return self._low, self._high

    def lines(self, pose: Array, margin_m: float) -> str:
        """What a task file says of a start at `pose` and a workspace of where the tool has been,
        and a margin.

        And of a goal at `pose`, and the posture of the last look, as a hardware file's `home`.
        """
        low, high = self._low - margin_m, self._high + margin_m
        quat: list[float] = pose[3:].tolist()
        turned = max(quat_angle(other, quat) for other in self._quats)
        room = (
            self._limits.workspace_angle - quat_angle(self._limits.workspace_quat, quat) - SAME_RAD
        )
        angle = max(turned, min(turned + TURN_MARGIN_RAD, room))
        return (
            "# start: where the tool stood at the end; half-widths of the range about it, in m and"
            " rad: choose them\n"
            f"start=(StartPose(pose_base_tool={_numbers(pose)},\n"
            "                 translation=(0.0, 0.0, 0.0), rotation=(0.0, 0.0, 0.0)),),\n"
            "# limits: where the tool has been, and how far it was turned away from the start, with"
            " a margin\n"
            f'limits={{"workspace_low": {_numbers(low)}, "workspace_high": {_numbers(high)},\n'
            f'        "workspace_quat": {_numbers(pose[3:])}, "workspace_angle": {angle:.4f}}},\n'
            "# if the task is done where the tool stood at the end:\n"
            f'# reward=Use("pose", {{"goals": ({_numbers(pose)},), "translation_m": 0.002,'
            ' "rotation_rad": 0.05}),\n'
            "# hardware file, where `max_drift` of a task leads back to: home:"
            f" [{_numbers(self._q)[1:-1]}]"
        )

    def close(self) -> None:
        self._arm.close()


def _numbers(values: Array) -> str:
    return "(" + ", ".join(f"{value:.5f}" for value in values + 0.0) + ")"
