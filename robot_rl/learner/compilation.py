"""torch.compile that a run can do without."""

import atexit
import logging
import os
import shutil
import tempfile
from collections.abc import Callable
from typing import Any

import torch

from robot_rl import private

log = logging.getLogger(__name__)


class Compiled:
    """A function, compiled at its first call; if that fails (no C++ compiler, say) it is called as it is from then on.

    Fixed shapes are assumed: another batch size compiles once more.
    """

    def __init__(self, function: Callable[..., Any]):
        keep_privately()
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
            log.warning("%s stays uncompiled, which is slower: %s", name, str(error).partition("\n")[0])
            self._call = self._plain
            result = self._plain(*args)
        self._proven = True
        return result


def keep_privately() -> None:
    """Have the compiler keep what it makes in a folder of this user's own, or in a new one that goes with this process.

    It unpickles and loads what it finds there. Left alone it takes a place in the temporary folder that can be guessed,
    and that somebody else may have made first.
    """
    if os.environ.get("TORCHINDUCTOR_CACHE_DIR"):
        return
    try:
        folder = str(private.cache_folder("torch"))
    except (OSError, RuntimeError):  # RuntimeError: a user without a home
        folder = tempfile.mkdtemp(prefix="robot_rl-torch-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
