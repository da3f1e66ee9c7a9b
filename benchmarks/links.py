"""The links over loopback, each side in a process of its own: steps per second, and the age of
weights.
"""

import json
import logging
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from benchmarks.other import Other, lines_heard, say
from robot_rl.links.sockets import ANY_PORT
from robot_rl.links.weights import WeightsPublisher, WeightsSubscriber
from robot_rl.machine.memory import settle_memory
from robot_rl.stream import StepReceiver, StepSender
from robot_rl.stream.codec import space_from_json, space_json
from robot_rl.stream.log import StepLog
from robot_rl.stream.records import Record
from robot_rl.stream.store import Store
from robot_rl.tools.benchmark_learner import random_steps
from robot_rl.types import Array, SpaceSpec

_PATIENCE_S = 120.0
# steps that connect both sides, and fill the sender's queue once: its memory has been touched
_WARM_UP = 2_000
_DISTINCT = 64  # steps that are sent again and again: 6 MB, as if a camera had just written them


@dataclass
class DiskClock:
    """Seconds that this process spends on its file: in `append`, and in the background for the
    disk's sake.
    """

    write_s: float = 0.0
    sync_s: float = 0.0

    @contextmanager
    def watching(self) -> Iterator["DiskClock"]:
        """Count meanwhile."""
        append, checkpoint = Store.append, Store.checkpoint

        def timed_append(store: Store, several: Sequence[Record]) -> None:
            begun = time.perf_counter()
            append(store, several)
            self.write_s += time.perf_counter() - begun

        def timed_checkpoint(store: Store) -> None:
            begun = time.perf_counter()
            checkpoint(store)
            self.sync_s += time.perf_counter() - begun

        Store.append, Store.checkpoint = timed_append, timed_checkpoint  # type: ignore[assignment,method-assign]
        try:
            yield self
        finally:
            Store.append, Store.checkpoint = append, checkpoint  # type: ignore[method-assign]


# -------------------------------------------------------------------------------------------- steps


@dataclass(frozen=True)
class StepsResult:
    """Steps per second, the share of the time in each process's disk, and processor time per step
    [s] of both.
    """

    per_s: float
    sender: DiskClock
    receiver: DiskClock
    seconds: float
    sender_cpu_s: float
    receiver_cpu_s: float


def steps(space: SpaceSpec, count: int, folder: Path) -> StepsResult:
    """From `send` through spool and log to the acknowledgement of the last."""
    settle_memory()
    some = list(random_steps(space, _DISTINCT))
    clock = DiskClock()
    with Other("links.py", "take_steps", json.dumps(space_json(space)), folder) as other:
        sender = StepSender(other.answer(), space, spool=folder / "spool", wait_when_full=True)
        try:
            for number in range(_WARM_UP):
                sender.send(some[number % _DISTINCT])
            sender.drain(_PATIENCE_S)
            with clock.watching():
                begun, cpu = time.perf_counter(), time.process_time()
                other.tell()
                for number in range(count):
                    sender.send(some[number % _DISTINCT])
                sender.drain(_PATIENCE_S)
                seconds, cpu = time.perf_counter() - begun, time.process_time() - cpu
        finally:
            other.tell()
            theirs = other.answer()
            sender.close()
    their_cpu, their_clock = theirs["cpu"], DiskClock(**theirs["clock"])
    return StepsResult(count / seconds, clock, their_clock, seconds, cpu / count, their_cpu / count)


def fleet(
    space: SpaceSpec, folder: Path, actors: int, rate_hz: float, seconds: float
) -> tuple[float, float]:
    """Parts of a core that `actors` at `rate_hz` take, all their spools and threads together, and
    their learner.
    """
    settle_memory()
    some, count = list(random_steps(space, _DISTINCT)), int(seconds * rate_hz)
    with (
        Other("links.py", "take_steps", json.dumps(space_json(space)), folder) as other,
        ExitStack() as stack,
    ):
        address = other.answer()
        senders = [
            StepSender(address, space, actor=f"actor{n}", spool=folder / f"spool{n}")
            for n in range(actors)
        ]
        for sender in senders:
            stack.callback(sender.close)
            sender.send(some[0])
            sender.drain(_PATIENCE_S)
        other.tell()
        begun, cpu = time.perf_counter(), time.process_time()
        for number in range(count):
            for at, sender in enumerate(senders):
                due = begun + (number + at / actors) / rate_hz
                time.sleep(max(0.0, due - time.perf_counter()))
                sender.send(some[number % _DISTINCT])
        for sender in senders:
            sender.drain(_PATIENCE_S)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - begun
        other.tell()
        return cpu / wall, other.answer()["cpu"] / wall


