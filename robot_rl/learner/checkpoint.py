"""Checkpoints: whole or not at all, tensors as safetensors, everything else as JSON. No pickle.

    checkpoints/step_00003000/
        agent.safetensors    networks, targets, optimisers, generator
        policy.safetensors   the averaged policy alone, for evaluation and use
        checkpoint.json      the policy's spec, counters, position in the log, crc32 of the two files and of itself

The folder is written under another name, synced, and renamed into place; the newest one whose
checksums hold is used.
"""

import hashlib
import logging
import shutil
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.numpy import load_file as load_arrays
from safetensors.numpy import save_file as save_arrays
from safetensors.torch import load_file as load_tensors
from safetensors.torch import save_file as save_tensors
from torch import Tensor

from robot_rl.config.run_folder import RunFolder
from robot_rl.learner.divergence import tensor_not_finite
from robot_rl.learner.tally import Tally
from robot_rl.machine.small_files import CRC, read_json, require_seal, seal, write_json
from robot_rl.machine.sync import sync_path
from robot_rl.networks.policy import LivePolicy
from robot_rl.networks.policy_spec import HANDS, PolicySpec
from robot_rl.networks.vision import is_encoder
from robot_rl.types import Array, DataError, RobotRLError

log = logging.getLogger(__name__)

T = TypeVar("T")
MOST_UNITS, MOST_WEIGHTS = 1 << 16, 1 << 27
"""Of a layer, an image's edge or a state, and of a policy's head: far more than any policy for a
robot has.
"""
COUNTS = (
    "env_steps",
    "updates",
    "offline_updates",
    "forgiven",
    "granted",
    "renewals",
    "log_records",
    "allowed",
)
"""Counters that are whole numbers; checkpoints of before they had them lack the last four."""
TALLY = tuple(field.name for field in fields(Tally))
_AGENT, _POLICY, _HEAD = "agent.safetensors", "policy.safetensors", "checkpoint.json"


@dataclass(frozen=True)
class Checkpoint:
    """What a checkpoint holds. `counters` are the run's own (steps, updates, position in the log,
    generators).
    """

    spec: PolicySpec
    agent: Mapping[str, Tensor]
    policy: Mapping[str, Array]
    counters: Mapping[str, Any]


def save(folder: Path, step: int, checkpoint: Checkpoint, keep: int = 2) -> Path:
    """Write `folder/step_XXXXXXXX`; older ones than the newest `keep` are removed after it stands.

    Raises DataError or OSError if the disk refuses (full, read-only); the checkpoints before it are
    as they were.
    """
    final = _path_of(folder, step)
    with _whole(final) as draft:
        # the files own their memory: a tensor that shares it with another cannot be saved
        save_tensors(
            {name: tensor.detach().cpu().clone() for name, tensor in checkpoint.agent.items()},
            draft / _AGENT,
        )
        save_arrays(dict(checkpoint.policy), draft / _POLICY)
        _write_head(draft, checkpoint.spec, checkpoint.counters)
    for old in _newest_first(folder)[keep:]:
        shutil.rmtree(old)
    return final


def save_policy(folder: Path, step: int, spec: PolicySpec, policy: Mapping[str, Array]) -> Path:
    """Write `folder/step_XXXXXXXX` with a policy alone, where nobody goes on learning. DataError as
    `load_policy`.
    """
    final = _path_of(folder, step)
    _require_finite(final / _POLICY, policy)
    with _whole(final) as draft:
        save_arrays(dict(policy), draft / _POLICY)
        _write_head(draft, spec, {})
    return final


@contextmanager
def _whole(final: Path) -> Iterator[Path]:
    """A draft folder, which is synced and renamed to `final` when the block has filled it."""
    final.parent.mkdir(parents=True, exist_ok=True)
    draft = final.with_name(f".writing_{final.name}")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir()
    try:
        yield draft
    except SafetensorError as error:  # what it makes of an OSError
        raise DataError(
            f"checkpoint {final} cannot be written: {error}. Those before it are whole: make room"
            " on that disk, or make it writable, then resume the run"
        ) from error
    # as the umask has it: safetensors gives its files another
    mode = (draft / _HEAD).stat().st_mode
    for path in draft.iterdir():
        path.chmod(mode)
        sync_path(path)
    sync_path(draft)
    shutil.rmtree(final, ignore_errors=True)  # of a resumed run that comes past here again
    draft.rename(final)
    sync_path(final.parent)


