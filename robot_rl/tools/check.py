"""Is this bench ready? Everything that a set-up needs, tried one after the other, with what to do
where it is not.

`robot-rl check HARDWARE` starts the arm's process as a run would, and sets it up for the task: the
arm is held where it stands, and nothing else is commanded. An arm's process that runs already
serves somebody, whose set-up stays as it is.
"""

import os
from collections.abc import Iterator
from dataclasses import replace
from importlib import metadata
from pathlib import Path

from robot_rl import config
from robot_rl.cameras import is_simulated
from robot_rl.config import GripperConfig, Hardware, Task
from robot_rl.controllers.gripper import GripperProcess
from robot_rl.operator.mapping import open_operator
from robot_rl.tools import camera_check
from robot_rl.tools.arm_check import check_arm, check_reach
from robot_rl.tools.delay_check import check_delay
from robot_rl.tools.findings import Finding, fine, guarded, judged, wrong
from robot_rl.types import GripperReading, RobotRLError

PACKAGES = {"franka": ("pylibfranka",), "fci_sim": ("pylibfranka", "mujoco"), "mujoco": ("mujoco",),
            "realsense": ("pyrealsense2",)}  # fmt: skip
"""By driver: what it needs installed."""
EXTRAS = {"pylibfranka": "franka", "pyrealsense2": "realsense"}
"""By package: the extra that brings it."""

LEAST_GRIPPER_WIDTH = 0.01
GRIPPER_TOLERANCE = 0.003
LEAST_FRAME_SHARE = 0.9
LARGEST_AGE_SHARE = 0.5
"""What is right: [m] open; [m] by which a hand may miss the widths of the file; share of the frames
that a camera was asked for; p99 of a frame's age as a share of how old it may be.
"""

CAMERA_S = 3.0
"""For how long the cameras are watched."""


def check(hardware: Hardware, task: Task | None = None, seconds: float = 10.0) -> list[Finding]:
    """Try everything. Nothing raises: what does not work is a finding."""
    findings = list(_check_files(hardware, task))
    findings += _check_machine()
    for arm in hardware.arms:
        findings += guarded(arm.name, check_reach(arm, task))
        findings += guarded(arm.name, check_arm(hardware, arm, task, seconds))
    if hardware.cameras:
        findings += guarded("cameras", _check_cameras(hardware, task))
    for gripper in hardware.grippers:
        findings += guarded(gripper.name, _check_gripper(gripper))
    if hardware.teleop:
        findings += guarded("teleop", _check_teleop(hardware))
    return findings


def _check_files(hardware: Hardware, task: Task | None) -> Iterator[Finding]:
    """The hardware file has been read already, strictly; here it meets the task and the packages."""
    name = f"hardware '{hardware.name}'"
    yield fine("files", name, f"{len(hardware.arms)} arm(s), every field valid")
    if task is not None:
        yield _check_fit(hardware, task)
        if hardware.teleop is None:
            advice = (
                "demonstrations and corrections need one: add `teleop: {name: NAME}` to the file"
                " (docs/teleop.md)"
            )
            yield wrong("files", "operator's device", "the file names none", advice)
        if task.wander is None and task.cameras:
            hint = f"the task {config.NO_WANDER} (docs/tasks_and_hardware.md: which tasks may have one)"
            yield fine("files", "motion after a demonstration", "none", hint)
    drivers = [arm.driver for arm in hardware.arms]
    drivers += [gripper.driver for gripper in hardware.grippers]
    drivers += [camera.driver for camera in hardware.cameras]
    for package in dict.fromkeys(name for driver in drivers for name in PACKAGES.get(driver, ())):
        yield _check_package(package)


def _check_fit(hardware: Hardware, task: Task) -> Finding:
    what = f"limits against task '{task.name}'"
    try:
        config.check_fit(task, hardware)
        for arm in hardware.arms:
            config.tighten(arm.limits, task.limits)
    except RobotRLError as error:
        return wrong("files", what, "do not fit", str(error))
    return fine("files", what, "start poses and limits fit")


def _check_package(package: str) -> Finding:
    extra = f"'robot_rl[{EXTRAS[package]}]'" if package in EXTRAS else package
    try:
        return fine("files", f"package {package}", metadata.version(package))
    except metadata.PackageNotFoundError:
        return wrong("files", f"package {package}", "not installed", f"pip install {extra}")


