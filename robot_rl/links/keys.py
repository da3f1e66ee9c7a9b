"""This machine's CURVE keys, and the public keys of the machines that it trusts.

A folder, `~/.config/robot_rl/keys` or where ROBOT_RL_KEYS says:

    secret.key        this machine's secret key; only its owner can read it
    trusted/NAME.key  the public key of another machine

Keys are 32 bytes, written as 64 hex digits, so that they pass through a shell as they are. The
names are this machine's own for the others. Changes count from the next connection on; one that is
open stays.
"""

import contextlib
import errno
import os
import re
import secrets
import socket
from dataclasses import dataclass, field
from pathlib import Path

import zmq
from zmq.utils import z85

from robot_rl.machine.private import make_secret
from robot_rl.machine.validation import nearest
from robot_rl.types import ConfigError, LinkError

SELF = "self"
"""The name under which a machine knows its own key."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_KEY = re.compile(r"[0-9a-fA-F]{64}")


@dataclass(frozen=True)
class KeyPair:
    """32 bytes each."""

    public: bytes
    secret: bytes = field(repr=False)


class Keyring:
    """The keys in a folder. Nothing is cached: what another process trusts or revokes counts at
    once.
    """

    def __init__(self, folder: Path | None = None):
        self.folder = folder or default_folder()
        self._secret = self.folder / "secret.key"
        self._trusted = self.folder / "trusted"

    def own(self) -> KeyPair | None:
        """This machine's pair, or None. ConfigError if others can read the secret key or it is
        damaged.
        """
        try:
            mode = self._secret.stat().st_mode & 0o777
            if mode & 0o077:
                raise ConfigError(
                    f"secret key {self._secret} can be read by others (mode {mode:04o}; allowed:"
                    f" 0600). If nobody has: chmod 600 {self._secret}. Else remove it, make another"
                    " with `robot-rl keys`, and trust that one on the other machines"
                )
            secret = _decoded(self._secret)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):  # nothing is wrong with the key
                raise
            raise ConfigError(
                f"secret key {self._secret} cannot be read: {error.strerror}"
            ) from error
        return KeyPair(z85.decode(zmq.curve_public(z85.encode(secret))), secret)

    def make(self) -> KeyPair:
        """This machine's pair, made now if there is none."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._trusted.mkdir(mode=0o700, exist_ok=True)
            if not self._secret.exists():
                make_secret(self._secret, z85.decode(zmq.curve_keypair()[1]).hex())
        except OSError as error:
            raise ConfigError(
                f"keys cannot be written to {self.folder}: {error.strerror}"
            ) from error
        pair = self.own()
        if pair is None:
            raise ConfigError(f"secret key {self._secret} vanished while it was made")
        return pair

    def require_own(self) -> KeyPair:
        """This machine's pair; LinkError if there is none."""
        pair = self.own()
        if pair is None:
            raise LinkError(f"links to other machines need keys, and {self.folder} has none. Make them with "
                            "`robot-rl keys`; it says what to do on the other machine")  # fmt: skip
        return pair

    def trust(self, name: str, key: str) -> None:
        """Trust the machine that has this public key, and call it `name`. ConfigError if either is
        none.

        A name that stands for another key already must be revoked first.
        """
        check_name(name)
        public = parse_key(key)
        self.make()
        known = self.trusted().get(name)
        if known not in (None, public):
            raise ConfigError(f"'{name}' is trusted with another key, {known.hex()[:8]}...; if that machine has new "
                              f"keys: robot-rl keys --revoke {name}, then again")  # fmt: skip
        try:
            draft = self._trusted / f".{name}.{secrets.token_hex(8)}"
            draft.touch(0o644, exist_ok=False)
            draft.write_text(public.hex() + "\n")
            draft.rename(self._trusted / f"{name}.key")
        except OSError as error:
            raise ConfigError(
                f"keys cannot be written to {self._trusted}: {error.strerror}"
            ) from error

    def revoke(self, name: str) -> None:
        """Trust this machine no longer. A connection that it has stays: restart what it is
        connected to.
        """
        if name not in self.trusted():
            raise ConfigError(f"'{name}' is not trusted; there is: {nearest(name, self.trusted())}")
        (self._trusted / f"{name}.key").unlink(missing_ok=True)

    def trusted(self) -> dict[str, bytes]:
        """The public key of each trusted machine, by name."""
        found = {}
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            for name in sorted(os.listdir(self._trusted)):  # noqa: PTH208, a glob hides why a folder cannot be read
                if name.endswith(".key") and not name.startswith("."):
                    with contextlib.suppress(FileNotFoundError):  # revoked a moment ago
                        found[name.removesuffix(".key")] = _decoded(self._trusted / name)
        return found

    def may_come_in(self) -> frozenset[bytes]:
        """The public keys of the trusted machines and of this one."""
        pair = self.own()
        return frozenset([*self.trusted().values(), *([pair.public] if pair is not None else [])])

    def server(self, machine: str, host: str) -> tuple[str, bytes]:
        """Name and public key of the machine to connect to, from the address
        `tcp://MACHINE@HOST:PORT`.

        Without MACHINE it is the trusted one that has the host's name, else the only one that is
        trusted. LinkError if that leaves it open.
        """
        if machine == SELF:
            return SELF, self.require_own().public
        trusted = self.trusted()
        name = machine or (host if host in trusted else "")
        if not name and len(trusted) == 1:
            (name,) = trusted
        if name in trusted:
            return name, trusted[name]
        if not trusted or name:
            whose = f"'{name}'" if name else f"the machine at {host}"
            raise LinkError(f"the key of {whose} is not trusted here. On that machine, `robot-rl keys` prints the line "
                            f"to run on this one; trusted are: {', '.join(trusted) or 'none'}")  # fmt: skip
        raise LinkError(f"which machine is at {host}? Several are trusted: {', '.join(trusted)}; write the address as "
                        f"tcp://NAME@{host}:PORT")  # fmt: skip


def default_folder() -> Path:
    """Where this user's keys are."""
    return Path(os.environ.get("ROBOT_RL_KEYS") or Path.home() / ".config" / "robot_rl" / "keys")


def check_name(name: str) -> str:
    """The name, if a machine can be called so; else ConfigError."""
    if not _NAME.fullmatch(name) or name == SELF:
        raise ConfigError(f"'{name}' cannot be a machine's name: 1 to 63 letters, digits, '.', '_' or '-', the first a "
                          f"letter or digit, and not '{SELF}'")  # fmt: skip
    return name


def parse_key(key: str) -> bytes:
    """The 32 bytes of a key as people copy it; else ConfigError."""
    if not _KEY.fullmatch(key.strip()):
        raise ConfigError(
            f"{key!r} is no public key: it has 64 hex digits, as `robot-rl keys` prints them"
        )
    return bytes.fromhex(key.strip())


def this_machine() -> str:
    """What others may call this machine: its host name, made fit for a name."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", socket.gethostname().split(".")[0]).strip("._-")
    return name[:63] if name and name != SELF and name != "localhost" else "robot-rl"


def _decoded(path: Path) -> bytes:
    text = path.read_bytes()[:1000].decode(errors="replace")
    if not _KEY.fullmatch(text.strip()):
        raise ConfigError(
            f"{path} holds no key: a key has 64 hex digits. Restore or remove the file"
        )
    return bytes.fromhex(text.strip())
