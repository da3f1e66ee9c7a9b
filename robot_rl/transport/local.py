"""Links within one machine: sockets in a folder that only this user can enter, so that no other account reaches them.

`local://NAME` is the socket NAME in `/tmp/robot_rl-UID`, or in the folder that ROBOT_RL_LINKS names: the same one
however a user has logged in, and also when nobody is (XDG_RUNTIME_DIR goes with the last log-out, and a run in `tmux`
does not). It is made when it is needed, and looked at each time: one that belongs to another user, that others may
enter, or that is a symbolic link, is never used.

Beside the socket of a service that wants one lies its secret, `NAME.secret`.
"""

import contextlib
import errno
import fcntl
import os
import re
import secrets
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

from robot_rl.types import LinkError

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")
SECRET_BYTES = 16
_LONGEST = 107  # bytes of a socket's path (unix(7): sun_path has 108, the last one is zero)
_WAITING = 100  # connections that the system holds until they are taken
_SECRET = ".secret"


def folder() -> Path:
    """This user's folder of sockets, made if it is missing. LinkError if others could have their hands in it."""
    path = Path(os.environ.get("ROBOT_RL_LINKS") or f"/tmp/robot_rl-{os.geteuid()}")
    try:
        with contextlib.suppress(FileExistsError):
            path.mkdir(mode=0o700)
        found = path.lstat()
    except OSError as error:
        raise LinkError(f"the folder of sockets {path} cannot be made: {error.strerror}. Name another one in "
                        "ROBOT_RL_LINKS") from error  # fmt: skip
    if stat.S_ISLNK(found.st_mode) or not stat.S_ISDIR(found.st_mode):
        raise LinkError(f"{path} is no folder, and the sockets of this user belong there: remove it, or name another "
                        "folder in ROBOT_RL_LINKS")  # fmt: skip
    if found.st_uid != os.geteuid():
        raise LinkError(f"the folder of sockets {path} belongs to another user (uid {found.st_uid}), who could listen "
                        "in: have it removed, or name another folder in ROBOT_RL_LINKS")  # fmt: skip
    if mode := stat.S_IMODE(found.st_mode) & 0o077:
        raise LinkError(f"others may enter the folder of sockets {path} (mode {stat.S_IMODE(found.st_mode):04o}, of "
                        f"which {mode:04o} is too much). If nobody has: chmod 700 {path}")  # fmt: skip
    return path


def path_of(name: str) -> Path:
    """Where the socket `local://NAME` is. LinkError if its folder cannot be used, or its path is too long."""
    path = folder() / name
    if len(os.fsencode(path)) > _LONGEST:
        raise LinkError(f"{path} is too long for a socket (at most {_LONGEST} bytes): name a shorter folder in "
                        "ROBOT_RL_LINKS")  # fmt: skip
    return path


def new_name() -> str:
    """One that nobody has."""
    return secrets.token_hex(6)


class LocalListener:
    """A socket that listens at `local://NAME`. `detach` hands its descriptor over; `remove` takes its file away.

    OSError (EADDRINUSE) if somebody listens there already. What processes that were killed have left is removed.
    """

    def __init__(self, name: str):
        self._path = path_of(name)
        self._pid = os.getpid()
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.setblocking(False)
        try:
            with _alone(self._path.parent):
                _sweep(self._path.parent)
                self._socket.bind(str(self._path))
                self._socket.listen(_WAITING)
                self._file = self._path.stat().st_ino
        except BaseException:
            self._socket.close()
            raise

    def detach(self) -> int:
        return self._socket.detach()

    def remove(self) -> None:
        """Remove the file, and the secret beside it, unless another socket has this name by now."""
        if os.getpid() != self._pid:  # of a fork: the socket is its parent's
            return
        with contextlib.suppress(OSError), _alone(self._path.parent):
            if self._path.stat().st_ino == self._file:
                self._path.unlink()
                self._path.with_suffix(_SECRET).unlink(missing_ok=True)


def lay_secret(name: str, secret: bytes) -> None:
    """Let the secret of the service that listens at `local://NAME` lie beside it, for clients of this user to find."""
    path = path_of(name).with_suffix(_SECRET)
    draft = path.with_suffix(f".{secrets.token_hex(6)}{_SECRET}")
    try:
        with _alone(path.parent):
            with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(secret.hex())
            draft.rename(path)
    except OSError as error:
        raise LinkError(f"the secret {path} cannot be written: {error.strerror}. Make room there") from error


def read_secret(name: str) -> bytes:
    """The secret of the service at `local://NAME`; zeros if there is none."""
    try:
        drawn = bytes.fromhex(path_of(name).with_suffix(_SECRET).read_text())
    except (OSError, ValueError):
        return bytes(SECRET_BYTES)
    return drawn if len(drawn) == SECRET_BYTES else bytes(SECRET_BYTES)


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Among the processes of this user nobody else makes or removes sockets meanwhile."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _sweep(path: Path) -> None:
    """Remove sockets at which nobody listens any more, and the secrets beside them."""
    for entry in list(path.iterdir()):
        with contextlib.suppress(FileNotFoundError):
            if entry.suffix == _SECRET and not entry.with_suffix("").exists():
                entry.unlink()
            elif entry.is_socket() and not _is_heard(entry):
                entry.unlink()
                entry.with_suffix(_SECRET).unlink(missing_ok=True)


def _is_heard(path: Path) -> bool:
    """Whether somebody listens at this socket; whoever does not answer at once does."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except OSError as error:
            return error.errno not in (errno.ECONNREFUSED, errno.ENOENT)
    return True
