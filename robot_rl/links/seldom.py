"""Log lines that any sender can provoke: some of them are written, the others are
counted.
"""

import logging
import threading
import time

MOST_LINES = 10
EVERY_S = 60.0
MOST_CHARACTERS = 1000
"""Of one line: it may repeat what was sent."""


class Seldom:
    """At most `most` lines within `EVERY_S`; the first of a later minute says how many there were
    besides.

    For any threads. One for each thing that is said:

    ```
    seldom = Seldom(log)
    seldom.warning("message passed over: %s", error)
    ```
    """

    def __init__(self, log: logging.Logger, most: int = MOST_LINES):
        self._log, self._most = log, most
        self._lock = threading.Lock()
        self._begun, self._said, self._unsaid = -EVERY_S, 0, 0

    def warning(self, text: str, *args: object) -> None:
        self._say(logging.WARNING, text, args)

    def error(self, text: str, *args: object) -> None:
        self._say(logging.ERROR, text, args)

    def exception(self, text: str, *args: object) -> None:
        """With the traceback of the exception that is being handled."""
        self._say(logging.ERROR, text, args, exc_info=True)

    def _say(self, level: int, text: str, args: tuple[object, ...], exc_info: bool = False) -> None:
        with self._lock:
            now = time.monotonic()
            if now - self._begun >= EVERY_S:
                before, self._unsaid = self._unsaid, 0
                self._begun, self._said = now, 0
            elif self._said >= self._most:
                self._unsaid += 1
                return
            else:
                before = 0
            self._said += 1
            is_last = self._said == self._most
        line = (text % args if args else text)[:MOST_CHARACTERS]
        if before:
            line += f" (and {before} like it before, which were not written)"
        if is_last:
            line += f" (more of this kind are counted, and written again after {EVERY_S:g} s)"
        self._log.log(level, "%s", line, exc_info=exc_info)
