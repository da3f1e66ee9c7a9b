"""Two arms keep out of each other, compiled: an arm comes no nearer to what another arm is made of,
and more slowly the nearer it is.

Each arm answers for its own half of what is between them, from what it is told of the other alone:
so two that are driven at each other stop, as well as one in front of another that stands. What
leads away is free. A neighbour that is not known (NaN) may be anywhere: the arm holds.

```
gap   = distance - STOP_M                       of each capsule of the arm
v     <= gap / APPROACH_S                       towards the neighbour: of the reference, of a joint move
lead  <= gap / 2                                of what pulls the arm, in front of the arm
```
A velocity damper (Faverjon and Tournassoud 1987) with the second line for what the arm lags behind.
"""

import numpy as np

from robot_rl.controllers.impedance import NULLSPACE_DAMPING, joint_way
from robot_rl.controllers.outline import NEAR_M, all_known, separation
from robot_rl.controllers.tick_values import Bounds, Measured
from robot_rl.geometry import (
    pose_error,
    quat_from_rotvec,
    quat_multiply,
    quat_normalize,
    solve_damped,
    solve_positive,
    twist_of,
)
from robot_rl.machine.compiled import njit
from robot_rl.types import Array

STOP_M, FAULT_M = 0.02, 0.01
"""[m] between the surfaces of two arms: so near a command may bring them; nearer, it is a fault."""

APPROACH_S = 0.25
"""The speed towards a neighbour is at most what would use up the gap in so long [s]: four to ten
times what an arm takes to follow its reference.
"""

LEAD_SHARE = 0.5
"""Of the gap that what pulls the arm may be ahead: the other half is the other arm's."""

BRAKE_S = 0.025
"""Within so long [s] the arm itself is as slow as it has to be, whatever drives it."""

PASSES = 3
"""How often all bounds are gone through, since one may undo another."""


@njit
def distance_to_neighbours(q: Array, bounds: Bounds) -> float:
    """The least distance [m] between an arm and its neighbours: infinite beyond `NEAR_M` or where
    there are none, NaN where one is not known.
    """
    if bounds.neighbours.shape[0] == 0:
        return np.inf
    distances, _, _ = separation(q, bounds.chain, bounds.outline, bounds.neighbours)
    return float(distances.min())


def are_known(bounds: Bounds) -> bool:
    """Whether an arm knows where its neighbours are, and itself: else it may be anywhere near
    them.
    """
    others = bounds.neighbours
    return len(others) == 0 or (len(bounds.outline) > 0 and bool(all_known(others)))


@njit
def dot(a: Array, b: Array) -> float:
    """Of two arrays `(n,)`."""
    total = 0.0
    for i in range(a.shape[0]):
        total += a[i] * b[i]
    return total


@njit
def moved_by(pose: Array, error: Array) -> Array:
    """The pose `(7,)` that is `error (6,)` away in base axes: the inverse of `pose_error`."""
    out = np.empty(7)
    out[:3] = pose[:3] + error[:3]
    out[3:] = quat_normalize(quat_multiply(quat_from_rotvec(error[3:]), pose[3:]))
    return out


@njit
def give_up_into(error: Array, slope: Array, least: float) -> bool:
    """Shorten `error (6,)` [m, rad] so that along `slope (6,)` it is `least` (at most 0) or more;
    whether that was needed.

    Translation and rotation give up what they bring nearer, in proportion; neither grows, so that
    what leads along a neighbour remains.
    """
    nearer, along = np.zeros(2), 0.0
    size = np.full(2, 1e-12)
    for i in range(6):
        part = i // 3
        nearer[part] += slope[i] * error[i]
        size[part] += slope[i] ** 2
        along += slope[i] * error[i]
    if along >= least - 1e-12:
        return False
    total = min(nearer[0], 0.0) + min(nearer[1], 0.0)
    for i in range(6):
        part = i // 3
        error[i] += (least - along) * min(nearer[part], 0.0) / total * slope[i] / size[part]
    return True


@njit
def keep_off(
    reference: Array,
    before: Array,
    now: Measured,
    distances: Array,
    slopes: Array,
    dt: float,
    follows: bool,
) -> tuple[Array, bool]:
    """The reference `(7,)` of a tick that began at `before`, kept off the neighbours; whether it
    had to be.

    With `follows` it only goes on more slowly: the arm's own controller is where it is.
    """
    step = pose_error(before, reference)
    bound = shorten_into(step, now, distances, slopes, dt / APPROACH_S)
    out = moved_by(before, step) if bound else reference.copy()
    if follows:
        return out, bound
    lead = pose_error(now.pose, out)
    shortened = shorten_into(lead, now, distances, slopes, LEAD_SHARE)
    return (moved_by(now.pose, lead) if shortened else out), bound or shortened


@njit
def shorten_into(
    error: Array, now: Measured, distances: Array, slopes: Array, per_gap: float
) -> bool:
    """Shorten an `error (6,)` of the tool [m, rad] so that it brings no capsule nearer than by
    `per_gap` times its gap; whether that was needed.
    """
    if approach_share(joint_way(now.jacobian, error), distances, slopes, per_gap) == 1.0:
        return False
    bound, near = False, np.flatnonzero(distances < NEAR_M)
    directions = np.empty((near.shape[0], 6))
    for r in range(near.shape[0]):
        directions[r] = solve_damped(
            now.jacobian, twist_of(now.jacobian, slopes[near[r]]), NULLSPACE_DAMPING
        )
    for _ in range(PASSES):
        for r in range(near.shape[0]):
            gap = max(distances[near[r]] - STOP_M, 0.0)
            bound |= give_up_into(error, directions[r], -per_gap * gap)
    return bound


@njit
def approach_share(change: Array, distances: Array, slopes: Array, per_gap: float) -> float:
    """Which share of a `change (n,)` of the joints, or of their speeds, brings no capsule nearer
    than by `per_gap` times its gap.
    """
    share = 1.0
    for k in range(distances.shape[0]):
        if distances[k] < NEAR_M:
            closing = -dot(slopes[k], change)
            allowed = per_gap * max(distances[k] - STOP_M, 0.0)
            if closing > max(allowed, 1e-9):
                share = min(share, allowed / closing)
    return share


@njit
def hold_back_into(wanted: Array, now: Measured, distances: Array, slopes: Array) -> bool:
    """Take from torques `(n,)` what would bring the arm nearer more quickly than it may come,
    whatever drives it; whether there was such.

    ```
    d''  =  s . M^-1 (tau - c)  >=  -(1/APPROACH_S + 1/BRAKE_S) d' - gap / (APPROACH_S BRAKE_S)
    ```
    with the least torque that does it, along `s`: a control barrier of second order (Nguyen and
    Sreenath 2016), whose gap falls like exp(-t / APPROACH_S) at most. What moves the arm along its
    neighbour, or away, is left.
    """
    near = np.flatnonzero(distances < NEAR_M)
    free, bound = solve_positive(now.mass, wanted - now.coriolis), False
    for _ in range(PASSES):
        for k in near:
            slope, gap = slopes[k], max(distances[k] - STOP_M, 0.0)
            least = -(1.0 / APPROACH_S + 1.0 / BRAKE_S) * dot(slope, now.dq)
            least -= gap / (APPROACH_S * BRAKE_S)
            missing = least - dot(slope, free)
            if missing > 1e-9:
                answer = solve_positive(now.mass, slope)
                if dot(slope, answer) > 0.0:
                    bound = True
                    wanted += missing / dot(slope, answer) * slope
                    free += missing / dot(slope, answer) * answer
    return bound