def _write_head(draft: Path, spec: PolicySpec, counters: Mapping[str, Any]) -> None:
    files = {path.name: zlib.crc32(path.read_bytes()) for path in sorted(draft.iterdir())}
    write_json(
        draft / _HEAD,
        seal({"spec": spec.to_json(), "counters": dict(counters), "files": files}),
        indent=2,
    )


def load_newest(folder: Path) -> Checkpoint | None:
    """The newest checkpoint that is whole, or None if there is none. A damaged one is passed over,
    with a warning.
    """

    def read(path: Path) -> Checkpoint:
        spec, counters = _read_head(path, (_AGENT, _POLICY))
        _require_counters(counters, path)
        agent, policy = load_tensors(path / _AGENT), load_arrays(path / _POLICY)
        _require_finite(path / _AGENT, agent)
        _require_finite(path / _POLICY, policy)
        return Checkpoint(spec, agent, policy, counters)

    found = _newest_first(folder)
    newest = _first_whole(found, read)
    if newest is None and found:
        log.warning(
            "no checkpoint in %s is whole: what was learnt is learnt again, from the logs", folder
        )
    return newest


def load_learnt(folder: RunFolder) -> Checkpoint | None:
    """What a run was begun with (`train --learnt-from`); None if it began by itself. DataError if it
    is gone: what nobody has learnt is not begun with instead.
    """
    if "learnt_from" not in folder.sections:
        return None
    learnt = load_newest(folder.learnt)
    if learnt is None:
        theirs = folder.section("learnt_from")["run"]
        raise DataError(
            f"there is no whole checkpoint in {folder.learnt}, with which this run is to begin:"
            f" restore it from a copy, or begin a new run: robot-rl train {folder.settings.task}"
            f" --learnt-from {theirs}"
        )
    return learnt


def load_policy(folder: Path, step: int | None = None) -> LivePolicy:
    """The policy of the newest whole checkpoint, or of the one at `step`, ready to act. DataError
    if there is none.

    `folder` is a run's, or its `checkpoints`.
    """
    folder = folder / "checkpoints" if (folder / "checkpoints").is_dir() else folder
    paths = _newest_first(folder)
    if step is not None:
        steps = kept_steps(folder)
        if step not in steps:
            raise DataError(f"{folder} keeps no checkpoint of step {step}; it has those of {steps}")
        return _read(_path_of(folder, step), _read_policy)
    policy = _first_whole(paths, _read_policy)
    if policy is None:
        raise DataError(
            f"there is no usable checkpoint in {folder}: train first, or resume the run"
        )
    return policy


def kept_steps(folder: Path) -> list[int]:
    """The steps of which there are checkpoints, ascending; whether they are whole is not looked at."""
    return sorted(int(path.name.removeprefix("step_")) for path in _newest_first(folder))


def _read_policy(path: Path) -> LivePolicy:
    spec, _ = _read_head(path, (_POLICY,))
    policy = load_arrays(path / _POLICY)
    _require_finite(path / _POLICY, policy)
    live = LivePolicy(spec, policy)
    live.step = int(path.name.removeprefix("step_"))
    live.digest = hashlib.sha256((path / _POLICY).read_bytes()).hexdigest()
    return live


def _require_finite(file: Path, values: Mapping[str, Tensor] | Mapping[str, Array]) -> None:
    tensors = {
        n: value if isinstance(value, Tensor) else torch.tensor(value)
        for n, value in values.items()
    }
    if name := tensor_not_finite(tensors):
        raise DataError(
            f"{file}: '{name}' has numbers that are not finite, so nothing can act with it or go on"
            " from it"
        )


def _path_of(folder: Path, step: int) -> Path:
    return folder / f"step_{step:08d}"


def _first_whole(paths: Sequence[Path], read: Callable[[Path], T]) -> T | None:
    for path in paths:
        try:
            return _read(path, read)
        except RobotRLError as error:
            log.warning("%s; the checkpoint before it is used", error)
    return None


def _read(path: Path, read: Callable[[Path], T]) -> T:
    """What a checkpoint holds; DataError if it is damaged."""
    try:
        return read(path)
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        RuntimeError,
        OverflowError,
        SafetensorError,
    ) as error:
        raise DataError(f"checkpoint {path} is damaged: {type(error).__name__}: {error}") from error


