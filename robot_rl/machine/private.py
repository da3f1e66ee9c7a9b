"""Folders that are this user's alone: what is read there was written by this user, and nobody else
can look into it.

What libraries keep for later (compiled functions, say) may be executed when it is read again. It
lies in such a folder or nowhere: never at a predictable place of the temporary folder, which
anybody may have made first.
"""

import atexit
import contextlib
import os
import secrets
import shutil
import stat
import tempfile
from pathlib import Path


def private_folder(path: Path, was_closed: bool = False) -> Path:
    """The folder, made for this user alone (0700) if it is not there; one that others can only read
    is closed to them.

    Raises OSError if it cannot be had: it is a link, belongs to somebody else, or others may write
    into it; with `was_closed`, also if they may read or enter it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700)
    about = path.lstat()
    if not stat.S_ISDIR(about.st_mode):
        raise NotADirectoryError(
            f"{path} is a link or a file; a folder of your own is allowed: remove it"
        )
    if about.st_uid != os.geteuid():
        raise PermissionError(
            f"{path} belongs to user {about.st_uid}; a folder of your own is allowed"
        )
    if about.st_mode & 0o022:
        raise PermissionError(
            f"others may write into {path}: remove it, for what lies in it may be theirs"
        )
    if was_closed and about.st_mode & 0o055:
        raise PermissionError(f"others may enter {path}. If nobody has: chmod 700 {path}")
    if about.st_mode & 0o055:
        path.chmod(0o700)
    if not os.access(path, os.W_OK | os.X_OK):
        raise PermissionError(f"{path} cannot be written")
    return path


def make_secret(path: Path, text: str) -> None:
    """A file that this user alone can read (0600), with a line of text, unless there is one
    already. OSError.

    It is whole from the first moment on; of several processes that make it at once one is the
    first, and it is its.
    """
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text + "\n")
    with contextlib.suppress(FileExistsError):
        os.link(draft, path)
    draft.unlink()


def cache_folder(name: str) -> Path:
    """A folder for what a library keeps for later: `$XDG_CACHE_HOME/robot_rl/NAME`. Raises OSError
    as above.
    """
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return private_folder(private_folder(caches / "robot_rl") / name)


def state_folder() -> Path:
    """Where this user's own things lie that are no run's: `$XDG_STATE_HOME/robot_rl`. Raises
    OSError as above.
    """
    states = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    return private_folder(states / "robot_rl")


def keep_torch_private() -> None:
    """Have torch's compiler keep what it makes in a folder of this user's own, or in a new one that
    goes with us.

    It unpickles and loads what it finds there. Left alone it takes a place in the temporary folder
    that can be guessed. The processes that this one starts do as it does, and so does it if
    somebody has said TORCHINDUCTOR_CACHE_DIR. Precompiled headers lie at that place whatever is
    said: it makes none.
    """
    os.environ.setdefault("TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS", "0")
    if os.environ.get("TORCHINDUCTOR_CACHE_DIR"):
        return
    try:
        folder = str(cache_folder("torch"))
    except (OSError, RuntimeError):  # RuntimeError: a user without a home
        folder = tempfile.mkdtemp(prefix="robot_rl-torch-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
