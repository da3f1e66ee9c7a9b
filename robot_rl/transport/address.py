"""Addresses: `local://NAME` within this machine, `tcp://HOST:PORT` or `tcp://MACHINE@HOST:PORT` between machines.

`local://NAME` is a socket in a folder of this user's own (`local.py`); no other account reaches it, and it needs no
keys. Whatever is tcp has keys (`keys.py`), since neither accounts nor browsers are told apart there: MACHINE is the
name under which the other side's key is trusted. On loopback that is this machine's own, if no other is said.
"""

from dataclasses import dataclass

from robot_rl.transport import local
from robot_rl.transport.keys import SELF
from robot_rl.types import LinkError

_LOCAL_HOSTS = ("127.0.0.1", "localhost", "[::1]")
_ALL_INTERFACES = ("*", "0.0.0.0", "[::]")


@dataclass(frozen=True)
class Address:
    """Where a service listens. `endpoint` is how ZeroMQ would write it without keys; `machine` may be empty."""

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
    if scheme == "local" and (rest == "*" or local.NAME.fullmatch(rest)):
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
    """`count` addresses from the first on, port after port. LinkError if it names no port, or too high a one."""
    place, _, port = first.rpartition(":")
    if parse_address(first).is_local or port == "*" or int(port) + count > 65536:
        raise LinkError(f"'{first}' must name the first of {count} free ports, as in tcp://0.0.0.0:5560")
    return [f"{place}:{int(port) + i}" for i in range(count)]
