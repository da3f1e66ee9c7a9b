"""The table of faults: what is done to a run that works, and how an operator sets it right.

Each is done at a random moment (`play.py` draws it) and leaves the run mended: from then on it must
go on by itself.
"""

import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
import zmq

from robot_rl.controllers import messages
from robot_rl.controllers.messages import Kind
from robot_rl.learner.checkpoint import load_newest
from robot_rl.links.address import read_secret
from robot_rl.links.sockets import LinkSocket, connect, new_socket
from robot_rl.stream.old_files import SPOOL_FILE
from robot_rl.stream.pages import LOG, SPOOL
from robot_rl.types import ArmTarget
from tests.faults import damage, disks
from tests.faults.bench import Bench, FaultError
from tests.faults.witness import logged

CUT_S = (0.5, 6.0)
"""How long a network is away [s]; it is drawn between the two."""


@dataclass(frozen=True)
class Fault:
    """One row. `supervised`: of a run that `robot-rl train` looks after."""

    name: str
    do: Callable[[Bench], None]
    supervised: bool = False


def killed(*names: str, first: tuple[str, ...] = ()) -> Callable[[Bench], None]:
    """kill -9 of these, which are then started in the order `first`, or in any."""

    def do(bench: Bench) -> None:
        bench.kill(*names)
        order = list(first) or bench.random.sample(names, len(names))
        for name in order:
            bench.start(name)
            if name != order[-1]:
                time.sleep(bench.random.uniform(0.0, 3.0))  # when exactly is for chance

    return do


def killed_twice(name: str, other: str = "") -> Callable[[Bench], None]:
    """kill -9, and once more while it starts; `other` is killed too and started before it."""

    def do(bench: Bench) -> None:
        bench.kill(name, *([other] if other else []))
        if other:
            bench.start(other)
        bench.start(name)
        time.sleep(bench.random.uniform(0.0, 6.0))
        bench.kill(name)
        bench.start(name)

    return do


def network(how: str, *links: str) -> Callable[[Bench], None]:
    """`cut`, `stall` or `forget` the links (all of them, if none is named), and heal them after a
    while.
    """

    def do(bench: Bench) -> None:
        proxies = [proxy for name, proxy in bench.proxies.items() if not links or name in links]
        for proxy in proxies:
            getattr(proxy, how)()
        time.sleep(bench.random.uniform(*CUT_S))
        for proxy in proxies:
            proxy.heal()

    return do


def network_cut_while_killed(name: str) -> Callable[[Bench], None]:
    """The network goes, then a process dies and is started; the network comes back."""

    def do(bench: Bench) -> None:
        for proxy in bench.proxies.values():
            proxy.cut()
        bench.kill(name)
        bench.start(name)
        time.sleep(bench.random.uniform(*CUT_S))
        for proxy in bench.proxies.values():
            proxy.heal()

    return do


def frozen(name: str) -> Callable[[Bench], None]:
    """The process stands still for seconds (SIGSTOP), as on a machine that swaps."""

    def do(bench: Bench) -> None:
        bench.processes[name].popen.send_signal(signal.SIGSTOP)
        time.sleep(bench.random.uniform(*CUT_S))
        bench.processes[name].popen.send_signal(signal.SIGCONT)

    return do


def disk_full(name: str) -> Callable[[Bench], None]:
    """The disk is full, for this process alone if it has no small one of its own; then there is
    room again.
    """

    def do(bench: Bench) -> None:
        path = bench.log if name == "learner" else bench.spool / SPOOL_FILE
        bench.wait_for(lambda: path.exists() or bench.has_ended, f"{path} to be there")
        folder = (bench.learner_folder if name == "learner" else bench.actor_folder).path
        if folder in bench.disks and bench.random.random() < 0.5:
            ballast = disks.fill(folder)
            mend = ballast.unlink
        else:
            size = path.stat().st_size if path.exists() else 0
            disks.limit_files(bench.processes[name].pid, size + bench.random.randrange(1, 50_000))
            mend = None
        bench.wait_for(
            lambda: bench.processes[name].popen.poll() is not None, f"{name} to refuse", tend=False
        )
        # else it was through before the disk was full
        if bench.processes[name].popen.returncode != 0:
            bench.wait_for_refusal(name, "cannot be written", "make room")
        if name == "actor":
            bench.unspooled_epochs |= {next(reversed(bench.witness.ever())).epoch}
        if mend is not None:
            mend()
        bench.start(name)

    return do


