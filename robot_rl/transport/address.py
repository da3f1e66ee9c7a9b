"""Addresses: `tcp://HOST:PORT`, or `tcp://MACHINE@HOST:PORT` with the name under which that machine's key is trusted.

Loopback needs no keys, unless a machine is named: `tcp://self@127.0.0.1:PORT` asks for them there too, which is how a
process reaches a service of its own machine that listens to other machines as well.
"""

from dataclasses import dataclass

from robot_rl.transport.keys import SELF
from robot_rl.types import LinkError

_LOCAL_HOSTS = ("127.0.0.1", "localhost", "[::1]")
_ALL_INTERFACES = ("*", "0.0.0.0", "[::]")


@dataclass(frozen=True)
class Address:
    """Where a service listens. `endpoint` is what ZeroMQ is told; `machine` may be empty."""

    endpoint: str
    machine: str = ""
    host: str = ""

    @property
    def needs_keys(self) -> bool:
        """Whether others than this machine could be at the other end, or keys were asked for."""
        return bool(self.machine) or (self.host != "" and self.host not in _LOCAL_HOSTS)

    @property
    def is_all_interfaces(self) -> bool:
        """Whether one can listen at it, but not connect to it."""
        return self.host in _ALL_INTERFACES


def parse_address(text: str) -> Address:
    """The address, or a LinkError that says how to write one."""
    scheme, _, rest = text.partition("://")
    if scheme in ("ipc", "inproc") and rest:
        return Address(text)
    place, _, port = rest.rpartition(":")
    machine, at, host = place.rpartition("@")
    good_port = port == "*" or (port.isascii() and port.isdecimal() and int(port) < 65536)
    if scheme != "tcp" or not host or not good_port or (at and not machine):
        raise LinkError(f"'{text}' is no address; write it as tcp://127.0.0.1:PORT, or tcp://HOST:PORT for another "
                        "machine")  # fmt: skip
    return Address(f"tcp://{host}:{port}", machine, host)


def reachable_here(address: str) -> str:
    """How a process of this machine connects to a service of its own that listens at `address`."""
    if not parse_address(address).is_all_interfaces:
        return address
    return f"tcp://{SELF}@127.0.0.1:{address.rpartition(':')[2]}"


def consecutive_addresses(first: str, count: int) -> list[str]:
    """`count` addresses from the first on, port after port. LinkError if it names no port, or too high a one."""
    place, _, port = first.rpartition(":")
    parse_address(first)
    if port == "*" or int(port) + count > 65536:
        raise LinkError(f"'{first}' must name the first of {count} free ports, as in tcp://0.0.0.0:5560")
    return [f"{place}:{int(port) + i}" for i in range(count)]
