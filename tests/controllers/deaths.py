"""Who dies, in which mode, and whether the arm stands in time and stays: real processes on the real
clock.

The arm is the package's own process with a witness in the place of its driver (`witnessed_arm.py`);
a client, a process of its own, moves it: on the way between two poses, in a joint move. Then
somebody is killed or stopped, or falls silent. Faults need no death: they are among the attacks of
`adversary.py`.

What is measured is the truth: how long after the last command the arm is at rest, and how far it
strays afterwards. The arm's own time counts after the lease, in ticks: a busy machine makes ticks
late, which is no fault of the law. `python -m tests.controllers.deaths --tries 100` is the long
form (`make soak-deaths`).
"""

import argparse
import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from robot_rl.controllers.client import ArmClient
from robot_rl.controllers.world import WorldClient
from robot_rl.geometry import quat_from_rotvec, quat_multiply
from robot_rl.links.sockets import free_addresses
from robot_rl.types import ArmTarget, DeviceError, JointTarget
from tests.controllers import truth
from tests.controllers.adversary import (
    ELBOW,
    EXCURSION,
    FAULT_REST_TICKS,
    FURTHER,
    MARGINS,
    MODES,
    REST_TICKS,
    Log,
    Scenario,
    Violation,
    random_compliance,
)
from tests.controllers.bench import HARDWARE, LIMITS, TASK, TOOL
from tests.controllers.truth import Rows
from tests.controllers.witnessed_arm import make_rows

WHO = (
    "client killed", "client stopped", "client silent",
    "network side killed", "network side stopped", "loop stopped 0.5 s",
)  # fmt: skip
LEAVES = "network side killed"
"""After this the loop may leave, too, once the arm stands."""

PERIOD_S, TIMEOUT_S = 0.1, 0.3
"""Of a command, and its lease."""

LOOK_S = 1.0
"""For so long the arm is watched when it should be at rest."""

START_S = 100.0
"""The first start on a machine compiles."""

HELD = "it did not move before: no try"
LEFT = "the loop left, or stood still, before the arm was at rest"

CLIENTS = multiprocessing.get_context("forkserver")
"""Quick, as all is imported, and with no thread: what is forked beside one may wait for a lock that
nobody holds.
"""
CLIENTS.set_forkserver_preload(["tests.controllers.deaths"])

SENT, COUNT, SILENT = range(3)
"""What client and judge share: when the last command was sent, how many there were, whether to be
silent.
"""


@dataclass(frozen=True)
class Rest:
    """How an arm came to rest: seconds after the last command, and of them ticks after the lease
    (or after a stopped loop goes on); and how far it strayed then [m], [rad]."""

    rest_s: float
    ticks: float
    tool_m: float
    joint_rad: float
    right: bool
    note: str = ""


# ---------------------------------------------------------------------------------------- processes


class Bench:
    """An arm's process with a witness, and its loop; started anew when it was killed."""

    def __init__(self, folder: Path):
        self._folder = folder
        self.rows: Rows = make_rows(folder / "truth")
        self.address = free_addresses(1)[0]
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Have it run: nothing happens if it does."""
        if self.process is None or self.process.poll() is not None:
            self.close()
            command = [sys.executable, "-m", "tests.controllers.witnessed_arm", self.address]
            log = (self._folder / "log").open("ab")
            self.process = subprocess.Popen(
                [*command, str(self._folder / "truth")], stdout=log, stderr=log
            )

    @property
    def pid(self) -> int:
        """Of the network side."""
        assert self.process is not None
        return self.process.pid

    def loop_pid(self) -> int:
        """Of the loop, the network side's spawned child."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        found = [
            int(pid)
            for pid in children
            if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()
        ]
        assert len(found) == 1, f"the arm's process has {len(found)} loops"
        return found[0]

    def last_words(self) -> str:
        """The end of what its process has logged."""
        return (self._folder / "log").read_text()[-500:]

    def close(self) -> None:
        if self.process is None:
            return
        if self.process.poll() is None:
            os.kill(self.pid, signal.SIGCONT)
            self.process.terminate()
            try:
                self.process.wait(10.0)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.process = None


