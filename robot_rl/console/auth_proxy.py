"""The door to the page: it is asked before each request, and says who may see the page and who is
told why not.

Whoever comes needs the token, also on loopback, where the other accounts of the machine come from.
It stands in the link, once; a cookie keeps it, for one path alone, since a browser shows a cookie
to every port of a machine. A site that is open in the same browser, or a name that was bent to this
machine, does not come in. There is no encryption: through a network that is not trusted, take an
ssh tunnel.
"""

import hashlib
import hmac
import ipaddress
import logging
import math
import struct
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

log = logging.getLogger(__name__)
COOKIE = "robot_rl_console"
LOCAL = ("localhost", "127.0.0.1", "[::1]")
FREE_GUESSES = 5  # nobody is slowed down for pasting half a link
SLOWEST_S = 10.0
SENDERS = 1000  # whose guesses are counted apart; those that come later are counted together
KEEP_QUIET = (
    ("Referrer-Policy", "no-referrer"),
    ("Cache-Control", "no-store"),
    ("Content-Security-Policy", "frame-ancestors 'none'"),
    ("X-Content-Type-Options", "nosniff"),
)
"""Fields of every answer: its address is told to no other site, and no other site shows it in a
frame.
"""


@dataclass(frozen=True)
class Answer:
    """What is said to somebody in the page's stead."""

    status: int
    body: str = ""
    fields: tuple[tuple[str, str], ...] = ()


