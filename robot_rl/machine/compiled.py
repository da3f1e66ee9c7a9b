"""`njit` for the functions of the 1 kHz loop: compiled once per machine and per version of their
sources.

numba's own cache looks at the file of the function alone. After a change in `geometry.py` a cached
torque law in another file would go on with the old geometry, in silence. Here the cache lies in a
folder named after the contents of all files that hold compiled functions, so that a change in one
of them compiles all of them anew.

numba executes what it finds there (it is pickled machine code): the folder is this user's alone, or
there is no cache.
"""

import hashlib
import logging
from pathlib import Path

import numba

import robot_rl
from robot_rl.machine import private

PACKAGE = Path(robot_rl.__file__).parent
log = logging.getLogger(__name__)


def cache_folder() -> Path | None:
    """Where compiled functions of these very sources lie; None, with a warning, if there is no such
    folder.
    """
    digest = hashlib.sha256()
    folders = [PACKAGE / "controllers", PACKAGE / "sim"]
    for path in [
        PACKAGE / "geometry.py",
        *sorted(path for folder in folders for path in folder.rglob("*.py")),
    ]:
        source = path.read_bytes()
        digest.update(source if b"njit" in source else b"")
    try:
        return private.cache_folder(f"numba-{digest.hexdigest()[:16]}")
    except (OSError, RuntimeError) as error:  # RuntimeError: a user without a home
        log.warning(
            "every process compiles its functions anew, which takes it a minute: there is no folder"
            " to keep them in (%s). Name one with XDG_CACHE_HOME",
            error,
        )
        return None


LAW = "tick.control_into"
"""The function that is compiled last of those that take long; numba calls its file so."""
COMPILES = "compiling the control law, once on this machine: a minute, or some where it is busy"


def is_first_time() -> bool:
    """Whether the control law of these sources was not compiled on this machine before: somebody
    waits for it now.
    """
    return _folder is None or not any(_folder.rglob(f"{LAW}-*.nbi"))


_folder = cache_folder()
if _folder is not None:
    numba.config.CACHE_DIR = str(_folder)  # type: ignore[attr-defined]
njit = numba.njit(cache=_folder is not None)
