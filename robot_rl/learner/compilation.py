"""torch.compile that a run can do without."""

import logging
from collections.abc import Callable
from typing import Any

import torch

log = logging.getLogger(__name__)


class Compiled:
    """A function, compiled at its first call; if that fails (no C++ compiler, say) it is called as
    it is from then on.

    Fixed shapes are assumed: another batch size compiles once more.
    """

    def __init__(self, function: Callable[..., Any]):
        self._plain = function
        self._call = torch.compile(function, dynamic=False)
        self._proven = False

    def __call__(self, *args: Any) -> Any:
        if self._proven:
            return self._call(*args)
        try:
            result = self._call(*args)
        except Exception as error:  # noqa: BLE001 the compiler raises many kinds; a real error comes again below
            name = getattr(self._plain, "__name__", "function")
            log.warning(
                "%s stays uncompiled, which is slower: %s", name, str(error).partition("\n")[0]
            )
            self._call = self._plain
            result = self._plain(*args)
        self._proven = True
        return result
