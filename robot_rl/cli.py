"""The command line: `robot-rl VERB [TASK | RUN | HARDWARE] [--options]`.

A verb is a function here; what it needs is imported inside it, so that help comes at once and the arm's process stays
free of the learner's libraries. Options are typed by the dataclasses of the code that reads them.
"""

import errno
import json
import logging
import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

import tyro

import robot_rl
from robot_rl import config
from robot_rl.clock import ClockKind
from robot_rl.supervise import GONE
from robot_rl.types import ArmFaultError, ConfigError, DeviceError, LinkError, RefusedError, RobotRLError
from robot_rl.validation import nearest

T = TypeVar("T")
DEFAULT_TASK = "peg_insert"
DISK_REFUSES = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG)
MUST_BE_MENDED = (ArmFaultError, RefusedError)  # by somebody, before another start can go better
TaskName = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="TASK")]
RunName = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="RUN")]
DataPath = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="PATH")]
EpisodeName = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="EPISODE")]
HardwareName = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="HARDWARE")]
Trust = Annotated[tuple[str, str] | None, tyro.conf.arg(metavar="NAME KEY")]
LearnerAddress = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="ADDRESS")]
Flat = tyro.conf.arg(name="")  # the fields of a dataclass as options without a prefix


def train(arguments: Sequence[str]) -> None:
    """Teach a task: demonstrations, training with corrections, evaluation; or --resume a stopped run."""
    from robot_rl import run
    from robot_rl.transport.keys import Keyring

    def command(defaults: run.TrainConfig) -> Callable[..., tuple[str, str, Trust, run.TrainConfig]]:
        def train(
            task: TaskName = DEFAULT_TASK,
            resume: str = "",
            trust: Trust = None,
            options: Annotated[run.TrainConfig, Flat] = defaults,
        ) -> tuple[str, str, Trust, run.TrainConfig]:
            """Teach a task: demonstrations, training with corrections, evaluation.

            Args:
                task: a file of tasks/.
                resume: the stopped run to continue, with its own task and options.
                trust: with --listen: the robot's machine, as `robot-rl keys --trust` takes it.
                options: of the run.
            """
            return task, resume, trust, options

        return train

    task, resume, trust, options = parse("train", command(run.TrainConfig()), arguments)
    if trust:
        Keyring().trust(*trust)
    if resume:
        if options != run.TrainConfig(eval_episodes=options.eval_episodes):
            raise ConfigError("--resume continues a run with its own options; only --eval-episodes may stand beside it")
        carry_on(run.RunFolder(run_path(resume)), options.eval_episodes)
        return
    # code < task < command line: the same line once more, on top of the task's own defaults
    *_, options = parse("train", command(with_task_defaults(task, run.TrainConfig())), arguments)
    carry_on(run.create_run(task, options), options.eval_episodes)


def carry_on(folder: Any, eval_episodes: int) -> None:
    """A run on this machine, or the learner of one whose robot is on another."""
    from robot_rl import remote, run

    if folder.settings.remote_actor:
        remote.serve_learner(folder)
    else:
        run.carry_on(folder, eval_episodes)


def join(arguments: Sequence[str]) -> None:
    """Bring this machine's robot to a run whose learner is on another: train --listen there."""
    from robot_rl import remote

    def join(address: LearnerAddress, name: str = "", eval_episodes: int = 100) -> None:
        """Bring this machine's robot to a run whose learner is on another machine.

        Args:
            address: where `robot-rl train --listen` listens: tcp://NAME@HOST:PORT, NAME as its key is trusted here.
            name: of this machine's folder in runs/.
            eval_episodes: of the evaluation at the end.
        """
        remote.join(address, name, eval_episodes)

    parse("join", join, arguments)


