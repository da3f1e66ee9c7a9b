"""Where the links of an arm are, and how far its guarded bodies are from what they must not touch.
Compiled: 1 kHz.

An arm's own kinematics are in `ArmFacts.dh`; a guarded body is a capsule on one of its links
(`types.Capsule`).
"""

import math
from collections.abc import Sequence

import numpy as np

from robot_rl.controllers.safety import depth_inside, outside_workspace
from robot_rl.machine.compiled import njit
from robot_rl.types import ArmFacts, Array, Capsule

LINK, START, END, RADIUS = 0, slice(1, 4), slice(4, 7), 7
"""Columns of `capsules (k, 8)`."""

HALVINGS = 12
"""Ternary search for the point of a capsule's axis that is nearest to a box: to a hundredth of its
length.
"""


def chain_of(facts: ArmFacts | None, joints: int) -> Array:
    """The kinematics `(n + 1, 3)` of an arm, its flange last; `(0, 3)` if they are not known."""
    if facts is None or len(facts.dh) != joints:
        return np.zeros((0, 3))
    return np.array([*facts.dh, (0.0, facts.flange_m, 0.0)])


def capsules_of(bodies: Sequence[Capsule]) -> Array:
    """Guarded bodies as `(k, 8)`."""
    return np.array([
        [body.link - 1, *body.start, *body.end, body.radius_m] for body in bodies
    ]).reshape(-1, 8)


@njit
def frames_of(q, chain):
    """The frames `(n + 1, 3, 4)` of the links and of the flange in the base, `[R | p]`, for joint
    angles `q (n,)`.
    """
    frames = np.empty((chain.shape[0], 3, 4))
    R = np.eye(3)
    p = np.zeros(3)
    for i in range(chain.shape[0]):
        a, d, alpha = chain[i, 0], chain[i, 1], chain[i, 2]
        theta = q[i] if i < q.shape[0] else 0.0
        ca, sa, ct, st = math.cos(alpha), math.sin(alpha), math.cos(theta), math.sin(theta)
        for r in range(3):
            x, y, z = R[r, 0], R[r, 1], R[r, 2]
            p[r] += x * a - y * sa * d + z * ca * d
            ahead = y * ca + z * sa
            R[r, 0] = x * ct + ahead * st
            R[r, 1] = -x * st + ahead * ct
            R[r, 2] = -y * sa + z * ca
            frames[i, r, 0] = R[r, 0]
            frames[i, r, 1] = R[r, 1]
            frames[i, r, 2] = R[r, 2]
            frames[i, r, 3] = p[r]
    return frames


@njit
def place(frame, point):
    """A point `(3,)` of a link, in the base."""
    out = np.empty(3)
    for r in range(3):
        out[r] = (
            frame[r, 0] * point[0] + frame[r, 1] * point[1] + frame[r, 2] * point[2] + frame[r, 3]
        )
    return out


@njit
def distance_to_box(start, end, share, box):
    """Signed distance [m] to a box of the point at `share` of the way from `start` to `end`;
    negative inside.
    """
    outside, inside = 0.0, -np.inf
    for i in range(3):
        at = start[i] + share * (end[i] - start[i])
        beyond = max(box[0, i] - at, at - box[1, i])
        outside += max(beyond, 0.0) ** 2
        inside = max(inside, beyond)
    return math.sqrt(outside) if inside > 0.0 else inside


@njit
def segment_to_box(start, end, box):
    """Signed distance [m] between a segment and a box: it is convex along the segment."""
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        a, b = low + (high - low) / 3.0, high - (high - low) / 3.0
        if distance_to_box(start, end, a, box) < distance_to_box(start, end, b, box):
            high = b
        else:
            low = a
    ends = min(distance_to_box(start, end, 0.0, box), distance_to_box(start, end, 1.0, box))
    return min(ends, distance_to_box(start, end, 0.5 * (low + high), box))


@njit
def body_clearance(q, chain, capsules, room, boxes):
    """How far [m] the guarded bodies are from the walls of the `room (2, 3)` and the `boxes (k, 2,
    3)`, and which.

    The smallest of all, with the index of its capsule; negative: it is in there. Infinite if
    nothing is guarded.
    """
    best, which = np.inf, -1
    if chain.shape[0] == 0 or capsules.shape[0] == 0:
        return best, which
    frames = frames_of(q, chain)
    for k in range(capsules.shape[0]):
        frame = frames[int(capsules[k, LINK])]
        start = place(frame, capsules[k, START])
        end = place(frame, capsules[k, END])
        radius = capsules[k, RADIUS]
        clear = np.inf
        for i in range(3):  # a wall is flat: an end is nearest
            clear = min(
                clear,
                start[i] - room[0, i],
                end[i] - room[0, i],
                room[1, i] - start[i],
                room[1, i] - end[i],
            )
        for b in range(boxes.shape[0]):
            # no nearer than its middle less half its length: most boxes are far
            half = 0.0
            for i in range(3):
                half += 0.25 * (end[i] - start[i]) ** 2
            if distance_to_box(start, end, 0.5, boxes[b]) - math.sqrt(half) < clear:
                clear = min(clear, segment_to_box(start, end, boxes[b]))
        if clear - radius < best:
            best, which = clear - radius, k
    return best, which


@njit
def path_leaves(begun, goal, looks, chain, tool, capsules, room, workspace, boxes):
    """Whether a straight way in joint space leads out of the workspace or the bodies' room, or into
    a keep-out box.

    `tool (3,)` [m] is the controlled point in the flange's frame. What is outside at the beginning
    may come in: on no posture on the way may it be further out than on any before.
    """
    outside = deep = close = 0.0
    for look in range(looks):
        q = begun + look / (looks - 1.0) * (goal - begun)
        tip = place(frames_of(q, chain)[chain.shape[0] - 1], tool)
        out, depth = outside_workspace(tip, workspace), -np.inf
        for k in range(boxes.shape[0]):
            depth = max(depth, depth_inside(tip, boxes[k]))
        clearance, _ = body_clearance(q, chain, capsules, room, boxes)
        if look > 0 and (out > outside + 1e-6 or depth > deep + 1e-6 or -clearance > close + 1e-6):
            return True
        outside, deep, close = max(out, 0.0), max(depth, 0.0), max(-clearance, 0.0)
    return False
