"""The versions of a learned judge on the disk: `v0001.safetensors` and `v0001.json`, and so on. The
JSON is written last, so that a version is whole or not there.
"""

import re
from pathlib import Path

from robot_rl.types import DataError

MOST_VERSIONS = 10_000
SUFFIXES = ("safetensors", "json")
"""In this order they are written: with the last one the version is there."""


def files_of(folder: Path, version: int) -> dict[str, Path]:
    """Where the two files of a version lie, by suffix. DataError for a number that is none."""
    if type(version) is not int or not 1 <= version < MOST_VERSIONS:
        raise DataError(f"version {version!r:.40} of a judge: wanted 1 to {MOST_VERSIONS - 1}")
    return {suffix: folder / f"v{version:04d}.{suffix}" for suffix in SUFFIXES}


def versions_in(folder: Path) -> list[int]:
    """The versions that are whole, oldest first; none where there is no folder."""
    found = (re.fullmatch(r"v(\d{4,})\.json", path.name) for path in folder.glob("v*.json"))
    return sorted(int(match[1]) for match in found if match)
