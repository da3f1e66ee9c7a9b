"""A bad network between actor and learner: local sockets that can be cut, stalled and left
half-open.

A stream loses no byte of a connection that lives, so what a bad network does to a program is one of
these: it breaks, in the middle of a message as a rule; nothing comes for a while and then
everything; or one side waits on a connection that the other side no longer knows.
"""

import contextlib
import random
import socket
import threading
import time

from robot_rl.links.address import LocalListener, parse_address, path_of
from robot_rl.links.sockets import free_addresses

_CHUNK = 1 << 16
_BREAKING_S = 0.05


class Proxy:
    """Passes connections to `address` on to `target`. All methods may be called from any thread.

    ```
    proxy = Proxy(learner_address)
    actor connects to proxy.address
    # every connection is reset, in the middle of what it carries; new ones are refused
    proxy.cut()
    proxy.stall()       # connections stay and carry nothing; new ones too
    # the connections that there are stay open and never carry anything again; new ones work
    proxy.forget()
    proxy.heal()        # all is well again, what was stalled goes on
    ```
    """

    def __init__(self, target: str, seed: int = 0):
        self.address = free_addresses(1)[0]
        self._target = str(path_of(parse_address(target).name))
        self._random = random.Random(seed)
        self._flowing = threading.Event()
        self._flowing.set()
        self._refusing = False
        self._closing = False
        self._connections: list[_Connection] = []
        self._local = LocalListener(parse_address(self.address).name)
        self._listener = socket.socket(fileno=self._local.detach())
        self._listener.setblocking(True)
        threading.Thread(target=self._accept, name="proxy", daemon=True).start()

    def cut(self) -> None:
        self._refusing = True
        taken = self._take_all()
        for connection in taken:
            connection.is_breaking = True
        time.sleep(_BREAKING_S)  # what comes meanwhile is carried by half
        for connection in taken:
            connection.reset()

    def stall(self) -> None:
        self._flowing.clear()

    def forget(self) -> None:
        for connection in self._take_all():
            connection.is_deaf = True

    def heal(self) -> None:
        self._refusing = False
        self._flowing.set()

    def close(self) -> None:
        self._closing = True
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the accepting thread
        self._listener.close()
        self._local.remove()
        self.cut()
        self._flowing.set()

    def _take_all(self) -> list["_Connection"]:
        taken, self._connections = self._connections, []
        return taken

    def _accept(self) -> None:
        while not self._closing:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            try:
                if self._refusing:
                    raise ConnectionRefusedError
                server.connect(self._target)
            except OSError:  # as where nobody listens: the learner is away
                server.close()
                client.close()
                continue
            self._connections.append(_Connection(client, server, self._flowing, self._random))


class _Connection:
    """Both directions of one connection, a thread each."""

    def __init__(
        self,
        client: socket.socket,
        server: socket.socket,
        flowing: threading.Event,
        draw: random.Random,
    ):
        self.is_deaf = False
        self.is_breaking = False  # with the next chunk, of which a part is carried
        self._ends = (client, server)
        self._flowing, self._random = flowing, draw
        for source, sink in (self._ends, self._ends[::-1]):
            threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    def reset(self) -> None:
        """Break it now."""
        for end in self._ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)  # wakes its thread

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(_CHUNK):
                self._flowing.wait()
                if self.is_breaking:
                    sink.sendall(data[: self._random.randrange(len(data))])
                    break
                if not self.is_deaf:
                    sink.sendall(data)
        if self.is_deaf and not self.is_breaking:
            return  # one side has given up: the other one is not told
        for end in self._ends:
            with contextlib.suppress(OSError):
                end.close()
