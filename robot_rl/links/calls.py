"""Calls: a request and its reply, by name, with a JSON body and named arrays. A bad request never
ends the server.

Frames of a request: JSON {id, name, body} | named arrays. Of a reply: JSON {id, body} or {id,
error} | named arrays. Beside an error that asking again does not mend stands `refused`.
"""

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import zmq

from robot_rl import packing as named
from robot_rl.links.seldom import Seldom
from robot_rl.links.sockets import ANY_PORT, LinkSocket, bind, connect, new_socket
from robot_rl.types import Array, DataError, LinkError, RefusedError, RobotRLError

log = logging.getLogger(__name__)
_seldom = Seldom(log)

Body = Mapping[str, Any]
Arrays = Mapping[str, Array]
Handler = Callable[[dict[str, Any], dict[str, Array]], Body | tuple[Body, Arrays | bytes] | None]
"""From body and arrays to a body, to (body, arrays), or to nothing. May raise: the caller gets the
message.

Arrays that are asked for often may be packed already: as bytes (`packed`).

It may be asked the same thing twice: the caller asks again when it cannot know whether the request
arrived."""

AGAIN_S = 10.0
"""A request without an answer is sent again after this, and as soon as there is a new connection: a
server that dies takes those with it that it has taken."""

MAX_BYTES = 1 << 30
"""Of a reply's frame, which may hold a whole policy. Larger ones end the connection before they
take memory.
"""

REQUEST_BYTES = 16 << 10
"""The same of a request, unless its server expects more. Its head has no more in any case."""

LAYOUT_BYTES = 1 << 10
"""Of the layout of a request's arrays."""

WAITING = 2
"""Requests of one caller that wait to be taken, and replies that wait until one takes them; more
are lost.
"""

AT_ONCE = 16
AT_ONCE_S = 0.01
"""At one look at the requests: so many are answered at most, and none after this time."""

MOST_PAUSE_S = 1.0


class Reply(NamedTuple):
    """What a call gave back."""

    body: dict[str, Any]
    arrays: dict[str, Array]


