"""Verbs about a bench: its arm, cameras, gripper and operator's device, and what they left behind."""

import logging
import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import tyro

from robot_rl import config
from robot_rl.cli.arguments import HardwareName, choose_arm, json_object, parse, print_json, read_files, run_path
from robot_rl.clock import ClockKind
from robot_rl.types import ConfigError
from robot_rl.validation import nearest


def arm(arguments: Sequence[str]) -> None:
    """The process of one arm: the control loop and the socket it serves."""
    from robot_rl.controllers.server import serve
    from robot_rl.run_folder import RunFolder
    from robot_rl.transport.endpoint import allow_many_files

    def arm(
        hardware: HardwareName,
        arm: str = "",
        task: str = "",
        run: str = "",
        clock: ClockKind = "real",
        address: str = "",
        blackbox: str = "",
    ) -> None:
        """Serve one arm of a hardware file.

        Args:
            hardware: a file of hardware_configs/.
            arm: which of its arms; the first, if not said.
            task: whose scene a simulated arm stands in.
            run: whose task is meant, as it holds it, and its hardware, if that has this name, instead of the files.
            clock: lockstep lets simulated time stand still between targets.
            address: where to listen, instead of the hardware file's address.
            blackbox: folder for black boxes; ~/.local/state/robot_rl/blackbox, if not said.
        """
        folder = RunFolder(run_path(run)) if run else None
        is_its_own = folder is not None and folder.settings.hardware == hardware
        read = folder.load_hardware() if folder and is_its_own else config.load_hardware(hardware)
        config.require_machine(read)
        meant = folder.load_task() if folder else read_files(task, hardware)[0] if task else None
        scene = meant.scene if meant else None
        chosen = choose_arm(read, arm, address)
        serve(chosen, scene=scene, clock=clock, blackbox=Path(blackbox) if blackbox else None)

    allow_many_files()
    logging.getLogger().setLevel(logging.INFO)
    parse("arm", arm, arguments)


def check(arguments: Sequence[str]) -> None:
    """Is this bench ready? Connection, timing, errors, limits, gripper: what is right, and what to mend."""
    from robot_rl import check as bench
    from robot_rl.compiled import COMPILES, is_first_time
    from robot_rl.terminal import terminal

    def check(
        hardware: HardwareName = "",
        task: str = "",
        seconds: float = 10.0,
        json: bool = False,
        driver: str = "",
        options: str = "{}",
    ) -> int:
        """Is this bench ready? The arm is held where it stands; nothing else is commanded.

        Args:
            hardware: a file of hardware_configs/; without one, `driver` is given.
            task: whose limits and start poses are to fit as well.
            seconds: for how long the loop's rhythm is watched.
            json: one JSON object on stdout instead of a table.
            driver: instead of a bench, whether a driver keeps the contract of its kind: rewards/mine, cameras/opencv,
                arms/package.module:Class.
            options: the driver's options as JSON: '{"height_m": 0.3}'.
        """
        if not (hardware or driver):
            raise ConfigError("name a file of hardware_configs/, or a driver as --driver rewards/mine")
        if is_first_time():
            print(COMPILES, file=sys.stderr)
        if driver:
            from robot_rl.contracts import check_driver, parse_driver

            findings = check_driver(*parse_driver(driver), json_object(options, "--options"))
        else:
            read = config.load_hardware(hardware)
            findings = bench.check(read, read_files(task, hardware)[0] if task else None, seconds)
        if json:
            print_json(bench.as_json(driver or hardware, findings))
        else:
            terminal().print(bench.table(driver or hardware, findings))
        return sum(not finding.right for finding in findings)

    if parse("check", check, arguments):
        raise SystemExit(1)


def cameras(arguments: Sequence[str]) -> None:
    """Which cameras are plugged in; what those of a hardware file see, as a picture; a crop as lines for the file."""
    from robot_rl import views
    from robot_rl.cameras import is_simulated, lines_for_file
    from robot_rl.terminal import terminal

    def cameras(
        hardware: HardwareName = "",
        crop: Annotated[tuple[str, int, int, int, int] | None, tyro.conf.arg(metavar="NAME X Y W H")] = None,
        task: str = "",
        seconds: float = 3.0,
        out: str = "cameras.png",
        json: bool = False,
    ) -> int:
        """List the cameras that are plugged in, or look through those of a hardware file.

        Args:
            hardware: a file of hardware_configs/; without one, what is plugged in.
            crop: the part of a camera's picture that the policy is to see, in pixels: try it, and print its lines.
            task: whose scene simulated cameras see; without one, an empty table.
            seconds: for how long rate and age are measured.
            out: the picture.
            json: one JSON object on stdout instead of a table.
        """
        if not hardware:
            found, problems = views.find_cameras()
            print_json({"found": [vars(camera) for camera in found]}) if json else print(views.listing(found))
            print(*problems, sep="\n", end="\n" * bool(problems), file=sys.stderr)
            return 0
        bench = config.load_hardware(hardware)
        configs = {camera.name: camera for camera in bench.cameras}
        if crop is not None and crop[0] not in configs:
            known = nearest(crop[0], configs)
            raise ConfigError(f"camera {crop[0]!r} is not in hardware {hardware!r}; it has: {known}")
        seen, complaints = views.draw(bench, config.load_task(task) if task else None)
        live = [camera for camera in bench.cameras if not is_simulated(camera)]
        if live:
            looked, also = views.look(live, seconds)
            seen, complaints = seen + looked, complaints | also
        picture = str(views.write_sheet(Path(out), seen, {crop[0]: crop[1:]} if crop else {})) if seen else None
        if json:
            print_json({"cameras": [view.to_json() for view in seen], "problems": complaints, "picture": picture})
        else:
            terminal().print(views.table(hardware, seen))
            print(picture or "there is nothing to see")
        if crop is not None:
            print(lines_for_file(configs[crop[0]], crop=crop[1:]))
        print(*complaints.values(), sep="\n", end="\n" * bool(complaints), file=sys.stderr)
        return len(complaints)

    if parse("cameras", cameras, arguments):
        raise SystemExit(1)