@contextlib.contextmanager
def open_bench() -> Iterator[Bench]:
    """A bench in a temporary folder, in memory where there is one."""
    # no write to a disk delays the loop
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        bench = Bench(Path(folder))
        try:
            yield bench
        finally:
            bench.close()


def drive(address: str, mode: str, seed: int, said: Any) -> None:
    """The client: reset the world, set the arm up, move it in this mode until it dies or is told to
    be silent.
    """
    world, arm = WorldClient(address, timeout_s=START_S), ArmClient(address, timeout_s=START_S)
    arm.acknowledge_fault()
    world.reset(seed)
    arm.configure(TOOL, TASK.compliance, LIMITS, 0.3, 0.5)
    rng = np.random.default_rng(seed)
    side = float(rng.choice((-1.0, 1.0)))

    def note() -> None:
        while said[SILENT]:
            time.sleep(0.01)
        said[SENT] = time.monotonic()
        said[COUNT] += 1

    begun = time.monotonic()
    goal_q = np.array(HARDWARE.home) + 0.8 * side * ELBOW
    while True:
        if mode == "joint":
            arm.move_joints(JointTarget(goal_q, PERIOD_S, 1.0), each=note)
            continue
        note()
        pose = np.concatenate(([0.45, 0.15 * side, 0.2], LIMITS.workspace_quat))
        if time.monotonic() - begun > 0.4:
            pose[1] = -pose[1]
        arm.command(ArmTarget(pose, PERIOD_S))
        time.sleep(PERIOD_S)


def die(bench: Bench, who: str, mode: str, seed: int) -> Rest:
    """One try: move, kill, watch. Once more where the arm held when it happened, as on a machine
    too busy for it.
    """
    for _ in range(3):
        rest = _try_to_die(bench, who, mode, seed)
        if rest.note != HELD:
            break
    return rest


def _try_to_die(bench: Bench, who: str, mode: str, seed: int) -> Rest:
    bench.start()
    said = CLIENTS.Array("d", 3, lock=False)
    client = CLIENTS.Process(target=drive, args=(bench.address, mode, seed, said), daemon=True)
    client.start()
    try:
        deadline = time.monotonic() + START_S
        while not said[COUNT]:
            assert client.is_alive() and time.monotonic() < deadline, (
                f"the client does not move the arm, {who}, {mode}"
            )
            time.sleep(0.01)
        time.sleep(0.5 + float(np.random.default_rng(seed).uniform(0.0, 0.4)))
        due = _strike(bench, who, client.pid or 0, said)
        # a busy machine makes few ticks a second
        enough, deadline = REST_TICKS + 1000 * LOOK_S, due + 40.0
        while time.monotonic() < (due + 2.0 if who == LEAVES else deadline):
            time.sleep(0.05)
            if np.sum(bench.rows.get("t") > due) > enough:
                break
        rest = _judge(bench.rows.copy(), float(said[SENT]), due, who == LEAVES)
        return (
            replace(rest, note=f"{rest.note}; {bench.last_words()}") if rest.note == LEFT else rest
        )
    finally:
        client.kill()
        client.join()
        if "network" in who:
            if "stopped" in who:
                os.kill(bench.pid, signal.SIGCONT)
            else:
                bench.close()


