"""A run with a demonstration for the guide: straight down, with a contact from a step on."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from robot_rl.config import load_hardware, load_task
from robot_rl.config.run_folder import RunFolder
from robot_rl.config.run_settings import RunSettings
from robot_rl.stream.log import StepLog
from robot_rl.types import Provenance
from tests.helpers import make_step

STEP_M = 0.006


def guided_run(path: Path, obs: Any = "state", **sections: Any) -> RunFolder:
    """A run with one demonstration of 12 steps, which touches at step 10."""
    settings = RunSettings("peg_insert", "sim_panda", obs=obs)
    task, hardware = load_task("peg_insert"), load_hardware("sim_panda")
    sections |= {"run": settings, "task": task, "hardware": hardware}
    folder = RunFolder.create(path, sections)
    demonstrate(folder)
    return folder


def demonstrate(folder: RunFolder, episode: int = 0, count: int = 12, touches: int = 10) -> None:
    """Append one that has succeeded; its pictures get brighter."""
    space = folder.spaces()
    with StepLog(folder.demos_log, space, run=folder.settings.id) as log:
        for index in range(count):
            step = make_step(index, space, episode=episode, provenance=Provenance.DEMO)
            seen = dict(step.observation)
            seen["state/tcp_pose"] = np.array([0, 0, STEP_M * index, 0, 0, 0], np.float32)
            force = -8.0 * (index >= touches)
            seen["state/tcp_wrench"] = np.array([0, 0, force, 0, 0, 0], np.float32)
            for name in [name for name in seen if name.startswith("image/")]:
                seen[name] = np.full_like(seen[name], 20 * index)
            won = index == count - 1
            log.append_step(
                replace(step, observation=seen, terminated=won, truncated=False, success=won)
            )