def pose(arguments: Sequence[str]) -> None:
    """Guide the arm by hand: its pose and the box it has been in, as lines for a task file."""
    from robot_rl.check import PoseWatcher

    def pose(
        hardware: HardwareName, arm: str = "", task: str = "", seconds: float = 0.0, margin_m: float = 0.01
    ) -> None:
        """Guide the arm by hand through all the room it may use, then to where episodes start; end with Ctrl-C.

        What is printed as the start is where the tool stood at the end. Guided to where the task is done instead, the
        same pose is the goal of the reward `pose`.

        Args:
            hardware: a file of hardware_configs/.
            arm: which of its arms; the first, if not said.
            task: whose tool is meant; without one, the TCP of the hardware file.
            seconds: end by itself after so long; 0 waits for Ctrl-C.
            margin_m: by how much the workspace is larger than where the tool has been.
        """
        chosen = choose_arm(config.load_hardware(hardware), arm, "")
        watcher = PoseWatcher(chosen, config.load_task(task) if task else None)
        until = time.monotonic() + (seconds or math.inf)
        now = watcher.look()
        try:
            while time.monotonic() < until:
                now = watcher.look()
                if sys.stderr.isatty():
                    print("\r" + "  ".join(f"{x:8.4f}" for x in now), end="", file=sys.stderr, flush=True)
                time.sleep(0.05)
        except KeyboardInterrupt:
            print(file=sys.stderr)
        finally:
            watcher.close()
        print(watcher.lines(now, margin_m))

    parse("pose", pose, arguments)


def teleop(arguments: Sequence[str]) -> None:
    """Which operator's devices are plugged in; what that of a hardware file says, live. No arm moves."""
    from robot_rl.dry_run import listing, watch
    from robot_rl.terminal import terminal

    def teleop(hardware: HardwareName = "", seconds: float = 0.0) -> None:
        """Try the operator's device: axes, buttons, clutch, live in the terminal. No arm is connected; end with Ctrl-C.

        Args:
            hardware: a file of hardware_configs/; without one, what is plugged in.
            seconds: end by itself after so long; 0 waits for Ctrl-C.
        """
        if not hardware:
            found, problems = listing()
            print(found)
            print(*problems, sep="\n", end="\n" * bool(problems), file=sys.stderr)
            return
        watch(config.load_hardware(hardware), seconds or math.inf, terminal())

    parse("teleop", teleop, arguments)


def console(arguments: Sequence[str]) -> None:
    """The operator's page in the browser: views, arm, curves, buttons, gizmo."""
    from robot_rl.console.serve import Console
    from robot_rl.console.token import console_token
    from robot_rl.console.watch import Sources
    from robot_rl.run_folder import RunFolder
    from robot_rl.signals import StopRequest

    def console(
        what: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="RUN | HARDWARE")],
        host: str = "127.0.0.1",
        port: int = 8080,
    ) -> None:
        """Serve the operator's page of a run, or of a bench alone. It may come and go: nothing waits for it.

        Whoever opens it needs the token in the printed link. It is this user's, for all consoles; another may be said
        in ROBOT_RL_CONSOLE_TOKEN.

        Args:
            what: folder of a run, its name in runs/, or a file of hardware_configs/.
            host: where to listen; this machine alone can come to 127.0.0.1, nothing is encrypted on the way to others.
            port: where to listen; 0 for any that is free.
        """
        path = run_path(what)
        if path.exists():
            sources = Sources.of_run(RunFolder(path))
        else:
            sources = Sources.of_bench(_bench(what))
        with StopRequest() as stop:
            page = Console(sources, host=host, port=port, token=console_token())
            print(f"{sources.title}: {page.url}", flush=True)
            try:
                page.run(stop.is_set)
            finally:
                page.close()

    parse("console", console, arguments)


def _bench(what: str) -> config.Hardware:
    """The bench of this name, where there is no run."""
    try:
        return config.load_hardware(what)
    except ConfigError as error:
        raise ConfigError(f"there is no run '{what}', and no bench: {error}") from error


def blackbox(arguments: Sequence[str]) -> None:
    """Draw what an arm did in the seconds around a fault."""
    from robot_rl.blackbox import SECONDS, describe, draw
    from robot_rl.controllers.recorder import load

    def blackbox(
        file: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="FILE")],
        out: str = "",
        seconds: float = SECONDS,
    ) -> None:
        """Draw what an arm did in the seconds around a fault, as a PNG.

        Args:
            file: a black box; the arm's log names it at each fault.
            out: the picture; beside the file, if not said.
            seconds: before the event; the file holds 30.
        """
        recording = load(Path(file))
        print(describe(recording))
        print(draw(recording, Path(out) if out else Path(file).with_suffix(".png"), seconds))

    parse("blackbox", blackbox, arguments)
