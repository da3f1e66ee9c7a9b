"""The one table of verbs. A verb is a function: its docstring is its help, its parameters are its
options.

Options are typed; the sentence of each stands under `Args` in the docstring, at the type that
several verbs share (`cli/arguments.py`), or at the field of the dataclass that holds it. What a
verb needs is imported inside it, so that help comes at once and the arm's process stays free of the
learner's libraries.
"""

import errno
import inspect
import logging
import sys
from collections.abc import Callable, Sequence
from typing import Any

import robot_rl
from robot_rl.cli import arguments as line
from robot_rl.cli.ask import new
from robot_rl.cli.devices import arm, blackbox, cameras, check, console, pose, teleop
from robot_rl.cli.files import data, doctor, keys, list_runs, list_tasks
from robot_rl.cli.rewards import reward
from robot_rl.cli.runs import (
    actor,
    benchmark,
    compare,
    demo,
    evaluate,
    guide,
    join,
    learner,
    let_work,
    outcomes,
    train,
)
from robot_rl.machine.processes import GONE
from robot_rl.machine.validation import nearest
from robot_rl.types import (
    ArmFaultError,
    ConfigError,
    DeviceError,
    LinkError,
    RefusedError,
    RobotRLError,
    StoppedError,
)

GROUPS: dict[str, dict[str, Callable[..., Any]]] = {
    "a bench": {"new": new, "cameras": cameras, "teleop": teleop, "check": check, "pose": pose},
    "a policy": {
        "tasks": list_tasks,
        "demo": demo,
        "guide": guide,
        "train": train,
        "join": join,
        "console": console,
        "doctor": doctor,
        "eval": evaluate,
        "compare": compare,
        "run": let_work,
        "outcomes": outcomes,
        "reward": reward,
    },
    "what is recorded": {"runs": list_runs, "data": data, "blackbox": blackbox},
    "a machine": {"keys": keys, "benchmark": benchmark},
    "one process, as the verbs above start it": {"arm": arm, "actor": actor, "learner": learner},
}
"""The verbs in the order of their use, under a title each."""
VERBS = {verb: command for verbs in GROUPS.values() for verb, command in verbs.items()}

DISK_REFUSES = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG)
NO_FILES = (errno.EMFILE, errno.ENFILE)  # of strangers' connections: another start has room again
MUST_BE_MENDED = (ArmFaultError, RefusedError)  # by somebody, before another start can go better


def overview() -> str:
    """What `robot-rl --help` says."""
    lines = [
        "usage: robot-rl VERB [TASK | RUN | HARDWARE] [--options]\n",
        "Teach a robot arm a skill by reinforcement learning, with demonstrations and",
        "corrections.",
    ]
    for title, verbs in GROUPS.items():
        lines.append(f"\n{title}:")
        lines += [f"  {verb:<10} {(VERBS[verb].__doc__ or '').splitlines()[0]}" for verb in verbs]
    lines += [
        "\nThe verb's options: robot-rl VERB --help; all of them: --help-all.",
        "Example: robot-rl train peg_insert --hardware sim_panda",
    ]
    return "\n".join(lines)


def run(arguments: Sequence[str]) -> int:
    """Run one verb, and say in one line what is wrong. Returns the exit code."""
    verb, *rest = list(arguments) or ["--help"]
    if verb == "--version":
        print(robot_rl.__version__)
        return 0
    if verb in ("-h", "--help", "--help-all"):
        print(overview())
        return 0
    logging.basicConfig(
        level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    try:
        return call(verb, rest) or 0
    except StoppedError as error:
        raise KeyboardInterrupt from error  # what a Ctrl-C is, and ends in the same words
    except RobotRLError as error:
        print(f"robot-rl: {error}", file=sys.stderr)
        may_come_back = isinstance(error, LinkError | DeviceError) and not isinstance(
            error, MUST_BE_MENDED
        )
        return GONE if may_come_back else 2
    except OSError as error:
        file = error.filename or "a file"
        if error.errno in NO_FILES:
            print(f"robot-rl: {file} cannot be opened: {error.strerror}", file=sys.stderr)
            return GONE
        if error.errno not in DISK_REFUSES:
            raise
        print(
            f"robot-rl: {file} cannot be written: {error.strerror}. What was written before is not"
            " lost: make room on that disk, or make it writable, then start again",
            file=sys.stderr,
        )
        return 2


def call(verb: str, arguments: Sequence[str]) -> int | None:
    """Call a verb with what the command line says. One that takes `arguments` reads them itself;
    one that takes the `options` of a run has those of a run beside its own."""
    if verb not in VERBS:
        raise ConfigError(f"{verb!r} is not a verb; there is: {nearest(verb, VERBS)}")
    command = VERBS[verb]
    takes = inspect.signature(command).parameters
    if "arguments" in takes:
        code = command(arguments)
    elif "options" in takes and takes["options"].annotation == "TrainConfig":
        code = line.parse_run(verb, command, arguments)
    else:
        code = line.parse(verb, command, arguments)
    return code if isinstance(code, int) else None