def _strike(bench: Bench, who: str, client: int, said: Any) -> float:
    """Have it happen; returns when the last lease has run out, or when a stopped loop goes on."""
    if who == "client silent":
        said[SILENT] = 1.0
    elif who == "client killed":
        os.kill(client, signal.SIGKILL)
    elif who == "client stopped":
        os.kill(client, signal.SIGSTOP)
    elif who == "network side killed":
        bench.process.kill()  # type: ignore[union-attr]
        bench.process.wait()  # type: ignore[union-attr]
    elif who == "network side stopped":
        os.kill(bench.pid, signal.SIGSTOP)
    else:
        loop = bench.loop_pid()
        os.kill(client, signal.SIGSTOP)
        os.kill(loop, signal.SIGSTOP)
        time.sleep(0.5)
        os.kill(loop, signal.SIGCONT)
        return max(time.monotonic(), said[SENT] + TIMEOUT_S)
    time.sleep(0.02)  # who is told to be silent may have been about to speak
    return float(said[SENT]) + TIMEOUT_S


def _judge(rows: Rows, sent: float, due: float, loop_may_leave: bool) -> Rest:
    """What the truth says of a try."""
    t, at_rest, count = rows.get("t"), truth.is_at_rest(rows), len(rows)
    before = (t > sent - 0.3) & (t < sent + 0.05)
    if at_rest[before].all():
        return Rest(0.0, 0, 0.0, 0.0, False, HELD)
    first = int(np.searchsorted(t, due))
    rest = REST_TICKS
    ticks = truth.time_to_rest(at_rest[first:])
    last = min(first + rest + int(1000 * LOOK_S), count)
    tool, joint = truth.further_motion(rows, min(first + rest, count), last)
    if count - first < rest + 500 * LOOK_S:
        if not (loop_may_leave and count and at_rest[-1]):
            return Rest(
                np.inf,
                np.inf,
                tool,
                joint,
                False,
                LEFT,
            )
        first, ticks = min(first, count - 1), max(truth.time_to_rest(at_rest) - first, 0)
    right = ticks <= rest and tool < FURTHER[0] and joint < FURTHER[1]
    return Rest(due - sent + 0.001 * ticks, ticks, tool, joint, right)


# ---------------------------------------------------------------------------------- hostile clients


class _EnoughError(Exception):
    """So many requests of a joint move were enough."""


def harass(address: str, seed: int, seconds: float, said: Any) -> None:
    """A hostile client: any command and compliance, now and then an acknowledgement or a set-up;
    silence at the end.
    """
    world, arm = WorldClient(address, timeout_s=START_S), ArmClient(address, timeout_s=START_S)
    arm.acknowledge_fault()
    world.reset(seed)
    rng = np.random.default_rng(seed)
    arm.configure(TOOL, TASK.compliance, LIMITS, 0.5, 1.5)
    low, high = np.array(LIMITS.workspace_low) - 0.1, np.array(LIMITS.workspace_high) + 0.1
    joint_low = np.array(LIMITS.joint_low) + LIMITS.joint_margin
    joint_high = np.array(LIMITS.joint_high) - LIMITS.joint_margin
    begun = time.monotonic()
    while time.monotonic() < begun + seconds:
        kind, lasts = rng.integers(10), rng.uniform(0.0, 0.15)
        until = time.monotonic() + lasts
        with contextlib.suppress(DeviceError):  # what it refuses
            if kind < 6:
                turn = rng.normal(size=3) * (1.0 if kind < 4 else 3.0)
                quat = quat_multiply(np.array(LIMITS.workspace_quat), quat_from_rotvec(turn))
                pose = np.concatenate((rng.uniform(low, high), quat))
                if rng.random() < 0.03:
                    pose[rng.integers(7)] = rng.choice((np.nan, np.inf, 1e308))
                arm.command(ArmTarget(pose, 0.1))
            elif kind < 8:
                goal = np.clip(
                    np.array(HARDWARE.home) + rng.uniform(-1.0, 1.0, 7), joint_low, joint_high
                )

                def each(until: float = until) -> None:
                    if time.monotonic() > until:
                        raise _EnoughError

                with contextlib.suppress(_EnoughError):
                    arm.move_joints(
                        JointTarget(goal, 0.05, float(rng.uniform(0.2, 1.5))), each=each
                    )
            elif kind == 8:
                arm.tune(random_compliance(rng))
            elif rng.random() < 0.5:
                arm.acknowledge_fault()
            else:
                arm.configure(TOOL, random_compliance(rng), LIMITS, 0.5, 1.5)
        said[COUNT] += 1
        time.sleep(max(until - time.monotonic(), 0.0))
    said[SILENT] = time.monotonic()
    time.sleep(100.0)


