"""Verbs about a bench: its arm, cameras, gripper and operator's device, and what they left behind."""

import math
import sys
import time
from pathlib import Path
from typing import Annotated

import tyro

from robot_rl import config
from robot_rl.cli.arguments import (
    A_BENCH,
    A_RUN,
    HardwareName,
    Json,
    choose_arm,
    choose_arms,
    json_object,
    print_json,
    print_problems,
    read_files,
)
from robot_rl.cli.runs import begin_process
from robot_rl.config.run_folder import RunFolder, run_path
from robot_rl.machine.clock import ClockKind
from robot_rl.machine.validation import nearest
from robot_rl.types import ConfigError

WhichArm = Annotated[str, tyro.conf.arg(help="Which of the bench's arms; the first, if not said.")]
MaybeHardware = Annotated[
    tyro.conf.Positional[str],
    tyro.conf.arg(metavar="HARDWARE", help=f"{A_BENCH}; without one, what is plugged in."),
]
RunOrHardware = Annotated[
    tyro.conf.Positional[str],
    tyro.conf.arg(metavar="RUN | HARDWARE", help=f"{A_RUN}; or {A_BENCH.lower()}."),
]
Crop = Annotated[tuple[str, int, int, int, int] | None, tyro.conf.arg(metavar="NAME X Y W H")]
FileName = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="FILE")]


def arm(
    hardware: HardwareName,
    arm: WhichArm = "",
    task: str = "",
    run: str = "",
    clock: ClockKind = "real",
    address: tuple[str, ...] = (),
    blackbox: str = "",
) -> None:
    """The process of an arm, or of all in one world: their loops.

    It serves them, each at its own address.

    Args:
        task: A task in whose scene a simulated arm stands.
        run: A run whose own task is meant, and its own hardware if that has this name, instead of
            the files.
        clock: Lockstep lets simulated time stand still between targets.
        address: Where to listen, instead of the hardware file's addresses: one for each arm.
        blackbox: Folder for black boxes; ~/.local/state/robot_rl/blackbox, if not said.
    """
    from robot_rl.controllers.server import serve

    begin_process()
    folder = RunFolder(run_path(run)) if run else None
    if folder is not None and folder.settings.hardware == hardware:
        bench = folder.load_hardware()
    else:
        bench = config.load_hardware(hardware)
    config.require_machine(bench)
    meant = None
    if folder is not None:
        meant = folder.load_task()
    elif task:
        meant = read_files(task, hardware)[0]
    serve(
        choose_arms(bench, arm, address),
        scene=config.scene_of(meant, bench),
        clock=clock,
        blackbox=Path(blackbox) if blackbox else None,
    )


def check(
    hardware: MaybeHardware = "",
    task: str = "",
    seconds: float = 10.0,
    json: Json = False,
    driver: str = "",
    options: str = "{}",
) -> int:
    """Is this bench ready? What is right about it, and what to mend.

    Connection, timing, errors, limits, gripper. The arm is held where it stands; nothing else is
    commanded. The exit code is 1 if something is to be mended.

    Args:
        task: A task whose limits and start poses are to fit as well.
        seconds: For how long the loop's rhythm is watched.
        driver: Instead of a bench: whether a driver keeps the contract of its kind, such as
            rewards/mine, cameras/opencv, arms/package.module:Class.
        options: The driver's options as JSON, such as '{"height_m": 0.3}'.
    """
    from robot_rl.machine.compiled import COMPILES, is_first_time
    from robot_rl.machine.terminal import terminal
    from robot_rl.tools import check as bench
    from robot_rl.tools.findings import as_json, table

    if not (hardware or driver):
        raise ConfigError("name a file of hardware_configs/, or a driver as --driver rewards/mine")
    if is_first_time():
        print(COMPILES, file=sys.stderr)
    if driver:
        from robot_rl.tools.contracts import check_driver, parse_driver

        findings = check_driver(*parse_driver(driver), json_object(options, "--options"))
    else:
        read = config.load_hardware(hardware)
        findings = bench.check(read, read_files(task, hardware)[0] if task else None, seconds)
    if json:
        print_json(as_json(driver or hardware, findings))
    else:
        terminal().print(table(driver or hardware, findings))
    return int(not all(finding.right for finding in findings))


