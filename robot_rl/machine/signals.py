"""Stopping on purpose: the first Ctrl-C or SIGTERM asks, the second one ends the process at once."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType, TracebackType

AGAIN_S = 1.0  # a KeyboardInterrupt that has ended nothing by then was swallowed
_interrupts: list[int] = []  # of this process so far, while `remembered` lasts


@contextmanager
def remembered() -> Iterator[list[int]]:
    """While this lasts a Ctrl-C raises KeyboardInterrupt, as ever, and is remembered in the list
    that it gives.

    A library that is being imported makes another error of the KeyboardInterrupt, or swallows it. A
    process of a run begins with Ctrl-C blocked (`machine/processes.py`), as Python's own beginning
    makes an error of it: one that has come by now is in the list, and raises nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield _interrupts
        return
    before = signal.signal(signal.SIGINT, _remember)
    with suppress(KeyboardInterrupt):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    try:
        yield _interrupts
    finally:
        signal.signal(signal.SIGINT, before)
        _interrupts.clear()


def _remember(number: int, frame: FrameType | None) -> None:
    _interrupts.append(number)
    raise KeyboardInterrupt


def was_interrupted() -> bool:
    """Whether a Ctrl-C has come since `remembered` began, whatever became of its KeyboardInterrupt."""
    return bool(_interrupts)


class StopRequest:
    """Set by the first SIGINT or SIGTERM while the `with` block lasts; a second SIGINT raises
    KeyboardInterrupt.

    Meanwhile SIGALRM is its own (`at_once`). A Ctrl-C that was lost on the way here counts as the
    first. A plain flag: a handler may be interrupted by the next signal, and would wait for its own
    lock for ever.
    """

    def __init__(self) -> None:
        self._asked = was_interrupted()
        self._at_once = False
        self._before: dict[int, object] = {}

    def is_set(self) -> bool:
        return self._asked

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """While this lasts, also the first signal ends the block, with StoppedError: nothing in it
        needs an end.

        So it does whatever an import makes of the signal: another error, or nothing at all, be it
        in front of a wait for minutes. It is raised until the block has ended.
        """
        self._at_once = True
        try:
            if not self._asked:
                yield
        except (Exception, KeyboardInterrupt):
            if not self._asked:
                raise
        finally:
            self._at_once = False
            signal.setitimer(signal.ITIMER_REAL, 0.0)
        if self._asked:
            # numpy comes with it: not before a Ctrl-C is watched for
            from robot_rl.types import StoppedError

            raise StoppedError("stopped")

    def __enter__(self) -> "StopRequest":
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM):
            self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        again, self._asked = self._asked, True
        if self._at_once:
            signal.setitimer(signal.ITIMER_REAL, AGAIN_S)
        if self._at_once or (again and number == signal.SIGINT):
            raise KeyboardInterrupt
