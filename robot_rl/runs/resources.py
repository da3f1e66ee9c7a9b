"""What a run will need of memory and disk, compared with what there is, before anything starts."""

import math
import os
import shutil
from pathlib import Path

import numpy as np

from robot_rl.config.run_folder import RunFolder
from robot_rl.learner import memory
from robot_rl.learner.options import LearnerConfig, spec_for
from robot_rl.types import RobotRLError, SpaceSpec

PROCESS_BYTES = 3 * 600_000_000  # arm, actor and learner with torch loaded: 0.3 to 0.8 GB each
OVERHEAD = 1.2  # episodes, record headers


class NotEnoughRoom(RobotRLError):
    """The run would not fit into memory or onto the disk."""


def step_bytes(space: SpaceSpec) -> int:
    """Bytes of one step in the log."""
    observation = sum(
        math.prod(shape) * np.dtype(dtype).itemsize for shape, dtype in space.observations.values()
    )
    return observation + 3 * 4 * space.action_size + 64


def check_resources(folder: RunFolder) -> str:
    """A line that says what the run needs and what there is. Raises NotEnoughRoom if it would not
    fit.
    """
    settings, space = folder.settings, folder.spaces()
    learner = folder.read("learner", LearnerConfig)
    task = folder.load_task()
    length = task.max_steps
    by_itself = (1 + bool(task.look_around)) * settings.wander_steps
    shown = settings.demos * (length + by_itself)  # at most
    steps = shown + settings.own_steps(shown)
    replay = OVERHEAD * steps * memory.step_bytes(space, learner)
    # what an encoder is pretrained on lies there twice: demonstrations, wandering, own successes if
    # it is renewed
    pretraining = shown
    if spec_for(learner, space).renewed:
        pretraining = min(steps, shown + learner.pretrain.renew_episodes * length)
    memory_need = replay + 2 * pretraining * step_bytes(space) + PROCESS_BYTES
    # every step of the evaluation is kept, too: of each episode, sampled and greedy
    recorded = steps + 2 * settings.eval_episodes * length
    disk_need = OVERHEAD * recorded * step_bytes(space) + 100e6
    available = available_memory()
    disk = shutil.disk_usage(folder.path).free
    text = (
        f"needs about {memory_need / 1e9:.1f} GB of memory ({available / 1e9:.1f} GB free) "
        f"and {disk_need / 1e9:.1f} GB of disk ({disk / 1e9:.1f} GB free)"
    )
    if memory_need > available or disk_need > disk:
        raise NotEnoughRoom(
            f"this run {text}; make room, or shorten it with --steps and --eval-episodes"
        )
    return text


def available_memory() -> int:
    """Bytes of memory that a new process can have (MemAvailable on Linux, free pages elsewhere)."""
    try:
        with Path("/proc/meminfo").open() as file:
            lines = dict(line.split(":", 1) for line in file)
        return int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError):
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
