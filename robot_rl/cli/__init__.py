"""The command line: `robot-rl VERB [TASK | RUN | HARDWARE] [--options]`.

A verb is a function of this folder; what it needs is imported inside it, so that help comes at once and the arm's
process stays free of the learner's libraries. Options are typed by the dataclasses of the code that reads them.
"""

import contextlib
import errno
import io
import logging
import os
import select
import sys
from collections.abc import Callable, Sequence

import robot_rl
from robot_rl.cli.ask import new
from robot_rl.cli.devices import arm, blackbox, cameras, check, console, pose, teleop
from robot_rl.cli.files import data, keys, list_runs
from robot_rl.cli.runs import actor, benchmark, demo, evaluate, join, learner, let_work, outcomes, train
from robot_rl.signals import remembered
from robot_rl.supervise import GONE
from robot_rl.types import ArmFaultError, ConfigError, DeviceError, LinkError, RefusedError, RobotRLError, StoppedError
from robot_rl.validation import nearest

DISK_REFUSES = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG)
NO_FILES = (errno.EMFILE, errno.ENFILE)  # of strangers' connections: another start has room again
MUST_BE_MENDED = (ArmFaultError, RefusedError)  # by somebody, before another start can go better

VERBS: dict[str, Callable[[Sequence[str]], None]] = {
    "train": train,
    "join": join,
    "demo": demo,
    "outcomes": outcomes,
    "eval": evaluate,
    "run": let_work,
    "benchmark": benchmark,
    "runs": list_runs,
    "data": data,
    "keys": keys,
    "arm": arm,
    "blackbox": blackbox,
    "new": new,
    "cameras": cameras,
    "check": check,
    "console": console,
    "pose": pose,
    "teleop": teleop,
    "actor": actor,
    "learner": learner,
}


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
    which another start may find again; 130 after a Ctrl-C; 141 if nobody reads on, as behind `| head`."""
    try:
        code = _main(arguments)
    except (BrokenPipeError, SystemExit):
        if _is_read():
            raise
        return 141
    return code if _is_read() else 141


def _is_read() -> bool:
    """Whether what was printed has gone somewhere. If not, nothing more is said, at the interpreter's end either."""
    pipe = select.poll()
    try:
        pipe.register(sys.stdout, 0)  # errors alone
    except io.UnsupportedOperation:  # somebody has put no file in its place
        return True
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.flush()
    if not pipe.poll(0):
        return True
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return False


def _main(arguments: Sequence[str] | None) -> int:
    verb, *rest = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    if verb in ("-h", "--help", "--version"):
        print(overview() if verb != "--version" else robot_rl.__version__)
        return 0
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    with remembered() as interrupts:
        try:
            if not interrupts:
                return _run(verb, rest)
        except (KeyboardInterrupt, StoppedError):
            pass
        except Exception:
            if not interrupts:
                raise
    print("robot-rl: stopped", file=sys.stderr)
    return 130


def _run(verb: str, rest: list[str]) -> int:
    try:
        if verb not in VERBS:
            raise ConfigError(f"{verb!r} is not a verb; there is: {nearest(verb, VERBS)}")
        VERBS[verb](rest)
    except StoppedError:
        raise
    except RobotRLError as error:
        print(f"robot-rl: {error}", file=sys.stderr)
        return GONE if isinstance(error, LinkError | DeviceError) and not isinstance(error, MUST_BE_MENDED) else 2
    except OSError as error:
        if error.errno in NO_FILES:
            print(f"robot-rl: {error.filename or 'a file'} cannot be opened: {error.strerror}", file=sys.stderr)
            return GONE
        if error.errno not in DISK_REFUSES:
            raise
        print(
            f"robot-rl: {error.filename or 'a file'} cannot be written: {error.strerror}. What was written before is "
            "not lost: make room on that disk, or make it writable, then start again",
            file=sys.stderr,
        )
        return 2
    return 0