def cameras(
    hardware: MaybeHardware = "",
    crop: Crop = None,
    task: str = "",
    seconds: float = 3.0,
    out: str = "cameras.png",
    json: Json = False,
) -> int:
    """Which cameras are plugged in; what those of a hardware file see.

    They are drawn in one picture. The exit code is 1 if one of them has a problem.

    Args:
        crop: The part of a camera's picture that the policy is to see, in pixels: try it, and print
            its lines.
        task: A task whose scene simulated cameras see; without one, an empty table.
        seconds: For how long rate and age are measured.
        out: File of the picture.
    """
    from robot_rl.cameras import is_simulated, lines_for_file
    from robot_rl.machine.terminal import terminal
    from robot_rl.tools import camera_check

    if not hardware:
        found, problems = camera_check.find_cameras()
        if json:
            print_json({"found": [vars(camera) for camera in found]})
        else:
            print(camera_check.listing(found))
        print_problems(problems)
        return 0
    bench = config.load_hardware(hardware)
    configs = {camera.name: camera for camera in bench.cameras}
    if crop is not None and crop[0] not in configs:
        known = nearest(crop[0], configs)
        raise ConfigError(f"camera {crop[0]!r} is not in hardware {hardware!r}; it has: {known}")
    seen, complaints = camera_check.draw(bench, config.load_task(task) if task else None)
    live = [camera for camera in bench.cameras if not is_simulated(camera)]
    if live:
        looked, also = camera_check.look(live, seconds)
        seen, complaints = seen + looked, complaints | also
    picture = (
        str(camera_check.write_sheet(Path(out), seen, {crop[0]: crop[1:]} if crop else {}))
        if seen
        else None
    )
    if json:
        print_json({
            "cameras": [view.to_json() for view in seen],
            "problems": complaints,
            "picture": picture,
        })
    else:
        terminal().print(camera_check.table(hardware, seen))
        print(picture or "there is nothing to see")
    if crop is not None:
        print(lines_for_file(configs[crop[0]], crop=crop[1:]))
    print_problems(complaints.values())
    return int(bool(complaints))


def pose(
    hardware: HardwareName,
    arm: WhichArm = "",
    task: str = "",
    seconds: float = 0.0,
    margin_m: float = 0.01,
) -> None:
    """Guide the arm by hand; its pose and its room are printed.

    Guide it through all the room it may use, then to where episodes start; end with
    Ctrl-C. Lines for a task file are printed: the start is where the tool stood at
    the end. Guided to where the task is done instead, the same pose is the goal of
    the reward `pose`.

    Args:
        task: A task whose tool is meant; without one, the TCP of the hardware file.
        seconds: End by itself after so long; 0 waits for Ctrl-C.
        margin_m: By how much the workspace is larger than where the tool has been.
    """
    from robot_rl.tools.pose import PoseWatcher

    bench = config.load_hardware(hardware)
    chosen = choose_arm(bench, arm)
    watcher = PoseWatcher(chosen, config.load_task(task) if task else None, bench)
    until = time.monotonic() + (seconds or math.inf)
    now = watcher.look()
    try:
        while time.monotonic() < until:
            now = watcher.look()
            if sys.stderr.isatty():
                print(
                    "\r" + "  ".join(f"{x:8.4f}" for x in now), end="", file=sys.stderr, flush=True
                )
            time.sleep(0.05)
    except KeyboardInterrupt:
        print(file=sys.stderr)
    finally:
        watcher.close()
    print(watcher.lines(now, margin_m))


def teleop(hardware: MaybeHardware = "", seconds: float = 0.0) -> None:
    """Which operator's devices are plugged in; what one says, live.

    Axes, buttons and clutch of the hardware file's device are shown in the terminal. No arm is
    connected, none moves; end with Ctrl-C.

    Args:
        seconds: End by itself after so long; 0 waits for Ctrl-C.
    """
    from robot_rl.machine.terminal import terminal
    from robot_rl.tools.teleop_monitor import listing, watch

    if hardware:
        watch(config.load_hardware(hardware), seconds or math.inf, terminal())
        return
    found, problems = listing()
    print(found)
    print_problems(problems)


def console(what: RunOrHardware, host: str = "127.0.0.1", port: int = 8080) -> None:
    """The operator's page in the browser: views, arm, curves, gizmo.

    It is of a run, or of a bench alone, and may come and go: nothing waits for it. A browser
    needs the token in the printed link. It is this user's, for all consoles; another may be said in
    ROBOT_RL_CONSOLE_TOKEN.

    Args:
        host: Where to listen; this machine alone can come to 127.0.0.1, nothing is encrypted on the
            way to others.
        port: Where to listen; 0 for any that is free.
    """
    from robot_rl.console.model import Sources
    from robot_rl.console.serve import Console
    from robot_rl.console.token import console_token
    from robot_rl.machine.signals import StopRequest

    path = run_path(what)
    sources = Sources.of_run(RunFolder(path)) if path.exists() else Sources.of_bench(_bench(what))
    with StopRequest() as stop:
        page = Console(sources, host=host, port=port, token=console_token())
        print(f"{sources.title}: {page.url}", flush=True)
        try:
            page.run(stop.is_set)
        finally:
            page.close()


def _bench(what: str) -> config.Hardware:
    """The bench of this name, where there is no run."""
    try:
        return config.load_hardware(what)
    except ConfigError as error:
        raise ConfigError(f"there is no run '{what}', and no bench: {error}") from error


def blackbox(file: FileName, out: str = "", seconds: float = 10.0) -> None:
    """Draw what an arm did in the seconds around a fault, as a PNG.

    Args:
        file: A black box; the arm's log names it at each fault.
        out: File of the picture; beside the file, if not said.
        seconds: How much is drawn before the event; the file holds 30 s.
    """
    from robot_rl.controllers.recorder import load
    from robot_rl.tools.blackbox import describe, draw

    recording = load(Path(file))
    print(describe(recording))
    print(draw(recording, Path(out) if out else Path(file).with_suffix(".png"), seconds))