class Guesses:
    """Wrong tokens, by who sent them. After a few, who sends them waits longer and longer until the
    next is looked at.

    What comes while somebody waits is not compared with the token at all. Others do not wait for
    them.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self.total = 0
        self._clock = clock
        self._wrong: dict[str, int] = {}
        self._until: dict[str, float] = {}

    def wait_s(self, sender: str) -> float:
        """How long a sender has to wait until something is looked at."""
        return max(0.0, self._until.get(self._known(sender), 0.0) - self._clock())

    def wrong(self, sender: str) -> None:
        """A sender's token was looked at, and wrong. Every tenfold of all of them is said in the
        log.
        """
        self.total += 1
        known = self._known(sender)
        self._wrong[known] = count = self._wrong.get(known, 0) + 1
        if count >= FREE_GUESSES:
            self._until[known] = self._clock() + min(
                SLOWEST_S, 2.0 ** min(count - FREE_GUESSES, 10)
            )
        if self.total == FREE_GUESSES or (
            self.total > FREE_GUESSES and math.log10(self.total).is_integer()
        ):
            log.warning(
                "the console's page was asked for with %d wrong tokens; the last from %s",
                self.total,
                sender,
            )

    def right(self, sender: str) -> None:
        """A sender had the token: what went before is forgotten."""
        self._wrong.pop(sender, None)
        self._until.pop(sender, None)

    def _known(self, sender: str) -> str:
        return sender if sender in self._wrong or len(self._wrong) < SENDERS else "others"


class AuthProxy:
    """Of a page that listens at `host` and `port`."""

    def __init__(self, host: str, port: int, token: str):
        self.guesses = Guesses()
        self._token = token
        self._names = (*LOCAL, _in_link(host)) if is_loopback(host) else ()
        kept = hashlib.scrypt(token.encode(), salt=b"robot_rl console", n=1 << 14, r=8, p=1).hex()
        self._cookie_name, self._cookie, self._path = (
            f"{COOKIE}_{port}",
            kept[:64],
            f"/{kept[64:96]}",
        )
        self.url = f"http://{_in_link(host)}:{port}/?token={token}"

    def ask(
        self, target: str, fields: Sequence[tuple[str, str]], peer: tuple[str, int]
    ) -> str | Answer:
        """The path of the page that a request is for, or what is answered to it in the page's
        stead.

        `target` is what stands behind GET, `fields` are those of its head, `peer` is the address
        that it came from.
        """
        try:
            url = urlsplit(target)
            said = parse_qs(url.query).get("token", [])
            said_by = _values(fields, "origin"), _values(fields, "host")
            foreign = self._is_foreign(*said_by)
        except ValueError:
            return Answer(400, "This is no request for a page.")
        if foreign:
            return Answer(403, foreign)
        if said:
            return self._look_at(said[0], sender_of(peer))
        if self._has_cookie(fields) and (url.path + "/").startswith(self._path + "/"):
            return url.path.removeprefix(self._path) or "/"
        return Answer(403, "Open the link with the token that robot-rl console printed.")

    def _is_foreign(self, origins: Sequence[str], hosts: Sequence[str]) -> str:
        """Why a request was not meant for this page, "" if it was."""
        if len(hosts) != 1 or any(urlsplit(origin).netloc != hosts[0] for origin in origins):
            return "This page takes no requests from other sites."
        name, _, port = hosts[0].rpartition(":")
        named = name if port.isdigit() else hosts[0]
        if self._names and named not in self._names:
            return (
                f"This page is for this machine alone: open it as one of {', '.join(self._names)}."
            )
        return ""

    def _look_at(self, token: str, sender: str) -> Answer:
        """A link with a token in it."""
        if (wait_s := math.ceil(self.guesses.wait_s(sender))) > 0:
            again = (("Retry-After", f"{wait_s}"), ("Refresh", f"{wait_s}"))
            why = (
                f"Too many wrong tokens came from here. This one is looked at in {wait_s} s; leave"
                " this page open."
            )
            return Answer(429, why, again)
        if not _same(token, self._token):
            self.guesses.wrong(sender)
            return Answer(
                403, "The token in this link is not this console's. Open the link that it printed."
            )
        self.guesses.right(sender)
        cookie = f"{self._cookie_name}={self._cookie}; HttpOnly; SameSite=Strict; Path={self._path}"
        return Answer(303, "", (("Location", f"{self._path}/"), ("Set-Cookie", cookie)))

    def _has_cookie(self, fields: Sequence[tuple[str, str]]) -> bool:
        parts = [
            part.strip().partition("=")
            for line in _values(fields, "cookie")
            for part in line.split(";")
        ]
        return any(
            name == self._cookie_name and _same(value, self._cookie) for name, _, value in parts
        )


def is_loopback(host: str) -> bool:
    """Whether only this machine can come to an address."""
    if host == "localhost":
        return True
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return False


def sender_of(peer: tuple[str, int]) -> str:
    """Who is at the other end of a connection: an account of this machine, or an address (of IPv6
    its network).
    """
    try:
        address = ipaddress.ip_address(peer[0].partition("%")[0])
    except ValueError:
        return peer[0]
    address = getattr(address, "ipv4_mapped", None) or address
    if uid := _account_at(address, peer[1]):
        return f"user {uid} of this machine"
    return (
        str(address)
        if address.version == 4
        else str(ipaddress.ip_network((address, 64), strict=False))
    )


def _account_at(address: ipaddress.IPv4Address | ipaddress.IPv6Address, port: int) -> str:
    """The user id of a living socket of this machine, "" if it is another machine's, or one that
    has hung up.
    """
    table = Path("/proc/net/tcp" if address.version == 4 else "/proc/net/tcp6")
    words = struct.unpack(f"={len(address.packed) // 4}I", address.packed)
    end = "".join(f"{word:08X}" for word in words) + f":{port:04X}"
    with suppress(OSError):
        for line in table.read_text().splitlines()[1:]:
            _, local, _, state, _, _, _, uid = line.split()[:8]
            if local == end and state in (
                "01",
                "08",
            ):  # connected, or has said all that it had to say
                return uid
    return ""


def _in_link(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _values(fields: Sequence[tuple[str, str]], name: str) -> list[str]:
    return [value.strip() for key, value in fields if key.lower() == name]


def _same(said: str, true: str) -> bool:
    return hmac.compare_digest(said.encode(errors="replace"), true.encode())
