"""One replay buffer in one process: filled once, then asked for batches as often as a line comes on
its stdin.

    python gather.py KIND STEPS BATCH       {"bytes_per_step": ...}, then for each line N: {"ms": [of N batches]}

So that several of them can be measured in turns, and noise meets them all alike. The kinds "ours"
and "memcpy" need this project; the others run in the environment of `make bench-peers`, in which it
is not installed.

A batch is the observation before and after, two images of 128 x 128 x 3 in uint8 (float32 in
LeRobot, which stores nothing else) and 13 numbers, with an action of 7. Each buffer keeps its
defaults, threads included.
"""

import json
import sys
import tempfile
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

CAMERAS = ("front", "wrist")
SHAPE = (128, 128, 3)
STATE, ACTION = 13, 7
EPISODE = 50
_POOL = 64  # different frames; each step has its own memory all the same

Sampler = Callable[[], object]
Built = tuple[Sampler, float]
"""What draws one batch, and the bytes that a step takes in memory."""


def pool() -> np.ndarray:
    """Noise, as a camera's is."""
    return np.random.default_rng(0).integers(0, 256, (_POOL, *SHAPE), np.uint8)


def build_memcpy(steps: int, batch: int) -> Built:
    """The bytes of a batch's images, copied from four runs of consecutive frames that lie somewhere
    in the rings.
    """
    from robot_rl.learner.frame_ring import page_aligned

    rings = [page_aligned((steps, *SHAPE)) for _ in CAMERAS]
    frames = pool()
    for ring in rings:
        for step in range(steps):
            ring[step] = frames[step % _POOL]
    out = [page_aligned((batch, *SHAPE)) for _ in range(2 * len(CAMERAS))]
    rng = np.random.default_rng(0)

    def copy() -> None:
        for number, target in enumerate(out):
            start = rng.integers(steps - batch + 1)
            np.copyto(target, rings[number % len(rings)][start : start + batch])

    return copy, float(sum(ring.nbytes for ring in rings)) / steps


def build_ours(steps: int, batch: int) -> Built:
    """`Replay`: sample and gather into buffers that are used again, as the learner does."""
    from robot_rl.learner.replay import Replay
    from robot_rl.types import Provenance, SpaceSpec, Step

    images: dict[str, tuple[tuple[int, ...], str]] = {
        f"image/{name}": (SHAPE, "uint8") for name in CAMERAS
    }
    replay = Replay(SpaceSpec.unnamed(images | {"state/arm": ((STATE,), "float32")}, ACTION), steps)
    frames, state, action = pool(), np.zeros(STATE, np.float32), np.zeros(ACTION, np.float32)
    for number in range(steps):
        episode, index = divmod(number, EPISODE)
        seen = {name: frames[(number + shift) % _POOL] for shift, name in enumerate(images)}
        author = Provenance.DEMO if episode % 2 == 0 else Provenance.POLICY
        end = index == EPISODE - 1
        replay.append(
            Step(
                episode,
                index,
                seen | {"state/arm": state},
                action,
                action,
                action,
                0.0,
                end,
                False,
                author,
                0,
                0.0,
                0.0,
            )
        )
    rng, out = np.random.default_rng(0), replay.buffers(batch)
    return (
        lambda: replay.gather(replay.sample(rng, batch // 2, batch - batch // 2), out=out),
        replay.bytes_per_step,
    )


def build_torchrl(steps: int, batch: int, memmap: bool = False) -> Built:
    """TorchRL's TensorDictReplayBuffer, filled with transitions of uint8 images."""
    import torch
    from tensordict import TensorDict
    from torchrl.data import LazyMemmapStorage, LazyTensorStorage, TensorDictReplayBuffer

    storage = (
        LazyMemmapStorage(steps, scratch_dir=tempfile.mkdtemp())
        if memmap
        else LazyTensorStorage(steps)
    )
    buffer = TensorDictReplayBuffer(storage=storage, batch_size=batch)
    frames = torch.from_numpy(pool())

    def observation(first: int, count: int) -> dict[str, Any]:
        numbers = (torch.arange(count) + first) % _POOL
        return {f"image_{name}": frames[numbers] for name in CAMERAS} | {
            "state": torch.zeros(count, STATE)
        }

    for first in range(0, steps, EPISODE):
        count = min(EPISODE, steps - first)
        done = torch.zeros(count, 1, dtype=torch.bool)
        after = observation(first + 1, count) | {
            "reward": torch.zeros(count, 1),
            "done": done,
            "terminated": done,
        }
        told = observation(first, count) | {"action": torch.zeros(count, ACTION), "next": after}
        buffer.extend(TensorDict(told, [count]))
    one = buffer.sample(1)
    size = sum(leaf.numel() * leaf.element_size() for leaf in one.values(True, True))
    return buffer.sample, float(size)


def build_lerobot(steps: int, batch: int, optimize: bool = False) -> Built:
    """LeRobot's ReplayBuffer, with float32 images and without augmentation."""
    import torch

    # it is imported for writing data sets, which nobody does here; its dependencies are 2 GB
    sets = ModuleType("lerobot.datasets.lerobot_dataset")
    sets.LeRobotDataset = object  # type: ignore[attr-defined]
    sys.modules["lerobot.datasets.lerobot_dataset"] = sets
    from lerobot.rl.buffer import ReplayBuffer

    names = [f"observation.images.{name}" for name in CAMERAS]
    buffer = ReplayBuffer(
        steps,
        "cpu",
        [*names, "observation.state"],
        use_drq=False,
        storage_device="cpu",
        optimize_memory=optimize,
    )
    frames = torch.from_numpy(pool()).permute(0, 3, 1, 2).float() / 255

    def observation(number: int) -> dict[str, Any]:
        seen = {name: frames[(number + shift) % _POOL][None] for shift, name in enumerate(names)}
        return seen | {"observation.state": torch.zeros(1, STATE)}

    for number in range(steps):
        end = number % EPISODE == EPISODE - 1
        buffer.add(
            observation(number), torch.zeros(1, ACTION), 0.0, observation(number + 1), end, False
        )
    held = {
        id(t): t for part in (buffer.states, buffer.next_states) for t in part.values()
    }.values()
    size = sum(t.numel() * t.element_size() for t in [*held, buffer.actions, buffer.rewards])
    return lambda: buffer.sample(batch), size / steps


KINDS: dict[str, Callable[[int, int], Built]] = {
    "memcpy": build_memcpy,
    "ours": build_ours,
    "torchrl_tensor": build_torchrl,
    "torchrl_memmap": lambda steps, batch: build_torchrl(steps, batch, memmap=True),
    "lerobot": build_lerobot,
    "lerobot_optimized": lambda steps, batch: build_lerobot(steps, batch, optimize=True),
}


def serve(kind: str, steps: int, batch: int) -> None:
    """Fill, then a line in for each line out."""
    draw, bytes_per_step = KINDS[kind](steps, batch)
    print(json.dumps({"bytes_per_step": bytes_per_step}), flush=True)
    for line in sys.stdin:
        milliseconds = []
        for _ in range(int(line)):
            begun = time.perf_counter()
            draw()
            milliseconds.append(1e3 * (time.perf_counter() - begun))
        print(json.dumps({"ms": milliseconds}), flush=True)


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:  # that everything can be imported and draws
        for kind in KINDS:
            if kind not in ("memcpy", "ours"):
                KINDS[kind](2 * EPISODE, 8)[0]()
        print("TorchRL and LeRobot are ready")
    else:
        serve(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
