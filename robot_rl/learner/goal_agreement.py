"""Where all who have shown a task agree on a goal, the policy's own successes say no other one.

A task leaves room, and a success is one anywhere in it: a hook opens a drawer from 22 mm lower as well, a
bar that is let go of 10 mm above its mark lies there, too. An encoder that learns so sees the goal
elsewhere, the policy goes there, and what succeeds is learnt again: a little further each time.
Figures: docs/tasks.md, `drawer` and `handover`.
"""

import numpy as np
import torch

from robot_rl.networks.poses import moved, seen_from
from robot_rl.types import Array

BEYOND = 3.0
"""Standard deviations of what was shown: places that are drawn uniformly are within 1.7."""
ROOM = np.array([2e-3] * 3 + [0.02] * 3)
"""Besides [m, rad]: a part that slips in the hand by half a millimetre is elsewhere indeed."""
ENOUGH = 5
"""Scenes: fewer show nothing that they could agree on."""


def as_shown(goals: Array, places: Array, own: Array, scenes: Array, holds: Array) -> Array:
    """Goals `(N, 6 per arm)` [m, rad] from the tools, nan where nobody knows: those of `own (N,)`
    episodes no further beside what was shown than that varies, on the bench, where the tools are at
    `places (N, 6 per arm)`. Shown are the frames of other `scenes (N,)` in which as much is held,
    `holds (N, arms)`.
    """
    kept = goals.copy()
    for held in np.unique(holds, axis=0):
        alike = np.flatnonzero((holds == held).all(1))
        for arm in range(holds.shape[1]):
            part = np.ix_(alike, np.arange(6 * arm, 6 * arm + 6))
            kept[part] = _kept_near(goals[part], places[part], own[alike], scenes[alike])
    return kept


def _kept_near(goals: Array, places: Array, own: Array, scenes: Array) -> Array:
    """The same of one arm, in frames in which as much is held."""
    known = ~np.isnan(goals[:, 0])
    shown = np.flatnonzero(known & ~own)
    first = shown[np.unique(scenes[shown], return_index=True)[1]]
    if len(first) < ENOUGH:
        return goals
    tools = torch.from_numpy(places).double()
    there = moved(tools, torch.from_numpy(goals).double()).numpy()
    mean, reach = there[first].mean(0), BEYOND * there[first].std(0) + ROOM
    near = torch.from_numpy(there.clip(mean - reach, mean + reach))
    beyond = known & own & (np.abs(there - mean) > reach).any(1)
    return np.where(beyond[:, None], seen_from(tools, near).numpy(), goals)
