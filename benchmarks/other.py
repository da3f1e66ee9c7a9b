"""Another process to measure with: it answers in lines of JSON on its stdout, and hears what comes
on its stdin.
"""

import contextlib
import json
import os
import select
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


class Other:
    """A script of this folder in a process of its own. It ends when its stdin does, or when it is
    done.
    """

    def __init__(
        self, script: str, *arguments: object, python: Path | str = sys.executable,
        environment: Mapping[str, str] | None = None,
    ):  # fmt: skip
        command: Sequence[str] = [
            str(python),
            "-W",
            "ignore",
            str(HERE / script),
            *map(str, arguments),
        ]
        self._name = f"{script} {' '.join(map(str, arguments))}"
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **(environment or {})},
        )

    def tell(self, line: object = "") -> None:
        """One line for it to hear; one that is done already does not."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(str(line).encode() + b"\n")
            self._process.stdin.flush()

    def answer(self) -> Any:
        """The next thing that it says. What is no JSON is a library's own talk."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith((b"{", b'"')):
                return json.loads(line)
        raise RuntimeError(f"{self._name} ended with {self._process.wait()}")

    def __enter__(self) -> "Other":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()


def say(thing: Any) -> None:
    """The other process's side of `answer`: a string or a dictionary."""
    print(json.dumps(thing), flush=True)


def lines_heard() -> int:
    """How many empty lines have come since the last time this was asked. An end of the input counts
    as many.
    """
    if not select.select([0], [], [], 0)[0]:
        return 0
    return len(os.read(0, 100)) or 1000
