"""What losses beside imitation are worth to an encoder that is trained end to end.

    python -m benchmarks.auxiliary RUN

On the demonstrations of a run with cameras, each row trains encoder and policy anew for as many
updates: imitation alone; with inverse dynamics (what was done between two frames that follow each
other, arXiv 1705.05363 section 2.1); with the distance in time of two frames of an episode (arXiv
1704.06888, as a regression); with both. The last row imitates with what the run's own encoder makes
of a frame. What a row is worth is how well it does what the operator did where it took over from
the policy in the run, which no demonstration shows.
"""

import argparse
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from robot_rl.config.run_folder import RunFolder
from robot_rl.learner.checkpoint import load_policy
from robot_rl.learner.memory import learnable
from robot_rl.networks.augment import random_shift
from robot_rl.networks.encoders import Vision, convolution_dtype
from robot_rl.networks.policy_spec import PolicySpec
from robot_rl.networks.vision import encode
from robot_rl.stream.episodes import by_episode, counted_steps
from robot_rl.stream.log import StepLog
from robot_rl.types import Array, Provenance, Step

FARTHEST = 20
"""Control steps between the two frames whose distance in time is asked for, at most."""
ROWS = {
    "imitation": (),
    "and inverse dynamics": ("inverse",),
    "and distance in time": ("distance",),
    "and both": ("inverse", "distance"),
    "with the run's encoder": None,
}


class Data:
    """Steps as arrays: images by camera, states, actions, and how many frames of its episode follow
    each one.
    """

    def __init__(self, episodes: Sequence[Sequence[Step]], spec: PolicySpec):
        steps = [step for episode in episodes for step in episode]
        self.images = {
            name: np.stack([s.observation["image/" + name] for s in steps]) for name in spec.cameras
        }
        self.told = np.array([spec.told(s.observation) for s in steps])
        self.states = torch.from_numpy(np.stack([spec.states(s.observation) for s in steps]))
        self.behind = np.concatenate([np.arange(len(each))[::-1] for each in episodes])
        # what is done on an observation is in the step that it leads to
        acted = [[*each[1:], each[-1]] for each in episodes]
        flat = [step for each in acted for step in each]
        self.actions = torch.from_numpy(np.stack([s.executed for s in flat]).astype(np.float32))
        self.human = np.array([s.provenance == Provenance.HUMAN for s in flat])


def read(path: Path, folder: RunFolder, kinds: Sequence[Provenance]) -> list[list[Step]]:
    """The episodes of a log whose steps are of these kinds."""
    with StepLog(path, folder.spaces(), read_only=True) as log:
        steps = counted_steps(log.entries())
    steps = [steps[i] for i in learnable(steps)]
    return [each for each in by_episode(steps) if each[-1].provenance in kinds and len(each) > 1]


class Imitator(nn.Module):
    """Encoder, policy, and what is asked besides of pairs of frames."""

    def __init__(self, spec: PolicySpec, states: Tensor, looks: bool):
        super().__init__()
        self.numbers, self.hands = list(spec.actions.continuous), list(spec.actions.discrete)
        self.vision = Vision(spec.cameras, spec.image_size, spec.camera_features) if looks else None
        seen = self.vision.size if self.vision else spec.vision_size
        self.mean, self.std = states.mean(0), states.std(0).clamp(min=1e-3)
        out = len(self.numbers) + 3 * len(self.hands)
        self.act = _layers(seen + spec.state_size, out)
        self.inverse, self.distance = _layers(2 * seen, out), _layers(2 * seen, 1)

    def forward(self, seen: Tensor, states: Tensor) -> Tensor:
        return self.act(torch.cat([seen, (states - self.mean) / self.std], -1))

    def misses(self, said: Tensor, actions: Tensor) -> Tensor:
        """Squared error of the numbers and cross-entropy of each hand's order `(B,)`."""
        count = len(self.numbers)
        missed = (torch.tanh(said[:, :count]) - actions[:, self.numbers]).square().sum(-1)
        for i, hand in enumerate(self.hands):
            order = actions[:, hand].round().long() + 1
            logits = said[:, count + 3 * i : count + 3 * i + 3]
            missed = missed + 0.1 * F.cross_entropy(logits, order, reduction="none")
        return missed


def _layers(inputs: int, outputs: int) -> nn.Module:
    return nn.Sequential(
        nn.Linear(inputs, 256), nn.LayerNorm(256), nn.ReLU(), nn.Linear(256, outputs)
    )


