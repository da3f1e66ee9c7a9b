"""Columns: the numbers that the replay holds of each step, by their names."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from robot_rl.stream.motion import imitated, shows
from robot_rl.types import Array, SpaceSpec, Step


@dataclass(frozen=True)
class Column:
    """Numbers that the replay holds of each step, float32, under a name: a vector of `size`, or
    just one.

    `of` takes them from a step; without it they are zero until somebody writes
    `replay.columns[name][slot]`, as a return-to-go can be only when the episode has ended. A column
    `of` what is observed goes into a batch twice, as `name` of the transition's begin and
    `next_name` of its end; any other belongs to the step between the two.
    """

    size: int | None = None
    of: Callable[[Step], Any] | None = None
    observed: bool = False


def columns_of(space: SpaceSpec) -> dict[str, Column]:
    """The columns that every replay has."""
    names = [name for name in space.observations if name.startswith("state/")]
    size = sum(space.observations[name][0][0] for name in names)

    def state(step: Step) -> Array:
        return np.concatenate([np.zeros(0, np.float32), *(step.observation[n] for n in names)])

    def action(step: Step) -> Array:
        return np.clip(step.executed, -1.0, 1.0)  # outside, tanh has no density

    actions, discrete = space.actions, list(space.actions.discrete)
    columns = {
        "state": Column(size, state, observed=True),
        "action": Column(space.action_size, action),
        "reward": Column(of=lambda step: step.reward),
        "terminated": Column(of=lambda step: step.terminated),
        "demo": Column(of=lambda step: shows(step, actions)),
    }
    if discrete or len(actions.arms) > 1:  # else an operator gives all numbers, or none
        columns["corrected"] = Column(space.action_size, lambda step: imitated(step, actions))
    if discrete:
        columns |= {
            "ordered": Column(len(discrete), lambda step: np.clip(step.commanded[discrete], -1, 1)),
            "toggles": Column(of=lambda step: np.count_nonzero(np.rint(step.executed[discrete]))),
        }
    return columns


NO_COLUMNS: Mapping[str, Column] = {}
SHAPING: Mapping[str, Column] = {"potential": Column(of=lambda _: np.nan, observed=True)}
"""What a replay has besides where rewards are shaped; no number until `potential.py` has valued the
step.
"""


def places_of(columns: Mapping[str, Column]) -> dict[str, int | slice]:
    """Where each column lies in a row of them all, side by side."""
    places: dict[str, int | slice] = {}
    start = 0
    for name, column in columns.items():
        places[name] = start if column.size is None else slice(start, start + column.size)
        start += 1 if column.size is None else column.size
    return places