class CallServer:
    """The answering side. Either its owner calls `poll` now and then, or `start` lets a thread do
    it (not both).

    ```
    server = CallServer(address)
    server.register("stop", lambda body, arrays: stop.set())
    while running:
        server.poll()
    ```

    Callers take turns: one that asks without a pause is answered as often as each of the others.
    """

    def __init__(self, address: str = ANY_PORT, most_bytes: int = REQUEST_BYTES):
        """Requests of more than `most_bytes` end their connection."""
        self._socket = new_socket(zmq.ROUTER, linger_s=0.5)
        self._socket.bound(most_bytes, WAITING)
        self._socket.setsockopt(zmq.SNDHWM, WAITING)
        self.address = bind(self._socket, address)
        self._handlers: dict[str, Handler] = {}
        self._free_at = 0.0
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def register(self, name: str, handler: Handler) -> None:
        self._handlers[name] = handler

    def poll(self, timeout_s: float = 0.0, share: float = 1.0) -> int:
        """Answer what is waiting, after waiting for the first up to `timeout_s`; returns how many
        there were.

        Of `AT_ONCE` at most: what else is there waits for the next time. No more than a `share` of
        the time goes into answers: when others have taken 1 ms, with a share of 0.1, none is
        answered for 9 ms. A share of 1 never waits.
        """
        if share < 1.0 and (pause_s := self._free_at - time.monotonic()) > 0.0:
            self._closing.wait(min(pause_s, timeout_s))
            if pause_s > timeout_s:
                return 0
        if not self._socket.poll(int(1000 * timeout_s)):
            return 0
        # a thread does not pay for its waiting
        clock = time.monotonic if self._thread is None else time.thread_time
        begun, worked, handled = time.monotonic(), clock(), 0
        while handled < AT_ONCE and time.monotonic() - begun < AT_ONCE_S and self._socket.poll(0):
            self._serve()
            handled += 1
        self._free_at = time.monotonic() + min(
            (clock() - worked) * (1.0 / share - 1.0), MOST_PAUSE_S
        )
        return handled

    def start(self, share: float = 1.0) -> None:
        """Answer in a thread of its own from now on, which takes no more than this share of its
        time for it.
        """
        self._thread = threading.Thread(target=self._run, args=(share,), name="calls", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        if self._thread is not None:
            self._thread.join()
        self._socket.close()

    def _run(self, share: float) -> None:
        while not self._closing.is_set():
            self.poll(0.1, share)

    def _serve(self) -> None:
        # more than one too many, so that it is told
        frames = self._socket.recv_bounded(most_frames=4)
        if frames is not None:
            self._socket.send_multipart(
                [frames[0].bytes, *self._answer([f.buffer for f in frames[1:]])], copy=False
            )

    def _answer(self, frames: Sequence[bytes | memoryview]) -> list[bytes]:
        number: Any = None
        try:
            number, name, body, arrays = _read_request(frames)
            if name not in self._handlers:
                known = ", ".join(sorted(self._handlers)) or "none"
                raise LinkError(f"there is no call '{name:.80}'; there are: {known}")
            reply = self._handlers[name](body, arrays)
            reply_body, reply_arrays = reply if isinstance(reply, tuple) else (reply or {}, {})
            return _write({"id": number, "body": reply_body}, reply_arrays)
        except RobotRLError as error:
            refused = {"refused": True} if isinstance(error, RefusedError) else {}
            return _write({"id": number, "error": str(error)} | refused, {})
        except Exception as error:  # noqa: BLE001  whatever a handler raises is the caller's to know
            _seldom.exception("a call failed")
            return _write({"id": number, "error": f"{type(error).__name__}: {error}"}, {})


class CallClient:
    """The asking side, for one thread. `who` is what an error calls the other side: "the learner"."""

    def __init__(self, address: str, who: str = "the learner"):
        self._address = address
        self._who = who
        self._number = 0
        self._socket = self._open()

    def call(
        self,
        name: str,
        body: Body | None = None,
        arrays: Arrays | None = None,
        timeout_s: float = 5.0,
    ) -> Reply:
        """Ask and wait. LinkError if the other side fails, is silent for `timeout_s`, or does not
        trust us.

        RefusedError, a kind of it, if the other side will not work with this one.
        """
        self._number += 1
        request = _write({"id": self._number, "name": name, "body": body or {}}, arrays or {})
        deadline = time.monotonic() + timeout_s
        while (remaining := deadline - time.monotonic()) > 0.0:
            over = max(1, self._socket.connections())  # before the first it waits for that one
            self._socket.send_multipart(request)
            reply = self._await_reply(name, min(remaining, AGAIN_S), over)
            if reply is not None:
                return reply
        self._reopen()
        raise LinkError(f"no answer to '{name}' from {self._who} at {self._address} within {timeout_s:g} s. "
                        "Is it running, and at this address? Start it first")  # fmt: skip

    def close(self) -> None:
        self._socket.close()

    def _await_reply(self, name: str, timeout_s: float, over: int) -> Reply | None:
        deadline = time.monotonic() + timeout_s
        while self._wait(max(0.0, deadline - time.monotonic()), over):
            reply, reply_arrays = _read(self._socket.recv_multipart())
            if reply.get("id") not in (self._number, None):
                continue  # the late answer to a call that was given up
            if "error" in reply:
                kind = RefusedError if reply.get("refused") else LinkError
                raise kind(f"{self._who} at {self._address} refused '{name}': {reply['error']}")
            if not isinstance(reply.get("body"), dict):
                raise DataError(
                    f"the answer of {self._who} at {self._address} to '{name}' has no body"
                )
            return Reply(reply["body"], reply_arrays)
        return None

    def _wait(self, timeout_s: float, over: int) -> bool:
        try:
            return self._socket.wait(timeout_s, over)
        except LinkError:
            self._reopen()
            raise

    def _reopen(self) -> None:
        """Else a request that was given up would be delivered whenever the other side comes up."""
        self._socket.close()
        self._socket = self._open()

    def _open(self) -> LinkSocket:
        socket = new_socket(zmq.DEALER)
        socket.setsockopt(zmq.MAXMSGSIZE, MAX_BYTES)
        connect(socket, self._address)
        return socket


def packed(arrays: Arrays) -> bytes:
    """Arrays as they travel. Raises DataError for a dtype that does not."""
    return b"".join(named.pack(arrays))


def _write(head: Body, arrays: Arrays | bytes) -> list[bytes]:
    return [json.dumps(head).encode(), arrays if isinstance(arrays, bytes) else packed(arrays)]


def _read(
    frames: Sequence[bytes | memoryview], most_layout: int = named.MOST_LAYOUT_BYTES
) -> tuple[dict[str, Any], dict[str, Array]]:
    try:
        head_bytes, array_bytes = frames
        head = json.loads(bytes(head_bytes))
    except (ValueError, RecursionError) as error:
        raise DataError(f"this is no call: {error!s:.200}") from error
    if not isinstance(head, dict):
        raise DataError("this is no call: its head is not an object")
    return head, named.unpack(array_bytes, most=most_layout)


def _read_request(
    frames: Sequence[bytes | memoryview],
) -> tuple[Any, str, dict[str, Any], dict[str, Array]]:
    if frames and len(frames[0]) > REQUEST_BYTES:
        raise DataError(
            f"the head of a call has {len(frames[0])} bytes; at most {REQUEST_BYTES} are allowed"
        )
    head, arrays = _read(frames, LAYOUT_BYTES)
    number, name, body = head.get("id"), head.get("name"), head.get("body")
    if type(number) is not int or not isinstance(name, str) or not isinstance(body, dict):
        raise DataError("this is no call: it lacks a number, a name or a body")
    return number, name, body, arrays