def _read_head(path: Path, names: Sequence[str]) -> tuple[PolicySpec, dict[str, Any]]:
    """Spec and counters; DataError if they are none, or if one of the files `names` does not match
    its checksum.
    """
    head = read_json(path / _HEAD)
    # (of a checkpoint whose head has no checksum of its own)
    files = head.get("files", head.get(CRC))
    if "files" in head:
        try:
            require_seal(head)
        except DataError as error:
            raise DataError(f"{path / _HEAD} is damaged: {error}") from error
    if (
        not isinstance(files, dict)
        or not set(names) <= files.keys()
        or not isinstance(head.get("counters"), dict)
    ):
        raise DataError(
            f"{path / _HEAD} is damaged: wanted counters, and the checksums of"
            f" {' and '.join(names)}"
        )
    for name in names:
        if zlib.crc32((path / name).read_bytes()) != files[name]:
            raise DataError(f"checkpoint {path} is damaged: {name} does not match its checksum")
    try:
        spec = PolicySpec.from_json(head["spec"])
    except DataError as error:
        raise DataError(f"{path / _HEAD} is damaged: {error}") from error
    if problem := _problem_of(spec):
        raise DataError(f"{path / _HEAD} is damaged: its spec is of no policy: {problem}")
    return spec, head["counters"]


def _problem_of(spec: PolicySpec) -> str:
    """Why nobody has made such a policy, before memory is asked for it; "" if somebody may have."""
    sizes = [
        *(size for _, size in spec.state),
        *spec.image_size,
        *spec.hidden,
        spec.action_size,
        spec.camera_features,
    ]
    if any(type(size) is not int or not 0 <= size <= MOST_UNITS for size in sizes):
        return f"sizes are whole numbers up to {MOST_UNITS}"
    if not all(
        isinstance(name, str)
        for name in (spec.encoder, *spec.cameras, *(name for name, _ in spec.state))
    ):
        return "names are texts"
    if not is_encoder(spec.encoder):
        return f"there is no encoder {spec.encoder!r}"
    if spec.hand not in HANDS:
        return f"there is no hand {spec.hand!r}"
    layers = [spec.state_size + spec.vision_size, *spec.hidden, 2 * spec.action_size + spec.choices]
    if sum(a * b for a, b in pairwise(layers)) > MOST_WEIGHTS:
        return f"its head has more than {MOST_WEIGHTS} weights"
    return ""


def _require_counters(counters: Mapping[str, Any], path: Path) -> None:
    """Raise DataError unless everything that learning goes on with is there, and can be gone on
    with.
    """
    counts = {name: counters[name] for name in COUNTS if name in counters}
    if "tally" in counters:  # of before there was one: they lack it
        tally = counters["tally"] if isinstance(counters["tally"], dict) else {}
        counts |= {f"tally.{name}": tally.get(name) for name in TALLY}
    wrong = [
        name for name, value in counts.items() if type(value) is not int or not 0 <= value < 2**53
    ]
    if wrong:
        raise DataError(
            f"{path / _HEAD} is damaged: counters: {wrong[0]} is {counts[wrong[0]]!r:.40}"
        )
    if missing := [name for name in (*COUNTS[:4], "generator") if name not in counters]:
        raise DataError(f"{path / _HEAD} is damaged: counters lack {', '.join(missing)}")
    try:
        np.random.default_rng().bit_generator.state = counters["generator"]
    except (ValueError, TypeError, KeyError, OverflowError, AttributeError) as error:
        raise DataError(
            f"{path / _HEAD} is damaged: counters: generator is none: {error!r}"
        ) from error


def _newest_first(folder: Path) -> list[Path]:
    return sorted(
        (path for path in folder.glob("step_*") if path.name[5:].isdecimal()), reverse=True
    )


def what_is_left(folder: RunFolder) -> str:
    """Of a run whose learning has diverged: what there is, and what to do about it."""
    path, steps = folder.path, kept_steps(folder.checkpoints)
    kept = f"The checkpoint of step {steps[-1]} was made before (robot-rl eval {path})" if steps else (
        "There was no checkpoint before"
    )  # fmt: skip
    return (
        "Nothing of this was published or saved, and the steps are in"
        f" {folder.steps_log}. {kept}. Train a new run with a lower"
        " --learner.agent.learning-rate, or with smaller rewards in the task"
    )
