"""The processes of a run: started in an order, watched, and stopped in the reverse order so that
the arm holds last.
"""

import ctypes
import logging
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from robot_rl.types import RobotRLError

log = logging.getLogger(__name__)
PR_SET_PDEATHSIG = 1  # linux/prctl.h: the signal that a child gets when its parent dies
GONE = 3  # exit code of a process whose other side or device was gone
STOPPED = (130, -signal.SIGINT)  # exit codes of a process that a Ctrl-C ended
SPEAK_OF_AFTER_S = 5.0  # of a process that is slow to stop
RESTARTS_AT_MOST, RESTARTS_WITHIN_S = 5, 600.0


class ProcessFailed(RobotRLError):
    """A process of the run ended by itself with an error."""


class Supervisor:
    """Starts `robot-rl VERB ...` processes in sessions of their own (a Ctrl-C reaches only the
    parent, which then stops them in order), each with a log file.

    ```
    with Supervisor(folder.logs) as processes:
        processes.start("arm", ["arm", "sim_panda"])
        processes.start("learner", ["learner", str(run)])
        processes.watch(until="learner")
    ```
    Leaving the block stops whatever still runs: last started, first stopped.
    """

    def __init__(self, logs: Path):
        self._logs = logs
        self._children: dict[str, subprocess.Popen] = {}
        self._arguments: dict[str, Sequence[str]] = {}
        self._restarts: dict[str, list[float]] = {}
        self._asked: set[str] = set()  # to stop
        logs.mkdir(parents=True, exist_ok=True)

    def start(self, name: str, arguments: Sequence[str]) -> None:
        """Start a verb of this program as a process called `name`."""
        self._arguments[name] = arguments
        self._asked.discard(name)
        with self._log_of(name).open("ab") as output:
            if output.tell():  # what an earlier process said last is not what this one is at
                output.write(
                    f"{time.strftime('%Y-%m-%d %H:%M:%S,000')} INFO {__name__}: it is starting\n".encode()
                )
                output.flush()
            self._children[name] = subprocess.Popen(
                [sys.executable, "-m", "robot_rl", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_prepare,
            )

    def check(self) -> None:
        """Raise ProcessFailed, with the end of its log, if a process has failed."""
        for name, child in self._children.items():
            if child.poll() is not None and not self._ended_well(name):
                raise ProcessFailed(self._failure(name, child))

    def is_running(self, name: str) -> bool:
        return self._children[name].poll() is None

    def restart_failed(self, say: Callable[[str], None]) -> None:
        """Start again each process that was killed, or left because its other side was gone.

        Raises ProcessFailed for any other end, and for a process that ends `RESTARTS_AT_MOST` times
        in ten minutes.
        """
        for name, child in list(self._children.items()):
            code = child.poll()
            if code is None or self._ended_well(name):
                continue
            now = time.monotonic()
            recent = [
                then for then in self._restarts.get(name, []) if now - then < RESTARTS_WITHIN_S
            ]
            if not (code < 0 or code == GONE) or len(recent) >= RESTARTS_AT_MOST:
                raise ProcessFailed(self._failure(name, child))
            self._restarts[name] = [*recent, now]
            say(
                f"the process '{name}' ended with code {code} and is started again; its log:"
                f" {self._log_of(name)}"
            )
            self.start(name, self._arguments[name])

    def watch(
        self,
        until: str,
        each: Callable[[], None],
        period_s: float = 0.2,
        mend: Callable[[], None] | None = None,
    ) -> None:
        """Wait until the process `until` has ended well, calling `each()` now and then.

        Processes that failed meanwhile are `mend`'s to deal with; without it, the first raises
        ProcessFailed.
        """
        while True:
            ended = self._ended_well(until)
            (mend or self.check)()
            each()
            if ended:
                return
            time.sleep(period_s)

    def stop(
        self, name: str, sent: signal.Signals = signal.SIGINT, timeout_s: float = 30.0
    ) -> None:
        """Ask a process, if there is one of this name, to finish and wait for it; kill it if it
        does not.
        """
        child = self._children.get(name)
        if child is not None and child.poll() is None:
            self._asked.add(name)
            child.send_signal(sent)
            try:
                with suppress(subprocess.TimeoutExpired):
                    child.wait(min(timeout_s, SPEAK_OF_AFTER_S))
                    return
                log.warning(
                    "waiting for %s to finish what it is at, for %.0f s at most; a second Ctrl-C ends it at once",
                    name, timeout_s,
                )  # fmt: skip
                child.wait(max(timeout_s - SPEAK_OF_AFTER_S, 0.0))
            except subprocess.TimeoutExpired:
                log.warning("%s did not stop within %.0f s and was killed", name, timeout_s)
                child.kill()
                child.wait()

    def kill(self) -> None:
        """End everything at once. The arm's own process holds the arm until it is gone; a real arm
        holds by itself.
        """
        for child in self._children.values():
            child.kill()

    def __enter__(self) -> "Supervisor":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            for name in reversed(self._children):
                self.stop(name)
        except BaseException:  # the second Ctrl-C
            self.kill()
            raise

    def _ended_well(self, name: str) -> bool:
        """Whether a process is through, or was stopped while it still loaded its libraries."""
        code = self._children[name].poll()
        return code == 0 or (name in self._asked and code in STOPPED)

    def _log_of(self, name: str) -> Path:
        return self._logs / f"{name}.log"

    def _failure(self, name: str, child: subprocess.Popen) -> str:
        path = self._log_of(name)
        tail = path.read_text(errors="replace").strip().splitlines()[-12:]
        return (
            f"the process '{name}' ended with code {child.returncode}; the end of {path}:\n  "
            + "\n  ".join(tail)
        )


class Watchdog:
    """Notices that a run gets nowhere although all its processes live.

    `look` is told what should move (steps and updates made). While that stands still it warns once
    a minute; after `fail_after_s` it raises ProcessFailed (None: never, for a person may be mending
    the bench).
    """

    WARN_EVERY_S = 60.0

    def __init__(self, logs: Path, fail_after_s: float | None):
        self._logs, self._fail_after_s = logs, fail_after_s
        self._progress: object = None
        self._since: float | None = None
        self._warned = 0

    def look(self, progress: object, now: float) -> None:
        """Take note of `progress` at `now` [s, monotonic]."""
        if self._since is None or progress != self._progress:
            self._progress, self._since, self._warned = progress, now, 0
        still_s = now - self._since
        where = (
            f"no step and no update for {still_s:.0f} s though every process lives; their logs are"
            f" in {self._logs}"
        )
        if self._fail_after_s is not None and still_s > self._fail_after_s:
            raise ProcessFailed(where)
        if still_s > (self._warned + 1) * self.WARN_EVERY_S:
            self._warned += 1
            log.warning(where)


def _prepare() -> None:
    """In the new process, before Python begins: it dies with its parent, and a Ctrl-C waits until
    it is watched for.
    """
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