def demo(arguments: Sequence[str]) -> None:
    """Record demonstrations alone, into a run that train --resume carries on."""
    from robot_rl import run

    Said = tuple[str, int, bool, str, run.TrainConfig]

    def command(defaults: run.TrainConfig) -> Callable[..., Said]:
        def demo(
            task: TaskName = DEFAULT_TASK,
            episodes: int = 0,
            review: bool = False,
            resume: str = "",
            options: Annotated[run.TrainConfig, Flat] = defaults,
        ) -> Said:
            """Record demonstrations alone, into a new run.

            Args:
                task: a file of tasks/.
                episodes: how many demonstrations; `demos`, if not said.
                review: after each one the arm holds until somebody says whether to keep it.
                resume: the run whose recording goes on where it stopped, with its own task and options.
                options: of the run that `robot-rl train --resume` makes of them.
            """
            return task, episodes, review, resume, options

        return demo

    task, episodes, review, resume, options = parse("demo", command(run.TrainConfig()), arguments)
    if resume:
        if options != run.TrainConfig():
            raise ConfigError(
                "--resume goes on with the run's own options; only --episodes and --review may stand beside it"
            )
        run.demo(run.RunFolder(run_path(resume)), episodes, review=review)
        return
    *_, options = parse("demo", command(with_task_defaults(task, run.TrainConfig())), arguments)
    run.demo(run.create_run(task, replace(options, demos=episodes or options.demos)), review=review)


def evaluate(arguments: Sequence[str]) -> None:
    """Evaluate a run's newest policy: greedy, operator locked out."""
    from rich.console import Console

    from robot_rl import run
    from robot_rl.progress import Display

    def evaluate(
        run_name: RunName,
        episodes: int = 100,
        seed: int = run.EVAL_SEED,
        json: bool = False,
    ) -> None:
        """Evaluate a run's newest policy: greedy, operator locked out.

        Args:
            run_name: folder of the run, or its name in runs/.
            episodes: how many.
            seed: of the start poses and scenes.
            json: print the content of evaluation.json on stdout.
        """
        with Display(Console(stderr=json)) as display:
            summary = run.evaluate_run(run.RunFolder(run_path(run_name)), episodes, seed=seed, display=display)
        if json:
            print_json(summary)

    parse("eval", evaluate, arguments)


def benchmark(arguments: Sequence[str]) -> None:
    """Measure the speed of each part, in one table."""
    from rich.console import Console

    from robot_rl import benchmark_arm
    from robot_rl.benchmark import run_benchmark

    def benchmark(json: bool = False, arm: bool = False, seconds: float = 60.0, burners: int = 0) -> None:
        """Measure the speed of each part; or, with --arm, of the arm's loop against a simulated FR3 behind its wire.

        Args:
            json: one JSON object on stdout instead of a table.
            arm: the arm's loop alone, in real time.
            seconds: for how long the loop is watched.
            burners: how many busy processes load the machine meanwhile.
        """
        if not arm:
            run_benchmark(json=json)
            return
        numbers = benchmark_arm.measure_arm(seconds, burners)
        if json:
            print_json(numbers)
        else:
            Console().print(benchmark_arm.table(numbers, benchmark_arm.ASKED))

    parse("benchmark", benchmark, arguments)


def arm(arguments: Sequence[str]) -> None:
    """The process of one arm: the control loop and the socket it serves."""
    from robot_rl.controllers.server import serve

    def arm(
        hardware: HardwareName,
        arm: str = "",
        task: str = "",
        clock: ClockKind = "real",
        address: str = "",
        blackbox: str = "",
    ) -> None:
        """Serve one arm of a hardware file.

        Args:
            hardware: a file of hardware_configs/.
            arm: which of its arms; the first, if not said.
            task: whose scene a simulated arm stands in.
            clock: lockstep lets simulated time stand still between targets.
            address: where to listen, instead of the hardware file's address.
            blackbox: folder for black boxes; ~/.local/state/robot_rl/blackbox, if not said.
        """
        scene = config.load_task(task).scene if task else None
        chosen = choose_arm(config.load_hardware(hardware), arm, address)
        serve(chosen, scene=scene, clock=clock, blackbox=Path(blackbox) if blackbox else None)

    logging.getLogger().setLevel(logging.INFO)
    parse("arm", arm, arguments)


def check(arguments: Sequence[str]) -> None:
    """Is this bench ready? Connection, timing, errors, limits, gripper: what is right, and what to mend."""
    from rich.console import Console

    from robot_rl import check as bench

    def check(hardware: HardwareName, task: str = "", seconds: float = 10.0, json: bool = False) -> int:
        """Is this bench ready? The arm is held where it stands; nothing else is commanded.

        Args:
            hardware: a file of hardware_configs/.
            task: whose limits and start poses are to fit as well.
            seconds: for how long the loop's rhythm is watched.
            json: one JSON object on stdout instead of a table.
        """
        read = config.load_hardware(hardware)
        findings = bench.check(read, config.load_task(task) if task else None, seconds)
        if json:
            print_json(bench.as_json(read, findings))
        else:
            Console().print(bench.table(read, findings))
        return sum(not finding.right for finding in findings)

    if parse("check", check, arguments):
        raise SystemExit(1)


