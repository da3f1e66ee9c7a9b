"""Stopping on purpose: the first Ctrl-C or SIGTERM asks, the second one ends the process at once."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType


class StopRequest:
    """Set by the first SIGINT or SIGTERM while the `with` block lasts; a second SIGINT raises KeyboardInterrupt.

    A plain flag: a handler may be interrupted by the next signal, and would wait for its own lock for ever.
    """

    def __init__(self) -> None:
        self._asked = False
        self._at_once = False
        self._before: dict[int, object] = {}

    def is_set(self) -> bool:
        return self._asked

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """While this lasts, also the first signal raises KeyboardInterrupt: nothing is under way that needs an end."""
        if self._asked:
            raise KeyboardInterrupt
        self._at_once = True
        try:
            yield
        finally:
            self._at_once = False

    def __enter__(self) -> "StopRequest":
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        again, self._asked = self._asked, True
        if self._at_once or (again and number == signal.SIGINT):
            raise KeyboardInterrupt
