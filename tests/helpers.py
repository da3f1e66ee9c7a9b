"""What the tests of every room use: a step of any space, and a wait for what another thread does."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from robot_rl.types import Provenance, SpaceSpec, Step

SPACE = SpaceSpec.unnamed(
    {"state/tcp_pose": ((6,), "float32"), "image/wrist": ((4, 5, 3), "uint8")}, 6
)


def make_step(index: int = 0, space: SpaceSpec = SPACE, **changes: Any) -> Step:
    """A step of a space: its pictures and actions follow from its episode and index, but for
    `changes`.
    """
    episode = changes.get("episode", 3)
    random = np.random.default_rng([episode, abs(index)])
    observation = {}
    for name, (shape, dtype) in space.observations.items():
        values = random.integers(0, 256, shape) if dtype == "uint8" else random.normal(size=shape)
        observation[name] = values.astype(dtype)
    a, b, c = random.uniform(-1, 1, (3, space.action_size)).astype(np.float32)
    step = Step(
        episode,
        index,
        observation,
        a,
        b,
        c,
        0.5,
        False,
        True,
        Provenance.HUMAN,
        7,
        t_monotonic=1.5,
        t_wall=2.5,
    )
    return replace(step, **changes)


def wait_until(
    true: Callable[..., object], timeout_s: float = 30.0, what: str = "it did not come true"
) -> None:
    """Wait for what another thread or process is about to do; AssertionError with `what` if it does
    not.
    """
    until = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < until, what
        time.sleep(0.005)