def cameras(arguments: Sequence[str]) -> None:
    """Which cameras are plugged in; what those of a hardware file see, as a picture; a crop as lines for the file."""
    from rich.console import Console

    from robot_rl import views
    from robot_rl.cameras import lines_for_file

    def cameras(
        hardware: HardwareName = "",
        crop: Annotated[tuple[str, int, int, int, int] | None, tyro.conf.arg(metavar="NAME X Y W H")] = None,
        seconds: float = 3.0,
        out: str = "cameras.png",
        json: bool = False,
    ) -> int:
        """List the cameras that are plugged in, or look through those of a hardware file.

        Args:
            hardware: a file of hardware_configs/; without one, what is plugged in.
            crop: the part of a camera's picture that the policy is to see, in pixels: try it, and print its lines.
            seconds: for how long rate and age are measured.
            out: the picture.
            json: one JSON object on stdout instead of a table.
        """
        if not hardware:
            found, problems = views.find_cameras()
            print_json({"found": [vars(camera) for camera in found]}) if json else print(views.listing(found))
            print(*problems, sep="\n", end="\n" * bool(problems), file=sys.stderr)
            return 0
        configs = {camera.name: camera for camera in config.load_hardware(hardware).cameras}
        if crop is not None and crop[0] not in configs:
            known = nearest(crop[0], configs)
            raise ConfigError(f"camera {crop[0]!r} is not in hardware {hardware!r}; it has: {known}")
        seen, complaints = views.look(list(configs.values()), seconds)
        picture = str(views.write_sheet(Path(out), seen, {crop[0]: crop[1:]} if crop else {})) if seen else None
        if json:
            print_json({"cameras": [view.to_json() for view in seen], "problems": complaints, "picture": picture})
        else:
            Console().print(views.table(hardware, seen))
            print(picture or "there is nothing to see: simulated cameras have no picture without their world")
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
        """Guide the arm by hand to where episodes start, and through all the room it may use; end with Ctrl-C.

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
    """Try the operator's device: what it says, live. No arm moves."""
    from rich.console import Console

    from robot_rl.dry_run import watch

    def teleop(hardware: HardwareName, seconds: float = 0.0) -> None:
        """Try the operator's device: axes, buttons, clutch, live in the terminal. No arm is connected; end with Ctrl-C.

        Args:
            hardware: a file of hardware_configs/.
            seconds: end by itself after so long; 0 waits for Ctrl-C.
        """
        watch(config.load_hardware(hardware), seconds or math.inf, Console())

    parse("teleop", teleop, arguments)


def console(arguments: Sequence[str]) -> None:
    """The operator's page in the browser: views, arm, curves, buttons, gizmo."""
    from robot_rl.console.serve import Console
    from robot_rl.console.watch import Sources
    from robot_rl.run_folder import RunFolder
    from robot_rl.signals import StopRequest

    def console(
        what: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="RUN | HARDWARE")],
        host: str = "127.0.0.1",
        port: int = 8080,
        token: str = "",
    ) -> None:
        """Serve the operator's page of a run, or of a bench alone. It may come and go: nothing waits for it.

        Args:
            what: folder of a run, its name in runs/, or a file of hardware_configs/.
            host: where to listen; any address that is not loopback asks for a token.
            port: where to listen; 0 for any that is free.
            token: to be asked for; a new one each time, if not said.
        """
        path = run_path(what)
        if path.exists():
            sources = Sources.of_run(RunFolder(path))
        else:
            sources = Sources.of_bench(config.load_hardware(what))
        with StopRequest() as stop:
            page = Console(sources, host=host, port=port, token=token)
            print(f"{sources.title}: {page.url}", flush=True)
            try:
                page.run(stop.is_set)
            finally:
                page.close()

    parse("console", console, arguments)


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


