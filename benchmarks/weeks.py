"""Two weeks of one robot in fast motion: `python benchmarks/weeks.py --records 12000000 --folder
/tmp`.

A log of steps from state at 10 Hz is made at once; then it is opened, and a replay of 200,000 steps
is filled from it as a learner that resumes fills it. A row for each, with the memory of the
process.
"""

import argparse
import os
import resource
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from robot_rl.learner.replay import Replay
from robot_rl.learner.tally import Tally, tail_start
from robot_rl.stream import records
from robot_rl.stream.codec import StepCodec
from robot_rl.stream.log import StepLog
from robot_rl.stream.records import Kind
from robot_rl.tools.benchmark_learner import random_steps
from robot_rl.types import RecordId, SpaceSpec, Step

SPACE = SpaceSpec.unnamed(
    {
        f"state/{n}": ((size,), "float32")
        for n, size in (("pose", 7), ("joints", 14), ("wrench", 6))
    },
    7,
)
AT_ONCE = 1_000
EPISODE = 100


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--records", type=int, default=12_000_000, help="steps in the log")
    parser.add_argument("--ring", type=int, default=200_000, help="steps in the replay")
    parser.add_argument("--folder", default="/tmp", help="on the disk that is measured")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path = Path(folder) / "steps.log"
        row("written", lambda: write(path, options.records))
        print(
            f"{path.stat().st_size / options.records:.0f} bytes for each of {options.records}"
            " records",
            flush=True,
        )
        drop(path)
        row("opened, from the disk", lambda: StepLog(path, SPACE).close())
        row("resumed", lambda: resume(path, options.ring))


def write(path: Path, count: int) -> None:
    codec = StepCodec(SPACE)
    some = [codec.encode(step) for step in islice(random_steps(SPACE, AT_ONCE, EPISODE), AT_ONCE)]
    with StepLog(path, SPACE, sync_every_s=0.5) as log:
        for begin in range(0, count, AT_ONCE):
            log.append_records([
                records.frame(Kind.STEP, RecordId("actor", 1, begin + n), each)
                for n, each in enumerate(some)
            ])


def resume(path: Path, ring: int) -> None:
    """What `Learner._refill` does, with the counters of a checkpoint that is 1,000 records old."""
    with StepLog(path, SPACE) as log:
        known, replay = log.count - 1_000, Replay(SPACE, ring)
        start = min(known, tail_start(log, ring))
        tally = Tally(known, known).without(log.entries(start, known))
        for identity, said in log.entries(start):
            tally.count(said)
            if isinstance(said, Step):
                replay.append(said, stream=(identity.actor, identity.epoch))
        assert len(replay) == ring


def drop(path: Path) -> None:
    """The next reader finds the file on the disk alone, if the system does as it is asked."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def row(name: str, work) -> None:
    begun, cpu = time.perf_counter(), time.process_time()
    work()
    seconds, cpu = time.perf_counter() - begun, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{name}: {seconds:.2f} s, {cpu:.2f} s of processor, {peak:.0f} MB at most", flush=True)


if __name__ == "__main__":
    main()
