"""Poses that can be learnt through: what of `geometry` a head needs that says where things are.

Poses are `(B, 6)`, translation [m] and rotation vector [rad]; quaternions `(B, 4)` x y z w.
"""

import torch
from torch import Tensor


def seen_from(pose: Tensor, other: Tensor) -> Tensor:
    """`geometry.pose_delta`: where one is, seen from another."""
    back = _quat(-pose[:, 3:])
    move = _rotate(back, other[:, :3] - pose[:, :3])
    return torch.cat([move, _rotvec(_multiply(back, _quat(other[:, 3:])))], -1)


def moved(pose: Tensor, delta: Tensor) -> Tensor:
    """`geometry.pose_move`: what is seen from a pose as `delta`."""
    turn = _quat(pose[:, 3:])
    turned = _multiply(turn, _quat(delta[:, 3:]))
    return torch.cat([pose[:, :3] + _rotate(turn, delta[:, :3]), _rotvec(turned)], -1)


def _quat(rotvec: Tensor) -> Tensor:
    """The quaternions of rotation vectors `(B, 3)`."""
    angle = _length(rotvec)
    return torch.cat([rotvec * (angle / 2).sin() / angle, (angle / 2).cos()], -1)


def _rotvec(quat: Tensor) -> Tensor:
    """Rotation vectors `(B, 3)` of quaternions `(B, 4)`, the short way."""
    quat = torch.where(quat[:, 3:] < 0.0, -quat, quat)
    length = _length(quat[:, :3])
    return quat[:, :3] * 2.0 * torch.atan2(length, quat[:, 3:]) / length


def _multiply(a: Tensor, b: Tensor) -> Tensor:
    vector = a[:, 3:] * b[:, :3] + b[:, 3:] * a[:, :3] + torch.linalg.cross(a[:, :3], b[:, :3])
    return torch.cat([vector, a[:, 3:] * b[:, 3:] - (a[:, :3] * b[:, :3]).sum(-1, True)], -1)


def _rotate(quat: Tensor, vector: Tensor) -> Tensor:
    twice = 2.0 * torch.linalg.cross(quat[:, :3], vector)
    return vector + quat[:, 3:] * twice + torch.linalg.cross(quat[:, :3], twice)


def _length(vector: Tensor) -> Tensor:
    """Lengths `(B, 1)`, never quite zero: there is a gradient there, too."""
    return (vector.square().sum(-1, True) + 1e-12).sqrt()