def data(arguments: Sequence[str]) -> None:
    """Look at recorded episodes: ls, show, stats; archive a run's, repair a log."""
    from rich.console import Console

    from robot_rl import browse
    from robot_rl.data.recovery import repair as repair_file

    console = Console() if sys.stdout.isatty() or "COLUMNS" in os.environ else Console(width=160)

    def ls(path: DataPath, json: bool = False) -> None:
        """List the episodes at a path.

        Args:
            path: a run (folder, or name in runs/), a .log file or an archive; it may be in use.
            json: one JSON object on stdout instead of a table.
        """
        listed = browse.listing(run_path(path))
        if json:
            print_json({"path": path, "episodes": [each.to_json() for each in listed]})
        else:
            console.print(browse.listing_table(listed, path))

    def show(path: DataPath, episode: EpisodeName = "last", out: str = "", json: bool = False) -> None:
        """Show one episode: its steps, a contact sheet for each camera and a film.

        Args:
            path: a run (folder, or name in runs/), a .log file or an archive; it may be in use.
            episode: its number in `ls`, its key (ACTOR/EPOCH/EPISODE), or last.
            out: folder for the pictures; shown/ in the run folder or beside the file, if not said.
            json: one JSON object on stdout instead of tables.
        """
        place = run_path(path)
        listed = browse.find(place, episode)
        recorded = listed.recording.load(listed.facts.key)
        pictures = [str(p) for p in browse.write_pictures(listed, recorded, Path(out) if out else browse.beside(place))]
        if json:
            print_json({**listed.to_json(), "pictures": pictures, "rows": list(browse.step_rows(recorded))})
            return
        console.print(browse.facts_table(listed))
        console.print(browse.steps_table(recorded))
        for picture in pictures:
            print(picture)

    def stats(path: DataPath, json: bool = False) -> None:
        """Statistics of all episodes at a path, and what looks wrong with them.

        Args:
            path: a run (folder, or name in runs/), a .log file or an archive; it may be in use.
            json: one JSON object on stdout instead of tables.
        """
        found = browse.statistics(run_path(path))
        if json:
            print_json(browse.statistics_json(found))
            return
        for table in browse.statistics_tables(found):
            console.print(table)
        for warning in found.warnings:
            console.print(f"warning: {warning}", style="yellow", highlight=False)

    def archive(run_name: RunName, out: str = "", compress: bool = True, json: bool = False) -> None:
        """Archive the finished episodes of a run as zarr; what is there already is left as it is.

        Args:
            run_name: folder of the run, or its name in runs/.
            out: the archive's folder; archive/ in the run folder, if not said.
            compress: with zstd.
            json: one JSON object on stdout.
        """
        folder, done = browse.archive_run(run_path(run_name), Path(out) if out else None, compress)
        if json:
            print_json({"archive": str(folder), "logs": {name: vars(each) for name, each in done.items()}})
            return
        for name, each in done.items():
            print(f"{folder}: {name}: {each.added} added, {each.present} there before, {each.marked} marked anew, "
                  f"{each.unfinished} not finished")  # fmt: skip

    def repair(path: DataPath) -> None:
        """Write a log or spool that is damaged in the middle anew from its whole records; nobody may be using it.

        Args:
            path: the damaged file; it is kept beside the new one.
        """
        kept, lost = repair_file(Path(path))
        print(f"{path}: {kept} records kept, {lost} lost, each with a mark in its place; before: {path}.damaged")

    verbs: dict[str, Callable[..., Any]] = {
        "ls": ls,
        "show": show,
        "stats": stats,
        "archive": archive,
        "repair": repair,
    }
    tyro.extras.subcommand_cli_from_dict(verbs, prog="robot-rl data", args=list(arguments), description=data.__doc__)


def keys(arguments: Sequence[str]) -> None:
    """Encryption keys: this machine's, and those of the machines that it talks to."""
    from robot_rl.transport.keys import Keyring, this_machine

    def keys(trust: Trust = None, revoke: str = "", list: bool = False, json: bool = False) -> None:
        """Encryption keys. Without options: make this machine's, if it has none, and say what the other one needs.

        Args:
            trust: talk to the machine with this public key, and call it NAME.
            revoke: no longer talk to the machine of this name; with --trust, before that.
            list: the machines that are trusted.
            json: one JSON object on stdout.
        """
        keyring, name = Keyring(), this_machine()
        if revoke:
            keyring.revoke(revoke)
        if trust:
            keyring.trust(*trust)
        own, trusted = keyring.make().public.hex(), {n: key.hex() for n, key in keyring.trusted().items()}
        if json:
            print_json({"folder": str(keyring.folder), "name": name, "public": own, "trusted": trusted})
        elif list:
            print("\n".join([f"{key}  {n}" for n, key in trusted.items()] or ["no machine is trusted"]))
        elif revoke and not trust:
            print(f"'{revoke}' is no longer trusted; a connection that it has ends when a process on it is restarted")
        else:
            there = (
                f"'{trust[0]}' is trusted. So that it trusts this machine, run there"
                if trust
                else "On the other machine, run"
            )
            print(f"This machine's public key: {own}\n{there}\n\n    robot-rl keys --trust {name} {own}\n")

    parse("keys", keys, arguments)