def _check_machine() -> Iterator[Finding]:
    """What a 1 kHz loop wants of the machine."""
    realtime = Path("/sys/kernel/realtime")
    if realtime.exists() and realtime.read_text().strip() == "1":
        yield fine("machine", "kernel", f"{os.uname().release}, real-time")
    else:
        advice = (
            "expect a lost cycle now and then; a PREEMPT_RT kernel keeps the tails short"
            " (docs/franka.md)"
        )
        yield fine("machine", "kernel", f"{os.uname().release}, not real-time", advice)
    try:
        before = os.sched_getscheduler(0), os.sched_getparam(0)
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        os.sched_setscheduler(0, *before)
        yield fine("machine", "real-time priority", "permitted")
    except OSError:
        advice = (
            "allow it in /etc/security/limits.conf: rtprio 99 and memlock unlimited"
            " (docs/franka.md)"
        )
        yield wrong("machine", "real-time priority", "not permitted", advice)


def _check_teleop(hardware: Hardware) -> Iterator[Finding]:
    """Whether the operator's device is there and may be opened; `robot-rl teleop` shows what it
    says.
    """
    assert hardware.teleop is not None, "asked of a bench that has one"
    for use in (hardware.teleop, *hardware.more_teleop):
        if config.driver("teleop", use.name).is_person:
            operator = open_operator(replace(hardware, teleop=use, more_teleop=()))
            operator.close()
            yield fine("teleop", "device", operator.device.name)


def _check_cameras(hardware: Hardware, task: Task | None = None) -> Iterator[Finding]:
    """Every camera at once, as a run would read them; and what it is late by all that takes."""
    for camera in hardware.cameras:
        if is_simulated(camera):
            problem = config.driver("cameras", camera.driver).problem()
            yield judged(camera.name, "camera", not problem, "drawn by the simulation", problem)
    seen, problems = camera_check.look(hardware.cameras, CAMERA_S)
    for name, problem in problems.items():
        yield wrong(name, "camera", "failed", problem)
    for view in seen:
        yield from _check_view(view)
    if task is not None and task.cameras and not problems:
        yield from check_delay(hardware, task, seen)


def _check_view(view: camera_check.View) -> Iterator[Finding]:
    """Port, rate, age and controls of one camera that was looked through."""
    name, (height, width) = view.camera.name, view.picture.shape[:2]
    size = f"{width} x {height}"
    if not view.is_measured:
        yield fine(name, "frames", f"{size}, rate and age are not measured")
        return
    if view.port:
        slow = (
            "fewer modes, and frames that fail: take a USB 3 port (blue) and a short USB 3"
            " cable, no USB 2 hub"
        )
        is_slow = view.port.startswith(("USB 1", "USB 2"))
        yield fine(name, "port", view.port, slow if is_slow else "")
    right = view.rate_hz >= LEAST_FRAME_SHARE * view.asked_hz
    advice = "the cable, the port (USB 3?), or too many cameras on one controller"
    yield judged(name, "frames", right, f"{size}, {view.rate_hz:.1f} Hz", advice)
    right = view.age_ms(99) <= 1e3 * LARGEST_AGE_SHARE * view.max_age_s
    found = f"{view.age_ms(50):.0f} ms, p99 {view.age_ms(99):.0f} ms"
    advice = (
        f"near the limit of {view.max_age_s:g} s: frames will be missing now and then; see"
        " above, or raise it"
    )
    yield judged(name, "age of a frame", right, found, advice)
    automatic = [control for control in view.controls if view.camera.options.get(control) is None]
    found = ", ".join(f"{control} {value:g}" for control, value in view.controls.items())
    hint = (
        f"automatic: {', '.join(automatic)}. Lock them, or pictures change with the light"
        " (docs/cameras.md)"
    )
    yield fine(name, "exposure, white balance", found or "no controls", hint if automatic else "")


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
        yield judged(gripper.name, "gripper range", right, found, advice)
        yield _check_gripper_range(gripper, reading)
    finally:
        process.close()


def _check_gripper_range(gripper: GripperConfig, reading: GripperReading) -> Finding:
    """Whether the widths of the file are some that this hand reads: one that never comes to
    `open_m` is never seen as open, and one below `closed_m` or beyond `open_m` is off the scale.
    """
    found = (
        f"{1e3 * gripper.closed_m:g} to {1e3 * gripper.open_m:g} mm; it reads"
        f" {1e3 * reading.width_m:.1f}, at most {1e3 * reading.max_width_m:.1f} mm"
    )
    reaches = gripper.open_m <= reading.max_width_m + GRIPPER_TOLERANCE
    low, high = gripper.closed_m - GRIPPER_TOLERANCE, gripper.open_m + GRIPPER_TOLERANCE
    advice = (
        f"the hand never reads {1e3 * gripper.open_m:g} mm: set open_m to what it reads when it is"
        " wide open (in m), or home it"
        if not reaches
        else "open_m and closed_m are to be what it reads when it is open and when its fingers meet"
    )
    right = reaches and low <= reading.width_m <= high
    return judged(gripper.name, "open_m, closed_m", right, found, advice)
