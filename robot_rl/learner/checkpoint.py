"""Checkpoints: whole or not at all, tensors as safetensors, everything else as JSON. No pickle.

    checkpoints/step_00003000/
        agent.safetensors    networks, targets, optimisers, generator
        policy.safetensors   the averaged policy alone, for whoever only acts
        checkpoint.json      the policy's spec, counters, position in the log, crc32 of the two files

The folder is written under another name, synced, and renamed into place; the newest one whose checksums hold is used.
"""

import json
import logging
import os
import shutil
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.numpy import load_file as load_arrays
from safetensors.numpy import save_file as save_arrays
from safetensors.torch import load_file as load_tensors
from safetensors.torch import save_file as save_tensors
from torch import Tensor

from robot_rl.networks.policy import LivePolicy, PolicySpec
from robot_rl.types import Array, DataError

log = logging.getLogger(__name__)

_AGENT, _POLICY, _HEAD = "agent.safetensors", "policy.safetensors", "checkpoint.json"


@dataclass(frozen=True)
class Checkpoint:
    """What a checkpoint holds. `counters` are the run's own (steps, updates, position in the log, generators)."""

    spec: PolicySpec
    agent: Mapping[str, Tensor]
    policy: Mapping[str, Array]
    counters: Mapping[str, Any]


def save(folder: Path, step: int, checkpoint: Checkpoint, keep: int = 2) -> Path:
    """Write `folder/step_XXXXXXXX`; older ones than the newest `keep` are removed after it stands."""
    folder.mkdir(parents=True, exist_ok=True)
    final = folder / f"step_{step:08d}"
    draft = folder / f".writing_{final.name}"
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir()
    # the files own their memory: a tensor that shares it with another cannot be saved
    save_tensors({name: tensor.detach().cpu().clone() for name, tensor in checkpoint.agent.items()}, draft / _AGENT)
    save_arrays(dict(checkpoint.policy), draft / _POLICY)
    head = {
        "spec": checkpoint.spec.to_json(),
        "counters": dict(checkpoint.counters),
        "crc32": {name: zlib.crc32((draft / name).read_bytes()) for name in (_AGENT, _POLICY)},
    }
    (draft / _HEAD).write_text(json.dumps(head, indent=2) + "\n")
    for path in (*draft.iterdir(), draft):
        _sync(path)
    shutil.rmtree(final, ignore_errors=True)  # of a resumed run that comes past here again
    draft.rename(final)
    _sync(folder)
    for old in _newest_first(folder)[keep:]:
        shutil.rmtree(old)
    return final


def load_newest(folder: Path) -> Checkpoint | None:
    """The newest checkpoint that is whole, or None if there is none. A damaged one is passed over, with a warning."""
    for path in _newest_first(folder):
        try:
            return Checkpoint(*_read(path))
        except DataError as error:
            log.warning("%s; the checkpoint before it is used", error)
    return None


def load_policy(folder: Path) -> LivePolicy:
    """The policy of the newest whole checkpoint, ready to act. Raises DataError if there is none."""
    checkpoint = load_newest(folder)
    if checkpoint is None:
        raise DataError(f"there is no usable checkpoint in {folder}: train first, or resume the run")
    return LivePolicy(checkpoint.spec, checkpoint.policy)


def _read(path: Path) -> tuple[PolicySpec, dict[str, Tensor], dict[str, Array], dict[str, Any]]:
    try:
        head = json.loads((path / _HEAD).read_text())
        for name, crc in head["crc32"].items():
            if zlib.crc32((path / name).read_bytes()) != crc:
                raise DataError(f"checkpoint {path} is damaged: {name} does not match its checksum")
        spec = PolicySpec.from_json(head["spec"])
        return spec, load_tensors(path / _AGENT), load_arrays(path / _POLICY), head["counters"]
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise DataError(f"checkpoint {path} is damaged: {error!r}") from error


def _newest_first(folder: Path) -> list[Path]:
    return sorted(folder.glob("step_*"), reverse=True)


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
