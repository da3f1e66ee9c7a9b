"""What an arm looks like to another arm: all of it, as capsules; and how far two arms are apart.
Compiled: 1 kHz.

```
neighbours[:] = capsules_from(pose_base_other, outline_at(q_other, chain_other, outline_other))
distances, slopes, which = separation(q, chain, outline, neighbours)
```
"""

import math
from collections.abc import Sequence

import numpy as np

from robot_rl.config import Guard
from robot_rl.controllers.kinematics import LINK, RADIUS, chain_of, frames_of, place
from robot_rl.geometry import quat_rotate
from robot_rl.machine.compiled import njit
from robot_rl.types import ArmFacts, Array, Capsule

TOOL, TOOL_RADIUS_M = "tool", 0.02
"""What an arm holds is a rod from its flange, so thick, which ends at the controlled point."""

NEAR_M = 0.3
"""A capsule that is further from all others than this is not looked at: no arm is that quick."""


def bodies_of(facts: ArmFacts | None, guards: Sequence[Guard], joints: int) -> tuple[Capsule, ...]:
    """What keeps out of table, walls and boxes: the arm's guarded bodies, and the `guards` of its
    hardware file on the flange. None if its kinematics are not known.
    """
    if facts is None or len(chain_of(facts, joints)) == 0:
        return ()
    return facts.bodies + _mounted(guards, joints)


def outline_of(
    facts: ArmFacts | None, guards: Sequence[Guard], joints: int, tool: Array
) -> tuple[Capsule, ...]:
    """What keeps out of other arms: the whole arm with its hand and fingers, the `guards`, and a
    rod to the controlled point `tool (3,)` [m] on the flange. None if its kinematics are not known.
    """
    if facts is None or len(chain_of(facts, joints)) == 0:
        return ()
    middle = max(1.0 - TOOL_RADIUS_M / max(float(np.linalg.norm(tool)), 1e-6), 0.0) * tool
    tip = (float(middle[0]), float(middle[1]), float(middle[2]))
    rod = Capsule(TOOL, joints + 1, (0.0, 0.0, 0.0), tip, TOOL_RADIUS_M)
    return (*(facts.outline or facts.bodies), *_mounted(guards, joints), rod)


def _mounted(guards: Sequence[Guard], joints: int) -> tuple[Capsule, ...]:
    return tuple(
        Capsule(guard.name, joints + 1, guard.start, guard.end, guard.radius_m) for guard in guards
    )


@njit
def outline_at(q: Array, chain: Array, outline: Array) -> Array:
    """The capsules `(k, 7)` of an arm with the joint angles `q (n,)`, in its base: start, end [m],
    radius [m]. One row of NaN for an arm of which nothing is known.
    """
    if outline.shape[0] == 0:
        return np.full((1, 7), np.nan)
    out = np.empty((outline.shape[0], 7))
    frames = frames_of(q, chain)
    for k in range(outline.shape[0]):
        frame = frames[int(outline[k, LINK])]
        out[k, :3] = place(frame, outline[k, 1:4])
        out[k, 3:6] = place(frame, outline[k, 4:7])
        out[k, 6] = outline[k, RADIUS]
    return out


@njit
def capsules_from(pose: Array, capsules: Array) -> Array:
    """Capsules `(k, 7)` of one frame in another; `pose (7,)` is that of the first in the second:
    `pose_base_other` takes the other arm's into this base.
    """
    out = capsules.copy()
    for k in range(capsules.shape[0]):
        out[k, :3] = pose[:3] + quat_rotate(pose[3:], capsules[k, :3])
        out[k, 3:6] = pose[:3] + quat_rotate(pose[3:], capsules[k, 3:6])
    return out


@njit
def nearest_points(a: Array, b: Array, c: Array, d: Array) -> tuple[float, float]:
    """Where, as shares of their lengths, the segments `a b` and `c d` are nearest to each other.

    Ericson, Real-Time Collision Detection, sec. 5.1.9; a segment may be a point.
    """
    uu = uv = vv = uw = vw = 0.0
    for i in range(3):
        u, v, w = b[i] - a[i], d[i] - c[i], a[i] - c[i]
        uu += u * u
        uv += u * v
        vv += v * v
        uw += u * w
        vw += v * w
    s = t = 0.0
    if uu < 1e-12:
        return 0.0, min(max(vw / vv, 0.0), 1.0) if vv >= 1e-12 else 0.0
    if vv < 1e-12:
        return min(max(-uw / uu, 0.0), 1.0), 0.0
    across = uu * vv - uv * uv
    if across > 1e-9 * uu * vv:  # else they are parallel, and any point does
        s = min(max((uv * vw - uw * vv) / across, 0.0), 1.0)
    t = (uv * s + vw) / vv
    if t < 0.0:
        s, t = min(max(-uw / uu, 0.0), 1.0), 0.0
    elif t > 1.0:
        s, t = min(max((uv - uw) / uu, 0.0), 1.0), 1.0
    return s, t


