"""Addresses: `local://NAME` within this machine, `tcp://HOST:PORT` or `tcp://MACHINE@HOST:PORT`
between machines.

`local://NAME` is the socket NAME in a folder that only this user can enter, so that no other
account reaches it, and it needs no keys: `/tmp/robot_rl-UID`, or the folder that ROBOT_RL_LINKS
names. It is the same one however a user has logged in, and also when nobody is (XDG_RUNTIME_DIR
goes with the last log-out, and a run in `tmux` does not). It is made when it is needed, and looked
at each time: one that belongs to another user, that others may enter, or that is a symbolic link,
is never used. Beside the socket of a service that wants one lies its secret, `NAME.secret`.

Whatever is tcp has keys (`keys.py`), since neither accounts nor browsers are told apart there:
MACHINE is the name under which the other side's key is trusted. On loopback that is this machine's
own, if no other is said.
"""

import contextlib
import errno
import fcntl
import os
import re
import secrets
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from robot_rl.links.keys import SELF
from robot_rl.machine.private import private_folder
from robot_rl.types import LinkError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")
_LOCAL_HOSTS = ("127.0.0.1", "localhost", "[::1]")
_ALL_INTERFACES = ("*", "0.0.0.0", "[::]")
_LONGEST = 107  # bytes of a socket's path (unix(7): sun_path has 108, the last one is zero)
_WAITING = 100  # connections that the system holds until they are taken
_SECRET = ".secret"
_NO_SECRET = bytes(16)


@dataclass(frozen=True)
class Address:
    """Where a service listens. `endpoint` is how ZeroMQ would write it without keys; `machine` may
    be empty.
    """

    endpoint: str
    machine: str = ""
    host: str = ""
    name: str = ""  # of a socket of this machine

    @property
    def is_local(self) -> bool:
        """Whether it is a socket in this user's own folder."""
        return self.name != ""

    @property
    def is_loopback(self) -> bool:
        """Whether it is tcp within this machine, and no other machine's key was asked for."""
        return self.host in _LOCAL_HOSTS and self.machine in ("", SELF)

    @property
    def is_all_interfaces(self) -> bool:
        """Whether one can listen at it, but not connect to it."""
        return self.host in _ALL_INTERFACES


def parse_address(text: str) -> Address:
    """The address, or a LinkError that says how to write one."""
    scheme, _, rest = text.partition("://")
    if scheme == "local" and (rest == "*" or _NAME.fullmatch(rest)):
        return Address(text, name=rest)
    place, _, port = rest.rpartition(":")
    machine, at, host = place.rpartition("@")
    good_port = port == "*" or (port.isascii() and port.isdecimal() and int(port) < 65536)
    if scheme != "tcp" or not host or not good_port or (at and not machine):
        raise LinkError(f"'{text}' is no address; write it as local://NAME (letters, digits, '_' and '-'), or as "
                        "tcp://HOST:PORT for another machine")  # fmt: skip
    return Address(f"tcp://{host}:{port}", machine, host)


def reachable_here(address: str) -> str:
    """How a process of this machine connects to a service of its own that listens at `address`."""
    if not parse_address(address).is_all_interfaces:
        return address
    return f"tcp://{SELF}@127.0.0.1:{address.rpartition(':')[2]}"


def consecutive_addresses(first: str, count: int) -> list[str]:
    """`count` addresses from the first on, port after port. LinkError if it names no port, or too
    high a one.
    """
    place, _, port = first.rpartition(":")
    if parse_address(first).is_local or port == "*" or int(port) + count > 65536:
        raise LinkError(
            f"'{first}' must name the first of {count} free ports, as in tcp://0.0.0.0:5560"
        )
    return [f"{place}:{int(port) + i}" for i in range(count)]


# -------------------------------------------------------------------------- sockets of this machine


def _folder() -> Path:
    """This user's folder of sockets, made if it is missing. LinkError if others could have their
    hands in it.
    """
    path = Path(os.environ.get("ROBOT_RL_LINKS") or f"/tmp/robot_rl-{os.geteuid()}")
    try:
        return private_folder(path, was_closed=True)
    except OSError as error:
        raise LinkError(f"the folder of sockets {path} cannot be used: {error}. Mend that, or name another folder in "
                        "ROBOT_RL_LINKS") from error  # fmt: skip


def path_of(name: str) -> Path:
    """Where the socket `local://NAME` is. LinkError if its folder cannot be used, or its path is
    too long.
    """
    path = _folder() / name
    if len(os.fsencode(path)) > _LONGEST:
        raise LinkError(f"{path} is too long for a socket (at most {_LONGEST} bytes): name a shorter folder in "
                        "ROBOT_RL_LINKS")  # fmt: skip
    return path


def new_name() -> str:
    """One that nobody has."""
    return secrets.token_hex(6)


class LocalListener:
    """A socket that listens at `local://NAME`. `detach` hands its descriptor over; `remove` takes
    its file away.

    OSError (EADDRINUSE) if somebody listens there already. What processes that were killed have
    left is removed.
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


def draw_secret(address: str) -> bytes:
    """A new secret for the service that is bound there, which lies beside its socket; zeros where
    there are keys.

    The keys say the same: who has them is this user, or a machine that is trusted.
    """
    drawn = secrets.token_bytes(len(_NO_SECRET)) if parse_address(address).is_local else _NO_SECRET
    keep_secret(address, drawn)
    return drawn


def keep_secret(address: str, secret: bytes) -> None:
    """Lay it beside its socket again: what lies in a temporary folder for many days is cleared
    away.
    """
    where = parse_address(address)
    if not where.is_local:
        return
    path = path_of(where.name).with_suffix(_SECRET)
    draft = path.with_suffix(f".{secrets.token_hex(6)}{_SECRET}")
    try:
        with _alone(path.parent):
            with os.fdopen(
                os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w"
            ) as file:
                file.write(secret.hex())
            draft.rename(path)
    except OSError as error:
        raise LinkError(
            f"the secret {path} cannot be written: {error.strerror}. Make room there"
        ) from error


def read_secret(address: str) -> bytes:
    """The secret of the service that listens there, for clients of the same user; zeros if there is
    none.
    """
    where = parse_address(address)
    if not where.is_local:
        return _NO_SECRET
    try:
        drawn = bytes.fromhex(path_of(where.name).with_suffix(_SECRET).read_text())
    except (OSError, ValueError):
        return _NO_SECRET
    return drawn if len(drawn) == len(_NO_SECRET) else _NO_SECRET


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