def train(
    model: Imitator,
    data: Data,
    asked: Sequence[str],
    cached: Tensor | None,
    options: argparse.Namespace,
) -> None:
    """So many updates on the demonstrations; `cached` is what a frozen encoder makes of them."""
    rng = np.random.default_rng(options.seed)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, weight_decay=0.03)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-3, options.updates, pct_start=0.1)
    paired = np.flatnonzero(data.behind > 0)

    def look(rows: Array) -> Tensor:
        if cached is not None:
            return cached[rows]
        assert model.vision is not None
        return model.vision({
            name: torch.from_numpy(random_shift(images[rows], rng))
            for name, images in data.images.items()
        })

    for _ in range(options.updates):
        rows = rng.choice(paired, options.batch)
        seen = look(rows)
        loss = model.misses(model(seen, data.states[rows]), data.actions[rows]).mean()
        if "inverse" in asked:
            said = model.inverse(torch.cat([seen, look(rows + 1)], -1))
            loss = loss + options.weight * model.misses(said, data.actions[rows]).mean()
        if "distance" in asked:
            later = 1 + (rng.random(len(rows)) * np.minimum(data.behind[rows], FARTHEST)).astype(
                int
            )
            said = model.distance(torch.cat([seen, look(rows + later)], -1)).squeeze(-1)
            truth = torch.from_numpy(later / FARTHEST).float()
            loss = loss + options.weight * (said - truth).square().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        schedule.step()


@torch.no_grad()
def worth(model: Imitator, data: Data, cached: Tensor | None, chosen: Array) -> str:
    """Of the chosen steps: the mean squared error of the numbers as a share of what they are, and
    how much of the hands' orders that are none to stay it would have given.
    """
    rows = np.flatnonzero(chosen)
    seen = cached
    if seen is None:
        assert model.vision is not None
        seen = torch.from_numpy(encode(model.vision, data.images)).float()
    said = model(seen[rows], data.states[rows])
    count, actions = len(model.numbers), data.actions[rows]
    wanted = actions[:, model.numbers]
    error = (torch.tanh(said[:, :count]) - wanted).square().mean() / wanted.square().mean()
    orders, agree = 0, 0.0
    for i, hand in enumerate(model.hands):
        chances = said[:, count + 3 * i : count + 3 * i + 3].softmax(-1)
        order = actions[:, hand].round().long() + 1
        ordered = order != 1
        orders += int(ordered.sum())
        agree += float(chances[ordered, order[ordered]].sum())
    return f"{error:.2f} | {agree / orders:.2f}" if orders else f"{error:.2f} | "


def rows(options: argparse.Namespace) -> Iterator[str]:
    """The table, one row after the other."""
    folder = RunFolder(options.run)
    policy = load_policy(folder.checkpoints)
    spec = policy.spec
    shown = Data(read(folder.demos_log, folder, [Provenance.DEMO]), spec)
    own = Data(read(folder.steps_log, folder, [Provenance.HUMAN, Provenance.POLICY]), spec)
    yield (
        f"{len(shown.actions):,} frames of demonstrations, {own.human.sum():,} of corrections;"
        f" {options.updates:,} updates of {options.batch}\n\n"
        "| trained with | error in corrections | chance of their orders | s |\n|---|---|---|---|"
    )
    for name, asked in ROWS.items():
        torch.manual_seed(options.seed)
        model, begun = Imitator(spec, shown.states, looks=asked is not None), time.process_time()
        known: tuple[torch.Tensor | None, ...] = (None, None)
        if asked is None:
            assert policy.vision is not None
            known = tuple(
                torch.from_numpy(encode(policy.vision, d.images, d.told)).float()
                for d in (shown, own)
            )
        elif model.vision is not None:
            model.vision.set_dtype(convolution_dtype(torch.device("cpu")))
        train(model, shown, asked or (), known[0], options)
        took = time.process_time() - begun
        yield f"| {name} | {worth(model, own, known[1], own.human)} | {took:.0f} |"


def main() -> None:
    """Print a row for each way."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path)
    parser.add_argument("--updates", type=int, default=1_500)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--weight", type=float, default=1.0, help="of each loss beside imitation")
    parser.add_argument("--seed", type=int, default=0)
    for line in rows(parser.parse_args()):
        print(line, flush=True)


if __name__ == "__main__":
    main()