def read_only(name: str) -> Callable[[Bench], None]:
    """The process dies, and finds a disk that cannot be written."""

    def do(bench: Bench) -> None:
        bench.kill(name)
        with disks.read_only(
            bench.spool if name == "actor" else bench.learner_folder.path
        ) as possible:
            if possible:
                bench.start(name)
                bench.wait_for_refusal(name, "cannot be")
        bench.start(name)

    return do


def log_torn(how: Callable[..., None]) -> Callable[[Bench], None]:
    """The learner's power was cut: of its log some of the last records are missing, none that a
    checkpoint knows.

    The log is synced before a checkpoint is written, and what the actor's spool no longer has is
    seconds older.
    """

    def do(bench: Bench) -> None:
        bench.kill("learner")
        kept = load_newest(bench.learner_folder.checkpoints)
        known = kept.counters["log_records"] if kept is not None else 0
        damage.tear(bench.log, LOG, how, known, bench.random)
        bench.start("learner")

    return do


def spool_torn(how: Callable[..., None]) -> Callable[[Bench], None]:
    """The robot's power was cut: of its spool some of the last records are missing."""

    def do(bench: Bench) -> None:
        bench.kill("actor")
        if everything_delivered(bench):
            bench.start("actor")
            return
        bench.torn_epochs |= {next(reversed(bench.witness.ever())).epoch}
        damage.tear(bench.spool / SPOOL_FILE, SPOOL, how, 0, bench.random)
        bench.witness.cut()
        bench.start("actor")

    return do


def everything_delivered(bench: Bench) -> bool:
    """Whether the actor has ended as it should, before it could be killed: then its spool is empty."""
    return bench.processes["actor"].popen.poll() == 0


def arm_told_nonsense(bench: Bench) -> None:
    """A target of NaN, as if from the actor: the arm latches a fault, in an episode or in a reset
    as chance has it.
    """
    address = bench.learner_folder.settings.arm_addresses[0]
    with new_socket(zmq.DEALER) as socket:
        connect(socket, address)
        info = ask(socket, messages.encode(Kind.INFO, 0, 1))
        layout = messages.state_layout(
            messages.to_info(messages.body_as(messages.INFO, info.body)).joints
        )
        state = messages.body_as(
            layout, ask(socket, messages.encode(Kind.STATE, info.life, 2)).body
        )
        target = messages.record(
            messages.TARGET, ArmTarget(np.full(7, np.nan), 0.001, seen_t=float(state["t"]))
        )
        secret = read_secret(address)
        answer = ask(
            socket,
            messages.encode(Kind.COMMAND, info.life, 3, target, setup=info.setup, secret=secret),
        )
    if answer.status != messages.OK:
        raise FaultError(f"the arm did not take the target: {answer.body.decode()}")


def ask(socket: LinkSocket, request: bytes) -> messages.Message:
    """The arm's answer."""
    socket.send_multipart([request])
    if not socket.wait(60.0):
        raise FaultError("the arm does not answer")
    return messages.decode(socket.recv())


def log_flipped(bench: Bench) -> None:
    """A byte in the middle of the log has changed: that is said, nothing is changed, and `data
    repair` mends it.
    """
    bench.kill("learner")
    identity, _ = bench.random.choice(logged(bench.log))
    damage.flip(bench.log, LOG, identity, bench.random)
    refused_and_repaired(bench, "learner", bench.log)


def closed_log_holed(bench: Bench) -> None:
    """A block of a log that was closed is gone: that is said, nothing is changed, and all around it
    is kept.
    """
    bench.kill("learner")
    identity, _ = bench.random.choice(logged(bench.log))
    damage.close_and_punch(bench.log, LOG, identity)
    refused_and_repaired(bench, "learner", bench.log, lost=range(1, 20))


