"""The status link: the latest metrics and small views of each process. It may lose
messages and never queues them.

Each process that has something to show publishes at an address of its own; a reader holds one
socket per sender, and takes the newest message alone.
"""

import json
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import zmq

from robot_rl.links.seldom import Seldom
from robot_rl.links.sockets import ANY_PORT, bind, connect, new_socket
from robot_rl.machine.small_files import finite
from robot_rl.machine.validation import from_json
from robot_rl.types import ConfigError

log = logging.getLogger(__name__)
_seldom = Seldom(log)

MAX_BYTES = 1 << 16
"""Larger messages are not accepted; pictures belong elsewhere."""

AT_ONCE = 1000
"""Messages of one sender at one look: more than wait there, if nobody sends meanwhile."""


@dataclass(frozen=True)
class RunStatus:
    """What a process of a run last said of itself, for page and terminal alike.

    What it did not say has its default; whatever else it publishes is for its own file of metrics.
    """

    t_wall: float
    """When it was published [s]."""
    phase: str = ""
    """What it is at ("waiting", "pretraining", ...); "" for a learner that learns."""
    reason: str = ""
    """Why it waits."""
    done: int = 0
    """So much of the phase is done."""
    total: int = 0
    """Of so much."""
    env_steps: int = 0
    """Own steps of the run so far."""
    owed_updates: int = 0
    """Updates that are due and not made."""
    updates_per_s: float | None = None
    """How quickly it learns."""
    q: float | None = None
    """What the critics expect on average in the batches."""
    value: float | None = None
    """What they expect of the newest step."""
    value_episode: int | None = None
    """In this episode."""
    reward_version: int = 0
    """The newest version of a judge that learns; 0: the judge does not learn."""
    relabelled: int = 0
    """So many episodes follow it that an older one had judged."""
    to_relabel: int = 0
    """So many it has still to look at."""
    drift: str = ""
    """Why the judge sees something else than it learnt from, "" if nothing says so."""


FIELDS = frozenset(field.name for field in fields(RunStatus))


class StatusPublisher:
    """One process's side, for one thread: `publish({"episode": 3, "success": 1.0})` as often as it
    likes.
    """

    def __init__(self, address: str = ANY_PORT, sender: str = ""):
        self.sender = sender
        self._socket = new_socket(zmq.PUB, linger_s=0.1)
        self._socket.setsockopt(zmq.CONFLATE, 1)
        self._socket.bound(1 << 12)  # readers send subscriptions and nothing else
        self.address = bind(self._socket, address)

    def publish(self, values: Mapping[str, Any]) -> None:
        """Values are JSON; NaN and infinities become null."""
        message = {"sender": self.sender, "t_wall": time.time(), "values": finite(values)}
        self._socket.send(json.dumps(message, allow_nan=False).encode())

    def close(self) -> None:
        self._socket.close()


class StatusReader:
    """What has come, for one thread: `latest()` is a mapping from sender to its newest status."""

    def __init__(self, addresses: Mapping[str, str]):
        self._latest: dict[str, RunStatus] = {}
        self._silent: set[str] = set()  # those of which it was logged why
        self._sockets = {}
        for sender, address in addresses.items():
            # no CONFLATE: with MAXMSGSIZE, a large second frame ends the process (4.3.5)
            socket = new_socket(zmq.SUB)
            socket.setsockopt(zmq.MAXMSGSIZE, MAX_BYTES)
            socket.setsockopt(zmq.SUBSCRIBE, b"")
            connect(socket, address)
            self._sockets[sender] = socket

    def latest(self) -> dict[str, RunStatus]:
        """The newest status of each sender that was ever heard. Never blocks."""
        for sender, socket in self._sockets.items():
            newest: bytes | None = None
            for _ in range(AT_ONCE):
                if not socket.poll(0):
                    break
                frames = socket.recv_bounded(most_frames=1)
                newest = frames[0].bytes if frames else newest
            if newest is not None:
                self._take(sender, newest)
            elif (
                sender not in self._latest
                and sender not in self._silent
                and (problem := socket.problem())
            ):
                self._silent.add(sender)
                log.warning("there will be no status of '%s': %s", sender, problem)
        return dict(self._latest)

    def close(self) -> None:
        for socket in self._sockets.values():
            socket.close()

    def _take(self, sender: str, data: bytes) -> None:
        try:
            message = json.loads(data)
            said = {name: value for name, value in message["values"].items() if name in FIELDS}
            status = from_json(RunStatus, said | {"t_wall": message["t_wall"]}, "status")
        except (
            ValueError,
            TypeError,
            KeyError,
            AttributeError,
            RecursionError,
            ConfigError,
        ) as error:
            _seldom.warning("status of '%s' passed over: %s", sender, error)
            return
        self._latest[sender] = status