def actor(arguments: Sequence[str]) -> None:
    """The actor's process of a run."""
    from robot_rl.actor.loop import run_actor

    _run_process("actor", run_actor, arguments)


def learner(arguments: Sequence[str]) -> None:
    """The learner's process of a run."""
    # before torch is loaded: threads that spin while they wait for one another take the actor's core from it, and
    # beside any other load make two threads fifty times slower than one (87 to 2 updates/s)
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from robot_rl.learner.loop import run_learner

    _run_process("learner", run_learner, arguments)


def _run_process(verb: str, body: Callable[[Path], None], arguments: Sequence[str]) -> None:
    def process(run: RunName) -> None:
        """One process of a run.

        Args:
            run: folder of the run, or its name in runs/.
        """
        body(run_path(run))

    logging.getLogger().setLevel(logging.INFO)
    parse(verb, process, arguments)


VERBS: dict[str, Callable[[Sequence[str]], None]] = {
    "train": train,
    "join": join,
    "demo": demo,
    "eval": evaluate,
    "benchmark": benchmark,
    "data": data,
    "keys": keys,
    "arm": arm,
    "blackbox": blackbox,
    "cameras": cameras,
    "check": check,
    "console": console,
    "pose": pose,
    "teleop": teleop,
    "actor": actor,
    "learner": learner,
}


def parse(verb: str, command: Callable[..., Any], arguments: Sequence[str]) -> Any:
    """Call `command` with its parameters from the command line. Exits with help or with what is wrong in a line."""
    return tyro.cli(command, prog=f"robot-rl {verb}", args=list(arguments))


def with_task_defaults(task: str, options: T) -> T:
    """Run options as the task file wants them."""
    return config.apply_overrides(options, config.load_task(task).defaults, source=f"tasks/{task}.py: defaults")


def run_path(run: str) -> Path:
    """The folder of a run that was given as a path, or by its name in runs/."""
    return Path(run) if Path(run).exists() else Path("runs") / run


def choose_arm(hardware: config.Hardware, name: str, address: str) -> config.ArmConfig:
    """The named arm of a hardware file, or its first, listening at `address` if one is given."""
    arms = {arm.name: arm for arm in hardware.arms}
    if name and name not in arms:
        raise ConfigError(f"arm {name!r} is not in hardware {hardware.name!r}; it has: {nearest(name, arms)}")
    chosen = arms[name] if name else hardware.arms[0]
    return replace(chosen, address=address) if address else chosen


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2))


def overview() -> str:
    """What `robot-rl --help` says."""
    lines = [f"  {verb:<10} {(function.__doc__ or '').splitlines()[0]}" for verb, function in VERBS.items()]
    return "\n".join([
        "usage: robot-rl VERB [TASK | RUN | HARDWARE] [--options]",
        "",
        "Teach a robot arm a skill by reinforcement learning, with demonstrations and corrections.",
        "",
        *lines,
        "",
        "robot-rl VERB --help lists the verb's options. Example: robot-rl train peg_insert --hardware sim_panda",
    ])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb. Exit code 0; 2 for what the user must mend; 3 if the other side of a link or a device is gone,
    which another start may find again; 130 after a Ctrl-C."""
    verb, *rest = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    if verb in ("-h", "--help", "--version"):
        print(overview() if verb != "--version" else robot_rl.__version__)
        return 0
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        if verb not in VERBS:
            raise ConfigError(f"{verb!r} is not a verb; there is: {nearest(verb, VERBS)}")
        VERBS[verb](rest)
    except RobotRLError as error:
        print(f"robot-rl: {error}", file=sys.stderr)
        return GONE if isinstance(error, LinkError | DeviceError) and not isinstance(error, MUST_BE_MENDED) else 2
    except OSError as error:
        if error.errno not in DISK_REFUSES:
            raise
        print(
            f"robot-rl: {error.filename or 'a file'} cannot be written: {error.strerror}. What was written before is "
            "not lost: make room on that disk, or make it writable, then start again",
            file=sys.stderr,
        )
        return 2
    except KeyboardInterrupt:
        print("robot-rl: stopped", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
