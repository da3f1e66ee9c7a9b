"""Who may come in: ZeroMQ asks this, at each CURVE handshake with a socket of this process (ZAP,
RFC 27 of ZeroMQ).

Of our own instead of pyzmq's ThreadAuthenticator: its callback is not told where somebody comes
from, an exception in it ends the thread, so that nobody is let in any more, and it brings an event
loop into the arm's process.
"""

import errno
import hashlib
import logging
import threading

import zmq

from robot_rl.links.keys import Keyring
from robot_rl.links.seldom import Seldom
from robot_rl.types import LinkError, RobotRLError

log = logging.getLogger(__name__)

MOST_LINES = 6
"""About strangers in a minute: who is refused tries twenty times a second, under as many keys as it
likes.
"""

NO_FILES = (errno.EMFILE, errno.ENFILE)
_ENDPOINT = "inproc://zeromq.zap.01"
_lock = threading.Lock()
_running: "AllowList | None" = None


def guard(socket: "zmq.Socket[bytes]", keys: Keyring, *, alone: bool = False) -> None:
    """Let only machines that `keys` trusts connect to this socket, encrypted. Before bind.
    LinkError without keys.

    `alone`: none but this machine is expected; then keys are made if there are none.
    """
    global _running
    pair = keys.make() if alone else keys.require_own()
    if not alone and not keys.trusted():
        log.warning(
            "no machine is trusted yet, so none can connect: robot-rl keys --trust NAME KEY"
        )
    with _lock:
        # another context after a fork
        if _running is None or _running.context is not socket.context:
            _running = AllowList(socket.context)
        domain = _running.add(keys)
    socket.setsockopt(zmq.CURVE_SERVER, 1)
    socket.setsockopt(zmq.CURVE_SECRETKEY, pair.secret)
    socket.setsockopt(zmq.ZAP_DOMAIN, domain)
    socket.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)  # nobody comes in if nobody answers


class AllowList:
    """Answers in a thread of its own for the rest of the process; reads the keyring anew for each
    handshake.
    """

    def __init__(self, context: "zmq.Context[zmq.Socket[bytes]]"):
        self.context = context
        self._keyrings: dict[bytes, Keyring] = {}
        # the keys that each held when it was last read
        self._known: dict[bytes, frozenset[bytes]] = {}
        self._seldom = Seldom(log, MOST_LINES)
        self._socket: zmq.Socket[bytes] = context.socket(zmq.REP)
        self._socket.setsockopt(zmq.LINGER, 0)
        try:
            self._socket.bind(_ENDPOINT)
        except zmq.ZMQError as error:
            raise LinkError(
                f"another part of this process answers for its keys: {error.strerror}"
            ) from error
        threading.Thread(target=self._run, name="allow_list", daemon=True).start()

    def add(self, keys: Keyring) -> bytes:
        """The domain under which this keyring is asked."""
        domain = (
            hashlib
            .sha256(str(keys.folder).encode(errors="surrogateescape"))
            .hexdigest()[:16]
            .encode()
        )
        self._known[domain] = keys.may_come_in()
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

    def _is_allowed(
        self, domain: bytes, mechanism: bytes, credentials: list[bytes], address: bytes
    ) -> bool:
        keys = self._keyrings.get(domain)
        if keys is None or mechanism != b"CURVE" or len(credentials) != 1:
            return False
        peer = address.decode(errors="replace")
        try:
            known = self._known[domain] = self._read(domain, keys)
        except (RobotRLError, OSError) as error:
            self._seldom.error("nobody is let in, %s neither: %s", peer, error)
            return False
        if credentials[0] in known:
            return True
        self._seldom.warning(
            "somebody at %s is refused: its key, %s..., is not trusted here. If that is a machine of yours, run "
            "`robot-rl keys` there: it prints the line to run here", peer, credentials[0].hex()[:8],
        )  # fmt: skip
        return False

    def _read(self, domain: bytes, keys: Keyring) -> frozenset[bytes]:
        """The keys that may come in; those that were read last while this process cannot open
        another file.
        """
        try:
            return keys.may_come_in()
        except OSError as error:
            if error.errno not in NO_FILES:
                raise
            return self._known[domain]
