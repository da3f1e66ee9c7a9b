"""What damage does to a closed log: `python benchmarks/damage.py --seconds 60`.

Bits are flipped (half of them where SQLite keeps its own lists) and blocks of 4 KiB zeroed, one at
a time; each time the log is opened, appended to, and read, then repaired. Counted are what was
refused, what was read as it was written, and what may never be: a log that is read as something
else, an error that has changed the file, a record lost around the damage.
"""

import argparse
import random
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from robot_rl.stream.log import StepLog
from robot_rl.stream.pages import PAGE
from robot_rl.stream.records import Kind, Record, frame
from robot_rl.stream.recovery import repair
from robot_rl.types import DataError, RecordId, SpaceSpec

SPACE = SpaceSpec.unnamed({"state/x": ((1,), "float32")}, 1)
BLOCK = 4096


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="for each size of record")
    parser.add_argument("--folder", default="/dev/shm", help="where the files lie")
    options = parser.parse_args()
    for size, count in ((400, 60), (98_000, 12)):
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            done = trials(Path(folder), size, count, options.seconds)
        print(f"{count} records of {size} bytes: {dict(sorted(done.items()))}", flush=True)


def trials(folder: Path, size: int, count: int, seconds: float) -> Counter[str]:
    draw = random.Random(1)
    several = [
        frame(Kind.STEP, RecordId("ab"[n % 2], 1, n // 2), draw.randbytes(size))
        for n in range(count)
    ]
    with StepLog(folder / "whole.log", SPACE) as log:
        for record in several:
            log.append_records([record])
    found: Counter[str] = Counter()
    begun = time.monotonic()
    for kind, data in damages((folder / "whole.log").read_bytes(), draw):
        found[f"{kind}: {trial(folder / 'x.log', data, several, kind)}"] += 1
        if time.monotonic() - begun > seconds:
            break
    return found


def damages(whole: bytes, draw: random.Random) -> Iterator[tuple[str, bytes]]:
    for number in range(len(whole) // BLOCK):
        yield "block", whole[: number * BLOCK] + bytes(BLOCK) + whole[(number + 1) * BLOCK :]
    while True:
        at = draw.randrange(len(whole))
        if draw.random() < 0.5:
            at -= at % PAGE - draw.randrange(160)
        data = bytearray(whole)
        data[at] ^= 1 << draw.randrange(8)
        yield "bit", bytes(data)


def trial(path: Path, data: bytes, several: list[Record], kind: str) -> str:
    """In a word, what became of it; what begins with WRONG may not be."""
    for left in path.parent.glob("x.log*"):
        left.unlink()
    path.write_bytes(data)
    stage = "open"
    try:
        with StepLog(path, SPACE) as log:
            stage = "append"
            log.append(b"new", RecordId("a", 1, (len(several) + 1) // 2))
        stage = "read"
        with StepLog(path, SPACE, read_only=True) as log:
            read = [(identity, payload) for _, identity, payload in log.records()]
        same = read[:-1] == [(record.identity, record.payload) for record in several]
        return "read as written" if same else "WRONG: read as something else"
    except DataError:
        if stage == "open" and path.read_bytes() != data:
            return "WRONG: refused, and changed"
    kept, lost, _ = repair(path)
    with StepLog(path, SPACE, read_only=True) as log:
        payloads = {identity: payload for _, identity, payload in log.records()}
    missing = sum(payloads.get(record.identity) != record.payload for record in several)
    most = 1 if kind == "bit" else BLOCK // len(several[0].payload) + 2
    if missing > most or kept + lost < len(several):
        return f"WRONG: {missing} lost"
    return f"refused at {stage}, repaired"


if __name__ == "__main__":
    main()