def bear(bench: Bench, seed: int, seconds: float = 8.0) -> tuple[list[Violation], int]:
    """A hostile client at an arm on the real clock: (what the truth shows that may not be, ticks)."""
    bench.start()
    fork = multiprocessing.get_context("fork")
    said = fork.Array("d", 3, lock=False)
    client = fork.Process(target=harass, args=(bench.address, seed, seconds, said), daemon=True)
    client.start()
    deadline = time.monotonic() + START_S + seconds
    while not said[SILENT]:
        assert client.is_alive() and time.monotonic() < deadline, "the hostile client has died"
        time.sleep(0.05)
    time.sleep(FAULT_REST_TICKS * 0.001 + LOOK_S)
    rows, silent = bench.rows.copy(), said[SILENT]
    client.kill()
    client.join()
    log = Log(LIMITS, Scenario("a hostile client on the real clock"), seed)
    for name, beyond in truth.excesses(rows, LIMITS).items():
        if name in ("cone", "force", "filtered force"):
            continue
        beyond[0] = -1.0
        allowed = EXCURSION.get(name, 1e-6) + MARGINS.get(name, 0.0)
        if (beyond > allowed).any():
            first = int(np.flatnonzero(beyond > allowed)[0])
            log.add(name, float(beyond.max()), int((beyond > allowed).sum()), first)
    still = int(np.searchsorted(rows.get("t"), silent)) + FAULT_REST_TICKS
    if not truth.is_at_rest(rows)[still:].all():
        log.add("not at rest in time", truth.time_to_rest(truth.is_at_rest(rows)) - still, 1, still)
    tool, joint = truth.further_motion(rows, still, len(rows))
    if tool > FURTHER[0] or joint > FURTHER[1]:
        log.add(f"further motion (joint {joint:.3f} rad) [m]", tool, len(rows) - still, still)
    return log.found, len(rows)


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Kill and stop whoever moves an arm, and watch the arm."
    )
    parser.add_argument("--tries", type=int, default=100, help="of each death in each mode")
    parser.add_argument("--who", choices=WHO, help="this death alone")
    parser.add_argument("--mode", choices=MODES, help="this mode alone")
    options = parser.parse_args()
    wrong, tally = 0, defaultdict[tuple[str, str], list[Rest]](list)
    with open_bench() as bench:
        print(
            "death                 mode    right   rest [s] after the last command   ticks   since"
            " [mm]        [rad]"
        )
        for who in (options.who,) if options.who else WHO:
            for mode in (options.mode,) if options.mode else MODES:
                for seed in range(options.tries):
                    tally[who, mode].append(die(bench, who, mode, seed))
                rests = tally[who, mode]
                right = sum(rest.right for rest in rests)
                wrong += len(rests) - right
                median, worst = np.median([r.rest_s for r in rests]), max(r.rest_s for r in rests)
                ticks = max(r.ticks for r in rests)
                tool, joint = max(r.tool_m for r in rests), max(r.joint_rad for r in rests)
                print(f"{who:21} {mode:6} {right:3}/{len(rests)}   median {median:5.3f}, worst {worst:5.3f}{ticks:9.0f}"
                      f"{1e3 * tool:12.2f} {joint:13.4f}  {Counter(r.note for r in rests if r.note) or ''}",
                      flush=True)  # fmt: skip
        if not options.who:
            for seed in range(options.tries):
                found, ticks = bear(bench, seed)
                wrong += bool(found)
                print(
                    f"a hostile client, seed {seed}: {ticks} ticks",
                    *found,
                    sep="\n    ",
                    flush=True,
                )
    print(f"{wrong} wrong")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
