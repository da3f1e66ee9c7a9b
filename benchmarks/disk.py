"""What is written and read again: appending to the spool at the robot's rhythm, opening a log,
filling a replay.
"""

import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from robot_rl.learner.feature_cache import FeatureCache
from robot_rl.learner.options import LearnerConfig, spec_for
from robot_rl.learner.replay import LOCAL, Replay
from robot_rl.networks.policy import Policy
from robot_rl.stream import records
from robot_rl.stream.codec import StepCodec
from robot_rl.stream.log import StepLog
from robot_rl.stream.records import Kind
from robot_rl.stream.spool import Spool
from robot_rl.tools.benchmark_learner import random_steps
from robot_rl.types import Array, RecordId, SpaceSpec


def appends(folder: Path, space: SpaceSpec, count: int, rate_hz: float) -> Array:
    """Seconds of each append to the spool, one every 1 / `rate_hz`, made as the sender's thread
    makes them.

    From the step's message, which has just been written, to the record in the page cache: the
    checksums, one transaction. The disk is told by the spool's own thread.
    """
    codec, seconds = StepCodec(space), []
    some = list(random_steps(space, 50))
    spool = Spool(folder, "actor", 1, space)
    due = time.perf_counter()
    for seq in range(count):
        due += 1.0 / rate_hz
        time.sleep(max(0.0, due - time.perf_counter()))
        message = memoryview(codec.encode(some[seq % len(some)]))
        begun = time.perf_counter()
        spool.append_all([records.frame(Kind.STEP, RecordId("actor", 1, seq), message)])
        seconds.append(time.perf_counter() - begun)
    spool.close()
    return np.array(seconds)


def write_log(path: Path, space: SpaceSpec, count: int, episode_steps: int = 50) -> int:
    """A log of `count` steps in episodes; returns its bytes."""
    with StepLog(path, space) as log:
        for step in random_steps(space, count, episode_steps):
            log.append_step(step)
    return path.stat().st_size


@dataclass(frozen=True)
class LogTimes:
    """A log of `steps` and `bytes`: opened from memory, opened from the disk, and opened and read
    into a replay.
    """

    steps: int
    bytes: int
    open_s: float
    cold_open_s: float
    refill_s: float


def read_log(path: Path, space: SpaceSpec, count: int) -> LogTimes:
    """Write a log, let go of it, and come back as a learner that resumes: all its steps into the
    replay.
    """
    size = write_log(path, space, count)
    open_s = timed_open(path, space)
    drop_from_memory(path)
    begun = time.perf_counter()
    with StepLog(path, space) as log:
        cold_s = time.perf_counter() - begun
        replay = Replay(space, count)
        for identity, said in log.entries():
            replay.append(said, stream=(identity.actor, identity.epoch))  # type: ignore[arg-type]
        refill_s = time.perf_counter() - begun
    assert len(replay) == count
    path.unlink()
    return LogTimes(count, size, open_s, cold_s, refill_s)


def features(path: Path, space: SpaceSpec, count: int, block: int = 50) -> tuple[float, float]:
    """Seconds per step to have the features of a frozen encoder: computed, and read from where they
    were kept.
    """
    config = LearnerConfig(encoder="goal", compile=False)
    policy = Policy(spec_for(config, space))
    steps, seconds = list(random_steps(space, block)), []
    for _ in range(2):
        seen = FeatureCache(policy, config, 0, path)
        begun = time.perf_counter()
        for _ in range(count // block):
            seen.of(steps, [LOCAL] * block)
        seen.close()
        seconds.append((time.perf_counter() - begun) / (count // block * block))
    path.unlink()
    return seconds[0], seconds[1]


def timed_open(path: Path, space: SpaceSpec) -> float:
    """Seconds until the log is open."""
    begun = time.perf_counter()
    log = StepLog(path, space)
    seconds = time.perf_counter() - begun
    log.close()
    return seconds


def drop_from_memory(path: Path) -> None:
    """The next reader finds it on the disk alone, if the system does as it is asked."""
    with path.open("rb") as file:
        os.fdatasync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def plain_write(folder: Path, megabytes: int) -> float:
    """Bytes per second that the disk takes, fdatasync included."""
    data, path = os.urandom(1 << 20), folder / "plain"
    begun = time.perf_counter()
    with path.open("wb") as file:
        for _ in range(megabytes):
            file.write(data)
        file.flush()
        os.fdatasync(file.fileno())
    seconds = time.perf_counter() - begun
    path.unlink()
    return megabytes * len(data) / seconds


def enough_room(folder: Path, size: float) -> bool:
    """Whether `size` bytes fit on the disk of this folder, and as many again."""
    return shutil.disk_usage(folder).free > 2 * size