def spool_flipped(bench: Bench) -> None:
    """A byte of a record that the learner has not got yet has changed in the actor's spool."""
    path = bench.spool / SPOOL_FILE
    while True:
        bench.kill("learner")
        if everything_delivered(bench):
            bench.start("learner")
            return
        still_s, count = time.monotonic(), -1
        while time.monotonic() - still_s < 1.0:  # the actor goes on to the end of its block
            if len(bench.witness.ever()) != count:
                count, still_s = len(bench.witness.ever()), time.monotonic()
            time.sleep(0.05)
        there = {identity for identity, _ in logged(bench.log)}
        newest = next(reversed(bench.witness.ever())).epoch
        held = [record.identity for record in damage.contents(path, SPOOL)]
        waiting = [
            identity for identity in held if identity.epoch == newest and identity not in there
        ]
        if len(waiting) > 2:
            break
        bench.start("learner")
        bench.wait_for_steps(bench.random.randrange(5, 20))
        if bench.has_ended:
            return
    bench.kill("actor")
    damage.flip(path, SPOOL, bench.random.choice(waiting[:-2]), bench.random)
    bench.start("learner")
    refused_and_repaired(bench, "actor", path)


def refused_and_repaired(bench: Bench, name: str, path: Path, lost: range = range(1, 2)) -> None:
    before = path.read_bytes()
    bench.start(name)
    bench.wait_for_refusal(name, "is damaged", f"robot-rl data repair {path}")
    # (an actor says where its predecessor died)
    if name == "learner" and path.read_bytes() != before:
        raise FaultError(f"{path} is damaged, and was changed")
    damage.repair(bench, path, lost)
    bench.start(name)


def checkpoint_lost(bench: Bench) -> None:
    """The newest checkpoint is gone, or one of its files is cut: the one before it is used."""
    bench.kill("learner")
    found = sorted(bench.learner_folder.checkpoints.glob("step_*"))
    if found and bench.random.random() < 0.3:
        shutil.rmtree(found[-1])
    elif found:
        path = bench.random.choice(sorted(found[-1].iterdir()))
        with path.open("r+b") as file:
            file.truncate(bench.random.randrange(path.stat().st_size))
    bench.start("learner")


FAULTS = [
    *(Fault(f"{name} killed", killed(name)) for name in ("actor", "learner", "arm")),
    Fault(
        "actor and learner killed, learner first",
        killed("actor", "learner", first=("learner", "actor")),
    ),
    Fault(
        "actor and learner killed, actor first",
        killed("actor", "learner", first=("actor", "learner")),
    ),
    Fault("actor and arm killed", killed("actor", "arm")),
    Fault("learner and arm killed", killed("learner", "arm")),
    Fault("all three killed", killed("actor", "learner", "arm")),
    Fault("actor killed, again while it starts", killed_twice("actor")),
    Fault("learner killed, again while it starts", killed_twice("learner")),
    Fault("both killed, learner again while they start", killed_twice("learner", other="actor")),
    Fault("network cut", network("cut")),
    Fault("network cut, steps alone", network("cut", "steps_address")),
    Fault("network stalled", network("stall")),
    Fault("network half-open", network("forget")),
    Fault("network cut, learner killed", network_cut_while_killed("learner")),
    Fault("network cut, actor killed", network_cut_while_killed("actor")),
    Fault("learner frozen", frozen("learner")),
    Fault("actor frozen", frozen("actor")),
    Fault("disk full, robot's side", disk_full("actor")),
    Fault("disk full, learner's side", disk_full("learner")),
    Fault("disk read-only, robot's side", read_only("actor")),
    Fault("disk read-only, learner's side", read_only("learner")),
    Fault("log torn", log_torn(damage.cut)),
    Fault("log torn, with a hole", log_torn(damage.punch)),
    Fault("spool torn", spool_torn(damage.cut)),
    Fault("spool torn, with a hole", spool_torn(damage.punch)),
    Fault("arm told nonsense", arm_told_nonsense),
    Fault("byte of the log flipped, repaired", log_flipped),
    Fault("byte of the spool flipped, repaired", spool_flipped),
    Fault("closed log with a hole, repaired", closed_log_holed),
    Fault("newest checkpoint lost or cut", checkpoint_lost),
    Fault("train: main process killed, resumed", killed("main"), supervised=True),
    *(
        Fault(f"train: {name} killed", killed(name), supervised=True)
        for name in ("actor", "learner", "arm")
    ),
    *(
        Fault(f"train: {one} and {other} killed", killed(one, other, first=(one,)), supervised=True)
        for one, other in combinations(("actor", "learner", "arm"), 2)
    ),
]
"""All of them."""


def named(name: str) -> Fault:
    """The fault of this name."""
    return next(fault for fault in FAULTS if fault.name == name)
