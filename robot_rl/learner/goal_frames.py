"""Frames with a known goal: what a camera encoder is pretrained on, without a label.

At a demonstration's success the tool pose *is* the goal pose, so for every earlier frame of that
episode the goal, seen from the tool, is known; where a person says success, at the moment when they
meant it. So it is for the frames of free wandering (provenance SCRIPT) that starts there.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from robot_rl import geometry
from robot_rl.networks.policy import PolicySpec
from robot_rl.types import Array, DataError, Provenance, Step


@dataclass(frozen=True)
class GoalFrames:
    """Frames with a known goal: `images` uint8 `(N, H, W, 3)` per camera, `gravity (N, 3 per arm)`,
    the unit vector downwards, and `goals (N, 6 per arm)` [m, rad], both in the tool frame, `scenes
    (N,)`: frames of one scene share one goal in the world."""

    images: Mapping[str, Array]
    gravity: Array
    goals: Array
    scenes: Array


def goal_frames(
    steps: Iterable[Step],
    spec: PolicySpec,
    successes: Iterable[Sequence[Step]] = (),
    *,
    said_late_s: float = 0.0,
) -> GoalFrames:
    """Collect the frames of successful demonstrations, of wandering, and of `successes`, other
    episodes that reached the goal, with the goal seen from the tool.

    The goal is where the tool was when success was meant, `said_late_s` before it was said: a
    person may have let go or drawn back by then. Raises DataError if there are no frames.
    """
    images: dict[str, list[Array]] = {name: [] for name in spec.cameras}
    gravity: list[Array] = []
    goals: list[Array] = []
    scenes: list[int] = []
    scene = -1
    reached: Sequence[
        Step
    ] = ()  # the newest demonstration that did, where the wandering behind it begins

    def take(episode: Sequence[Step], goal: list[Array]) -> None:
        for step in episode:
            gravity.append(spec.gravity(step.observation))
            poses = _poses(step, spec)
            goals.append(
                np.concatenate([
                    geometry.pose_delta(*pair) for pair in zip(poses, goal, strict=True)
                ])
            )
            scenes.append(scene)
            for name, frames in images.items():
                frames.append(step.observation["image/" + name])

    for episode in _episodes(steps):
        first, last = episode[0], episode[-1]
        if first.provenance == Provenance.DEMO:
            scene += 1
            if last.success:
                take(episode, _poses(meant(episode, said_late_s), spec))
                reached = episode
        elif first.provenance == Provenance.SCRIPT:
            follows = bool(reached) and reached[-1].episode == first.episode - 1
            take(
                episode,
                _goal_at(first, reached, said_late_s, spec) if follows else _poses(first, spec),
            )
    for success in successes:
        scene += 1
        take(success, _poses(meant(success, said_late_s), spec))
    if not goals:
        raise DataError(
            "there is no successful demonstration to pretrain the encoder on; record some first"
        )
    pictures = {name: np.stack(frames) for name, frames in images.items()}
    return GoalFrames(pictures, np.array(gravity), np.array(goals, np.float32), np.array(scenes))


def _episodes(steps: Iterable[Step]) -> Iterator[list[Step]]:
    episode: list[Step] = []
    for step in steps:
        if step.index == 0 and episode:
            yield episode
            episode = []
        episode.append(step)
    if episode:
        yield episode


def meant(success: Sequence[Step], said_late_s: float) -> Step:
    """The step at which the success was meant that ends an episode and was said so much later [s]."""
    said_t = success[-1].t_monotonic
    return next(
        (step for step in reversed(success) if step.t_monotonic <= said_t - said_late_s), success[0]
    )


def _poses(step: Step, spec: PolicySpec) -> list[Array]:
    """The tools' poses `(7,)`, relative to those at the episode's start."""
    return [geometry.pose_from_vector(step.observation[key]) for key in spec.pose_keys]


def _goal_at(
    first: Step, reached: Sequence[Step], said_late_s: float, spec: PolicySpec
) -> list[Array]:
    """The goal, in the frames of the episode that begins with `first`, where the demonstration
    `reached` has ended.
    """
    ends, goals = _poses(reached[-1], spec), _poses(meant(reached, said_late_s), spec)
    back = [geometry.pose_delta(end, goal) for end, goal in zip(ends, goals, strict=True)]
    return [
        geometry.pose_move(pose, move) for pose, move in zip(_poses(first, spec), back, strict=True)
    ]
