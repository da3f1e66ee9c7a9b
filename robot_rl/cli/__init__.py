"""The command line: `robot-rl VERB [TASK | RUN | HARDWARE] [--options]`. The verbs stand in
`cli/verbs.py`.

Nothing else is imported here before a Ctrl-C is watched for: what it becomes in the midst of an
import is up to the library that is being imported.
"""

import contextlib
import io
import os
import select
import sys
from collections.abc import Sequence

from robot_rl.machine.signals import remembered


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb. Exit code 0; 1 for what a check has found; 2 for what the user must mend; 3 if
    the other side of a link or a device is gone, which another start may find again; 130 after a
    Ctrl-C, however early it came; 141 if nobody reads on, as behind `| head`."""
    try:
        code = _run(sys.argv[1:] if arguments is None else arguments)
    except (BrokenPipeError, SystemExit):
        if _is_read():
            raise
        return 141
    return code if _is_read() else 141


def _run(arguments: Sequence[str]) -> int:
    with remembered() as interrupts:
        try:
            if not interrupts:
                from robot_rl.cli.verbs import run

                return run(arguments)
        except KeyboardInterrupt:
            pass
        except Exception:
            if not interrupts:
                raise
    print("robot-rl: stopped", file=sys.stderr)
    return 130


def _is_read() -> bool:
    """Whether what was printed has gone somewhere. If not, nothing more is said, at the
    interpreter's end either."""
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
