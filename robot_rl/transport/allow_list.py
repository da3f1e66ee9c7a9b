"""Who may come in: ZeroMQ asks this, at each CURVE handshake with a socket of this process (ZAP, RFC 27 of ZeroMQ).

Of our own instead of pyzmq's authenticators, because these keep the keys that a folder held when they started, answer
for one folder only, and bring an event loop into the arm's process.
"""

import hashlib
import logging
import threading
import time

import zmq

from robot_rl.transport.keys import Keyring
from robot_rl.types import LinkError, RobotRLError

log = logging.getLogger(__name__)

REPORT_S = 60.0
_ENDPOINT = "inproc://zeromq.zap.01"
_lock = threading.Lock()
_running: "AllowList | None" = None


def guard(socket: "zmq.Socket[bytes]", keys: Keyring) -> None:
    """Let only machines that `keys` trusts connect to this socket, encrypted. Before bind. LinkError without keys."""
    global _running
    pair = keys.require_own()
    if not keys.trusted():
        log.warning("no machine is trusted yet, so none can connect: robot-rl keys --trust NAME KEY")
    with _lock:
        if _running is None or _running.context is not socket.context:  # another context after a fork
            _running = AllowList(socket.context)
        domain = _running.add(keys)
    socket.setsockopt(zmq.CURVE_SERVER, 1)
    socket.setsockopt(zmq.CURVE_SECRETKEY, pair.secret)
    socket.setsockopt(zmq.ZAP_DOMAIN, domain)
    socket.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)  # nobody comes in if nobody answers


class AllowList:
    """Answers in a thread of its own for the rest of the process; reads the keyring anew for each handshake."""

    def __init__(self, context: "zmq.Context[zmq.Socket[bytes]]"):
        self.context = context
        self._keyrings: dict[bytes, Keyring] = {}
        self._refused, self._reported = ("", ""), 0.0
        self._socket: zmq.Socket[bytes] = context.socket(zmq.REP)
        self._socket.setsockopt(zmq.LINGER, 0)
        try:
            self._socket.bind(_ENDPOINT)
        except zmq.ZMQError as error:
            raise LinkError(f"another part of this process answers for its keys: {error.strerror}") from error
        threading.Thread(target=self._run, name="allow_list", daemon=True).start()

    def add(self, keys: Keyring) -> bytes:
        """The domain under which this keyring is asked."""
        domain = hashlib.sha256(str(keys.folder).encode(errors="surrogateescape")).hexdigest()[:16].encode()
        self._keyrings[domain] = keys
        return domain

    def _run(self) -> None:
        while True:
            try:
                request = self._socket.recv_multipart()
                self._socket.send_multipart(self._answer(request))
            except zmq.ContextTerminated:
                self._socket.close()
                return
            except zmq.ZMQError:
                log.exception("a handshake was not answered")

    def _answer(self, request: list[bytes]) -> list[bytes]:
        """A reply of version, request id, status, its text, user id and metadata."""
        version, number, domain, address, _, mechanism, *credentials = request
        if self._is_allowed(domain, mechanism, credentials, address):
            return [version, number, b"200", b"OK", b"", b""]
        return [version, number, b"400", b"this key is not trusted here", b"", b""]

    def _is_allowed(self, domain: bytes, mechanism: bytes, credentials: list[bytes], address: bytes) -> bool:
        keys = self._keyrings.get(domain)
        if keys is None or mechanism != b"CURVE" or len(credentials) != 1:
            return False
        try:
            allowed = keys.may_come_in(credentials[0])
        except (RobotRLError, OSError) as error:
            log.error("nobody is let in: %s", error)
            return False
        if not allowed:
            self._report(address.decode(errors="replace"), credentials[0].hex())
        return allowed

    def _report(self, address: str, key: str) -> None:
        """Log a refusal, if it is not that of a moment ago: who is refused tries twenty times a second."""
        now = time.monotonic()
        if (address, key) != self._refused or now - self._reported > REPORT_S:
            self._refused, self._reported = (address, key), now
            log.warning(
                "a machine at %s with the key %s is refused; to let it in: robot-rl keys --trust NAME %s",
                address, key, key,
            )  # fmt: skip
