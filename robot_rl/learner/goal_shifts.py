"""Where the goals are on the bench, as a picture shows them that was moved: training data of more
scenes than were shown.

Where a camera stands still, a picture that is moved by a few pixels is one of a bench on which
everything lies a little further. An encoder that is to say the same for both learns to look away from
places; told how far the goal has moved it learns what a place in the picture means. So
far as a goal moves with the picture at all: where an arm waits for the other one it does not.

How far is read off what the encoder itself answers: least squares of its newest errors over the
pixels, in each case of what the hands hold, linear in how far below the tool the goal is. An
encoder is held only to its own mean answer.
"""

from collections.abc import Mapping

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from robot_rl.learner.goal_frames import GoalFrames
from robot_rl.learner.goal_loss import misses
from robot_rl.networks.augment import shift
from robot_rl.networks.goal_places import BenchGoals, PlacedGoalVision
from robot_rl.networks.poses import moved, seen_from
from robot_rl.types import Array

MEMORY = 0.98
"""What the frames before count one batch later: about fifty batches together."""

AWAY_M, PER_M = 0.05, 10.0
"""[m, 1/m]: the goal's distance along the tool's axis enters as `PER_M * (distance - AWAY_M)`."""

LEAST = 5e-4
"""Of the pixels' variance in a batch: rarer cases move nothing."""

MOST_M = 0.1
"""[m]: larger errors of a frame count as this."""

LEAST_STD = (4e-3, 4e-2)
"""[m, rad]: what the goals spread by less is how a tool shakes, and counts no more than this."""


class BenchTraining:
    """The loss of a `PlacedGoalVision`'s cameras that stand still.

    ```
    bench = BenchTraining(vision, pixels=8)
    pictures, pixels = bench.pictures(frames, rows, rng)
    loss = bench.loss(images, pixels, goals, told)      # of these pictures in any light
    ```
    """

    def __init__(self, vision: PlacedGoalVision, pixels: int):
        self._bench, self._most = vision.bench, pixels
        self._shifts = GoalShifts(vision.bench)
        least = torch.tensor(LEAST_STD, device=vision.goal_std.device).repeat_interleave(3)
        self._std = torch.maximum(vision.goal_std, least.repeat(len(vision.goal_std) // 6))

    def pictures(
        self, frames: GoalFrames, rows: Array, generator: np.random.Generator
    ) -> tuple[dict[str, Array], Array]:
        """The pictures of some frames, moved, and by how many pixels down and right `(B, 2 * cameras)`."""
        cameras, most = self._bench.cameras, self._most
        pixels = generator.integers(-most, most + 1, (len(rows), len(cameras), 2))
        pictures = {
            name: shift(frames.images[name][rows], pixels[:, i], most)
            for i, name in enumerate(cameras)
        }
        return pictures, pixels.reshape(len(rows), -1)

    def loss(
        self, images: Mapping[str, Tensor], pixels: Array, goals: Tensor, told: Tensor
    ) -> Tensor:
        """What it misses the goals `(B, 6 per arm)` by, on average over those that are known; they move
        with the pictures.
        """
        _, said = self._bench(images, told)
        by = torch.from_numpy(pixels).to(goals)
        missed = misses(said, self._shifts.moved(goals, told, by, said.detach()), self._std)
        known = torch.isfinite(goals)
        return (missed * known).sum() / known.sum().clamp(min=1)


class GoalShifts:
    """How far goals on the bench move with the pictures of cameras that stand still.

    ```
    shifts = GoalShifts(bench)
    goals = shifts.moved(goals, told, pixels, said)
    ```
    """

    def __init__(self, bench: BenchGoals):
        self._bench = bench
        arms, size = len(bench.mean) // 6, 2 * bench.cases * 2 * len(bench.cameras)
        device = bench.mean.device
        self._square = torch.zeros(arms, size, size, device=device)
        self._product = torch.zeros(arms, size, 3, device=device)

    @torch.no_grad()
    def moved(self, goals: Tensor, told: Tensor, pixels: Tensor, said: Tensor) -> Tensor:
        """The `goals (B, 6 per arm)` of frames whose pictures were moved by so many `pixels (B, 2 *
        cameras)`, after it has learnt from what was `said (B, 6 per arm)` of them.
        """
        out = []
        parts = zip(self._bench.tools(told), goals.split(6, 1), said.split(6, 1), strict=True)
        for arm, (tool, goal, answer) in enumerate(parts):
            known = torch.nonzero(~goal[:, 0].isnan())[:, 0]
            if not len(known):
                out.append(goal)
                continue
            there, seen = (moved(tool[known], pose[known]) for pose in (goal, answer))
            asked = self._asked(goal[known, 2], told[known], pixels[known])
            error = (seen - there)[:, :3].clamp(-MOST_M, MOST_M)
            move = asked @ self._learnt(arm, asked, error, len(goals))
            there[:, :3] += move
            out.append(goal.index_copy(0, known, seen_from(tool[known], there)))
        return torch.cat(out, 1)

    def _asked(self, distance: Tensor, told: Tensor, pixels: Tensor) -> Tensor:
        """What the move is linear in `(B, 4 * cases * cameras)`."""
        case = F.one_hot(self._bench.case(told), self._bench.cases).float()
        kind = torch.cat([case, case * (PER_M * (distance - AWAY_M))[:, None]], 1)
        return (kind[:, :, None] * pixels[:, None]).flatten(1)

    def _learnt(self, arm: int, asked: Tensor, error: Tensor, frames: int) -> Tensor:
        """The coefficients, the newest batch included."""
        square, product = self._square[arm], self._product[arm]
        square.mul_(MEMORY).add_(asked.T @ asked, alpha=(1.0 - MEMORY) / frames)
        product.mul_(MEMORY).add_(asked.T @ error, alpha=(1.0 - MEMORY) / frames)
        least = LEAST * (asked.square().sum() / len(asked) + 1e-6)
        ridge = least * torch.eye(len(square), device=square.device)
        return torch.linalg.solve(square + ridge, product)
