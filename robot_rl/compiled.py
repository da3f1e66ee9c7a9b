"""`njit` for the functions of the 1 kHz loop: compiled once per machine and per version of their sources.

numba's own cache looks at the file of the function alone. After a change in `geometry.py` a cached torque law in
another file would go on with the old geometry, in silence. Here the cache lies in a folder named after the contents
of all files that hold compiled functions, so that a change in one of them compiles all of them anew.
"""

import hashlib
import os
import tempfile
from pathlib import Path

import numba

PACKAGE = Path(__file__).parent


def cache_folder() -> Path:
    """Where compiled functions of these very sources lie; in the temporary folder if there is no writable home."""
    digest = hashlib.sha256()
    for path in [PACKAGE / "geometry.py", *sorted((PACKAGE / "controllers").rglob("*.py"))]:
        source = path.read_bytes()
        digest.update(source if b"njit" in source else b"")
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "robot_rl"
    for root in (home, Path(tempfile.gettempdir()) / f"robot_rl-{os.getuid()}"):
        folder = root / f"numba-{digest.hexdigest()[:16]}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK):
            return folder
    return PACKAGE / "__pycache__"


numba.config.CACHE_DIR = str(cache_folder())  # type: ignore[attr-defined]
njit = numba.njit(cache=True)