@njit
def all_known(neighbours: Array) -> bool:
    """Whether every number of the capsules `(m, 7)` is one."""
    for i in range(neighbours.shape[0]):
        for j in range(7):
            if not math.isfinite(neighbours[i, j]):
                return False
    return True


@njit
def separation(
    q: Array, chain: Array, outline: Array, neighbours: Array
) -> tuple[Array, Array, Array]:
    """How far [m] each of the `k` capsules of an arm is from the `neighbours (m, 7)`, all in its
    base.

    Returns the distances `(k,)` between surfaces, negative if they overlap, infinite beyond
    `NEAR_M`; how they grow with each joint, slopes `(k, n)` [m/rad]; and which neighbour each is
    nearest to `(k,)`. All distances are NaN if a neighbour is not known or the arm is not.
    """
    count, joints = outline.shape[0], q.shape[0]
    distances, slopes = np.full(max(count, 1), np.inf), np.zeros((max(count, 1), joints))
    which = np.full(max(count, 1), -1)
    if neighbours.shape[0] == 0:
        return distances, slopes, which
    if count == 0 or not all_known(neighbours):
        distances[:] = np.nan
        return distances, slopes, which
    frames, own = frames_of(q, chain), outline_at(q, chain, outline)
    lengths = np.empty(neighbours.shape[0])
    for m in range(neighbours.shape[0]):
        lengths[m] = length_of(neighbours[m])
    at, normal = np.empty(3), np.empty(3)
    for k in range(count):
        length, best = length_of(own[k]), NEAR_M
        for m in range(neighbours.shape[0]):
            # no nearer than their middles less half their lengths: most pairs are far
            reach = own[k, 6] + neighbours[m, 6] + 0.5 * (length + lengths[m])
            apart = 0.0
            for i in range(3):
                apart += (
                    0.5 * (own[k, i] + own[k, 3 + i] - neighbours[m, i] - neighbours[m, 3 + i])
                ) ** 2
            if apart >= (best + reach) ** 2:
                continue
            s, t = nearest_points(own[k, :3], own[k, 3:6], neighbours[m, :3], neighbours[m, 3:6])
            apart = 0.0
            for i in range(3):
                p = own[k, i] + s * (own[k, 3 + i] - own[k, i])
                apart += (p - neighbours[m, i] - t * (neighbours[m, 3 + i] - neighbours[m, i])) ** 2
            apart = math.sqrt(apart)
            if apart - own[k, 6] - neighbours[m, 6] < best:
                best = apart - own[k, 6] - neighbours[m, 6]
                which[k] = m
                for i in range(3):
                    at[i] = own[k, i] + s * (own[k, 3 + i] - own[k, i])
                    other = neighbours[m, i] + t * (neighbours[m, 3 + i] - neighbours[m, i])
                    normal[i] = (at[i] - other) / max(apart, 1e-9)
        if which[k] >= 0:
            distances[k] = best
            slope_into(slopes[k], frames, int(outline[k, LINK]), at, normal)
    return distances, slopes, which


@njit
def length_of(capsule: Array) -> float:
    """Of the axis of a capsule `(7,)` [m]."""
    return math.sqrt(
        (capsule[3] - capsule[0]) ** 2
        + (capsule[4] - capsule[1]) ** 2
        + (capsule[5] - capsule[2]) ** 2
    )


@njit
def slope_into(slope: Array, frames: Array, link: int, at: Array, normal: Array) -> None:
    """How fast a point `at (3,)` of a link moves along `normal (3,)` per joint speed: `n . (z_j x
    (p - o_j))`, of the joints up to that link.
    """
    for j in range(min(link + 1, slope.shape[0])):
        x, y, z = frames[j, 0, 2], frames[j, 1, 2], frames[j, 2, 2]
        rx, ry, rz = at[0] - frames[j, 0, 3], at[1] - frames[j, 1, 3], at[2] - frames[j, 2, 3]
        slope[j] = (
            normal[0] * (y * rz - z * ry)
            + normal[1] * (z * rx - x * rz)
            + normal[2] * (x * ry - y * rx)
        )