def take_steps(space_text: str, folder: str) -> None:
    """The learner's end of the link: log and acknowledge, until told to stop."""
    settle_memory()
    space = space_from_json(json.loads(space_text))
    receiver = StepReceiver(ANY_PORT, space)
    log = StepLog(Path(folder) / "steps.log", space, sync_every_s=0.5)
    clock, cpu, told = DiskClock(), 0.0, 0
    say(receiver.address)
    with ExitStack() as watching:
        while told < 2:
            heard = lines_heard()
            if heard and not told:
                cpu = time.process_time()
                watching.enter_context(clock.watching())
            told += heard
            batch = receiver.receive(0.05)
            log.append_records([received.record for received in batch])
            receiver.ack(batch)
    say({"clock": asdict(clock), "cpu": time.process_time() - cpu})
    receiver.close()
    log.close()


# ------------------------------------------------------------------------------------------ weights


@dataclass(frozen=True)
class WeightsResult:
    """From `publish` until the subscriber has copied the arrays to where it has them [s]; and what
    `publish` takes.
    """

    delays_s: Array
    publish_s: Array


def weights(megabytes: float, count: int, every_s: float, slow_s: float = 0.0) -> WeightsResult:
    """Publish `count` versions, one `every_s`; the subscriber looks without a pause, or once in
    `slow_s`.
    """
    settle_memory()
    rng = np.random.default_rng(0)
    parameters = {
        f"layer{n}": rng.normal(size=int(megabytes * 1e6 / 80)).astype(np.float32)
        for n in range(20)
    }
    published: list[float] = []
    publishing: list[float] = []
    publisher = WeightsPublisher()
    try:
        publisher.publish(-1, parameters)
        with Other("links.py", "take_weights", publisher.address, count, slow_s) as other:
            other.answer()
            for version in range(count):
                published.append(time.monotonic())
                publisher.publish(version, parameters)
                publishing.append(time.monotonic() - published[-1])
                time.sleep(max(0.0, every_s - publishing[-1]))
            other.tell()
            got = {int(version): at for version, at in other.answer().items()}
    finally:
        publisher.close()
    return WeightsResult(np.array([t - published[v] for v, t in got.items()]), np.array(publishing))


def take_weights(address: str, count_text: str, slow_text: str) -> None:
    """The actor's end: copies what comes to where its policy has it, and notes when it had each
    version.
    """
    settle_memory()
    count, slow_s = int(count_text), float(slow_text)
    subscriber = WeightsSubscriber(address)
    first = subscriber.wait_for(-1, _PATIENCE_S)
    assert first is not None
    mine = {name: array.copy() for name, array in first[1].items()}
    subscriber.latest()
    say("ready")
    got: dict[int, float] = {}
    while count - 1 not in got:
        if slow_s:
            time.sleep(slow_s)
            if lines_heard():  # nothing is published any more: what is here now grows old by itself
                break
            newest = subscriber.latest()
        else:
            newest = subscriber.wait_for(max(got, default=-1) + 1, 1.0)
        if newest is not None and newest[0] >= 0:
            for name, array in newest[1].items():
                np.copyto(mine[name], array)
            got[newest[0]] = time.monotonic()
    say(got)
    subscriber.close()


ROLES: dict[str, Callable[..., None]] = {"take_steps": take_steps, "take_weights": take_weights}

if __name__ == "__main__":
    logging.basicConfig(level=logging.ERROR)
    ROLES[sys.argv[1]](*sys.argv[2:])
