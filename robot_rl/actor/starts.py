"""Where the episodes of an evaluation start: drawn from a seed, or a list in a file that two runs
share.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from robot_rl.config.limits import is_unit
from robot_rl.config.run_settings import MOST_SEEDS
from robot_rl.machine.small_files import is_number, read_json, write_json
from robot_rl.types import ConfigError, DataError


@dataclass(frozen=True)
class Start:
    """One start: the seed of the reset, from which a simulated scene follows; and where each arm's
    tool begins, `(7,)` in its base frame [m, xyzw]. Without `poses` the seed draws them, too.
    """

    seed: int
    poses: tuple[tuple[float, ...], ...] = ()


def drawn_starts(seed: int, episodes: int) -> list[Start]:
    """As many starts as there are episodes, which the seed determines."""
    seeds = np.random.default_rng(seed).integers(2**31, size=episodes)
    return [Start(int(each)) for each in seeds]


def write_starts(path: Path, starts: Sequence[Start]) -> None:
    """Write a list of starts as JSON: `seeds`, and the `poses` that were gone to."""
    write_json(
        path, {"seeds": [each.seed for each in starts], "poses": [each.poses for each in starts]}
    )


def read_starts(path: Path, arms: int) -> list[Start]:
    """The starts of a list, for a bench with so many arms. Raises DataError for a file that cannot
    be read, ConfigError for one that holds no such list.
    """
    try:
        said = read_json(path)
    except DataError as error:
        raise DataError(
            f"{error}. Wanted a list of starts, as each evaluation writes:"
            " evaluations/001/starts.json"
        ) from error
    seeds, poses = said.get("seeds"), said.get("poses", [])
    if not (isinstance(seeds, list) and seeds and all(map(_is_seed, seeds))):
        raise ConfigError(
            f"{path}: seeds: wanted a list of whole numbers from 0 to {MOST_SEEDS - 1}"
        )
    if not isinstance(poses, list) or len(poses) not in (0, len(seeds)):
        raise ConfigError(
            f"{path}: poses: wanted as many as there are seeds, {len(seeds)}, or none"
        )
    for number, each in enumerate(poses):
        if each and not (
            isinstance(each, list) and len(each) == arms and all(_is_pose(pose) for pose in each)
        ):
            raise ConfigError(
                f"{path}: poses[{number}]: wanted a pose for each of {arms} arms, 7 numbers with a"
                " unit quaternion xyzw"
            )
    each_poses = [tuple(map(tuple, each)) for each in poses] or [()] * len(seeds)
    return [Start(seed, pose) for seed, pose in zip(seeds, each_poses, strict=True)]


def _is_seed(value: Any) -> bool:
    return type(value) is int and 0 <= value < MOST_SEEDS


def _is_pose(pose: Any) -> bool:
    return (
        isinstance(pose, list)
        and len(pose) == 7
        and all(map(is_number, pose))
        and is_unit(pose[3:])
    )
