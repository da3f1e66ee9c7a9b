"""Progress as a potential: how far a state has come, learnt from whole episodes, for rewards that
come sooner.

Rewards are shaped by it and by nothing else: `r + gamma Phi(s') - Phi(s)`, where Phi of a terminal
state is 0 (`batches.shaped`). Summed over an episode that is the return less Phi of its first
state, whatever Phi is, so no policy becomes better or worse than another by it (Ng, Harada and
Russell 1999, theorem 1). For that Phi must be a function of what the critics see, and one function:
a version is frozen, and where another takes its place all that the replay holds is valued anew.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from robot_rl.learner.replay import Replay
from robot_rl.networks.policy import Policy
from robot_rl.networks.vision import AUTO, encoder_info
from robot_rl.stream.episodes import EpisodeLabel
from robot_rl.types import Array, ConfigError, DataError

Progress = Literal["none", "rewind", "time_to_go", "visitation"]
"""What Phi is of a state: none at all; how far into a success it lies (ReWiND, arXiv 2505.10911);
gamma to the power of the steps that are left; how much more often successes come through it than
failures do."""

HIDDEN, UPDATES, BATCH, LEARNING_RATE = 64, 400, 256, 1e-3
WEIGHT_DECAY = 1e-2
LARGEST_LOGIT = 5.0
"""Of success against failure: beyond it both are as good as certain."""
LEAST_EPISODES = 5
"""Own successes, and own failures, before there is anything to tell them apart by."""
HELD_OUT = 5
"""Every fifth demonstration is not learnt from, but asked about."""
MOST_STEPS = 20_000
"""Own steps that a version is learnt from, the newest."""
RETRY_STEPS = 100
"""Own steps after which episodes are counted again, where there were too few."""
AT_ONCE = 512
Episode = tuple[Array, EpisodeLabel]


class Potential:
    """The potential of each step that a replay holds, in its column `potential`.

    ```
    potential = Potential("time_to_go", policy, discount=0.95, every_steps=1000, seed=0)
    potential.prepare(replay, env_steps)      # before updates: a new version if it is due
    potential.fill(replay)                    # steps that came since: by the version that there is
    ```
    Of the kind "none" there is no column, and nothing happens. Version 0 is 0 everywhere. It stands
    on what the critics see: states, and what a frozen encoder has made of the frames.
    """

    def __init__(
        self, kind: Progress, policy: Policy, discount: float, every_steps: int, seed: int
    ):
        self._kind, self._policy, self._discount = kind, policy, discount
        self._every, self._seed = every_steps, seed
        self._network: nn.Module | None = None
        self.version = self._next_at = 0
        self.figures: dict[str, float] = {}
        names = [name for name, size in policy.spec.state for _ in range(size)]
        self._twist = torch.tensor([name.endswith("tcp_twist") for name in names])

    def prepare(self, replay: Replay, env_steps: int) -> None:
        """Fit a new version if it is due after so many own steps, and fill in what has no value."""
        if self._kind == "none":
            return
        if env_steps >= self._next_at:
            is_new = self._fit(replay)
            self._next_at = env_steps + (self._every if is_new else RETRY_STEPS)
        self.fill(replay)

    def fill(self, replay: Replay) -> None:
        """Value the steps that have been written since the last time.

        By whole blocks of slots: products of another size, or of the same rows elsewhere in them,
        may be rounded otherwise, and a resumed run is to have the very same numbers.
        """
        if self._kind == "none":
            return
        column = replay.columns["potential"]
        fresh = np.isnan(column)
        for block in np.unique(np.flatnonzero(fresh) // AT_ONCE):
            slots = np.arange(block * AT_ONCE, min((block + 1) * AT_ONCE, len(column)))
            column[slots] = np.where(fresh[slots], self.values(replay, slots), column[slots])

    def values(self, replay: Replay, slots: Array) -> Array:
        """Phi `(n,)` of the steps in these slots, between 0 and 1."""
        if self._network is None:
            return np.zeros(len(slots), np.float32)
        with torch.no_grad():
            logits = self._network(self._inputs(replay, slots))[:, 0]
            if self._kind == "visitation":
                logits = logits.clamp(-LARGEST_LOGIT, LARGEST_LOGIT) / (2.0 * LARGEST_LOGIT) + 0.5
                return np.asarray(logits.numpy())
            return np.asarray(torch.sigmoid(logits).numpy())

    def forget(self) -> None:
        """What it stood on, the features of another encoder, is gone: the next version is due."""
        self._network, self._next_at = None, 0

    def _fit(self, replay: Replay) -> bool:
        """Learn the next version, and value all that is held by it. False: too few episodes."""
        shown, own = _episodes(replay)
        held_out = [slots for slots, _ in shown[HELD_OUT - 1 :: HELD_OUT]]
        fitted = [each for i, each in enumerate(shown) if i % HELD_OUT < HELD_OUT - 1]
        slots, targets, weights = self._examples(fitted, own)
        if not len(slots):
            return False
        self.version += 1
        inputs = torch.cat([self._inputs(replay, some) for some in _portions(slots)])
        if self._kind == "rewind":
            # the way back: the same places with falling targets, the tool moving the other way
            back = [self._inputs(replay, some, backwards=True) for some in _portions(slots)]
            inputs = torch.cat([inputs, *back])
            targets, weights = np.tile(targets, 2), np.tile(weights, 2)
        self._network = learnt(inputs, targets, weights, self._seed + 7919 * self.version)
        replay.columns["potential"][: len(replay)] = np.nan
        self.fill(replay)
        self._look(replay, [*shown, *own], held_out)
        return True

    def _examples(
        self, shown: Sequence[Episode], own: Sequence[Episode]
    ) -> tuple[Array, Array, Array]:
        """Slots to learn from, what Phi shall be there (of visitation: whether it is a success),
        and how much each of them counts `(n,)`."""
        won = [slots for slots, label in own if label.succeeded]
        if self._kind == "visitation":
            lost = [slots for slots, label in own if label.has_failed]
            if min(len(won), len(lost)) < LEAST_EPISODES:
                return (np.zeros(0, np.int64),) * 3
            counts = [sum(map(len, each)) for each in (won, lost)]
            slots = np.concatenate([*won, *lost])
            targets = np.repeat(np.array([1.0, 0.0]), counts)
            return slots, targets, np.repeat(0.5 * len(slots) / np.array(counts), counts)
        won = [*(slots for slots, label in shown if label.succeeded), *won]
        if not won:
            return (np.zeros(0, np.int64),) * 3
        targets = np.concatenate([self._course(len(slots)) for slots in won])
        return np.concatenate(won), targets, np.ones(len(targets))

    def _course(self, steps: int) -> Array:
        """What Phi shall be along a success `(steps,)`."""
        if self._kind == "rewind":
            return np.linspace(0.0, 1.0, steps)
        return np.asarray(self._discount ** np.arange(steps)[::-1])

    def _inputs(self, replay: Replay, slots: Array, backwards: bool = False) -> Tensor:
        """What the critics see of these steps `(n, F)`; `backwards`: with the twist reversed."""
        seen, device = replay.observed(slots), next(self._policy.parameters()).device
        state = torch.where(self._twist & backwards, -seen["state"], seen["state"])
        vision = seen["vision"].float().to(device) if "vision" in seen else None
        with torch.no_grad():
            return self._policy.features(state.to(device), vision).cpu()

    def _look(self, replay: Replay, episodes: Sequence[Episode], held_out: list[Array]) -> None:
        """Figures for the metrics, of the version that is new."""
        column = replay.columns["potential"]
        ends = [slots[-1] for slots, label in episodes if label.succeeded]
        self.figures = {"potential_version": float(self.version)}
        if episodes:
            starts = [slots[0] for slots, _ in episodes]
            self.figures["potential_start"] = float(column[starts].mean())
        if ends:
            self.figures["potential_success"] = float(column[ends].mean())
        if held_out:
            orders = [rank_correlation(column[slots]) for slots in held_out]
            self.figures["potential_voc"] = float(np.mean(orders))

    def tensors(self) -> dict[str, Tensor]:
        """The weights of the version in force, by names that no agent has."""
        weights = self._network.state_dict() if self._network is not None else {}
        return {f"potential.{name}": tensor for name, tensor in weights.items()}

    def counters(self) -> dict[str, Any]:
        """What a resumed run goes on with beside the `tensors`, as plain JSON."""
        return {
            "kind": self._kind,
            "version": self.version,
            "next_at": self._next_at,
            "figures": dict(self.figures),
        }

    def restore(self, tensors: Mapping[str, Tensor], counters: Mapping[str, Any]) -> None:
        """Take over what a checkpoint holds; of one of another kind nothing. DataError if it is
        damaged.
        """
        if counters.get("kind") != self._kind:
            return
        try:
            self.version, self._next_at = int(counters["version"]), int(counters["next_at"])
            self.figures = {name: float(value) for name, value in counters["figures"].items()}
            head = "potential."
            weights = {n.removeprefix(head): t for n, t in tensors.items() if n.startswith(head)}
            self._network = None
            if weights:
                self._network = _network(self._policy.feature_size)
                self._network.load_state_dict(weights)
        except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
            raise DataError(f"the checkpoint's potential is damaged: {error}") from error


def learnt(inputs: Tensor, targets: Array, weights: Array, seed: int) -> nn.Module:
    """A small network whose sigmoid follows `targets` in [0, 1] at `inputs (n, F)`, each counting
    its weight. The same for the same seed.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = _network(inputs.shape[1])
        wanted, counts = (torch.from_numpy(a.astype(np.float32)) for a in (targets, weights))
        optimizer = torch.optim.AdamW(
            network.parameters(), LEARNING_RATE, weight_decay=WEIGHT_DECAY
        )
        for _ in range(UPDATES):
            some = torch.randint(len(inputs), (BATCH,))
            loss = F.binary_cross_entropy_with_logits(
                network(inputs[some])[:, 0], wanted[some], counts[some]
            )
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
    return network


def _network(size: int) -> nn.Module:
    return nn.Sequential(
        nn.Linear(size, HIDDEN),
        nn.LayerNorm(HIDDEN),
        nn.ReLU(),
        nn.Linear(HIDDEN, HIDDEN),
        nn.ReLU(),
        nn.Linear(HIDDEN, 1),
    )


def _episodes(replay: Replay) -> tuple[list[Episode], list[Episode]]:
    """The demonstrations, and the newest own episodes with about `MOST_STEPS`, each oldest first."""
    shown: list[Episode] = []
    own: list[Episode] = []
    steps = 0
    for slots, label in replay.whole_episodes():
        if label.is_demonstration:
            shown.append((slots, label))
        elif steps < MOST_STEPS:
            own.append((slots, label))
            steps += len(slots)
    return shown[::-1], own[::-1]


def _portions(slots: Array) -> list[Array]:
    return [slots[i : i + AT_ONCE] for i in range(0, len(slots), AT_ONCE)]


def rank_correlation(values: Array) -> float:
    """Spearman's, of values with their order: 1 if they only rise, 0 if they are all the same. Of
    potentials along an episode it is the value-order correlation (VOC, arXiv 2411.04549).
    """
    _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = (counts.cumsum() - 0.5 * counts)[which]  # equal values share their mean rank
    if len(counts) < 2:
        return 0.0
    return float(np.corrcoef(ranks, np.arange(len(values)))[0, 1])


def require_progress(kind: Progress, encoder: str, has_critic: bool, every_steps: int) -> None:
    """Raise ConfigError for a potential that cannot be learnt, or that nobody would learn from:
    without critics, or where their loss trains the encoder, so that nothing is frozen."""
    if every_steps < 1:
        raise ConfigError(f"progress_steps must be at least 1, not {every_steps}")
    if kind == "none":
        return
    if not has_critic:
        raise ConfigError("progress shapes what critics learn from, and this algorithm has none")
    info = encoder_info(AUTO if encoder == "auto" else encoder)
    if info.trained != "nothing":
        raise ConfigError(
            f"progress needs an encoder that stays as it is, and {encoder!r} is trained during the"
            " run: take encoder goal, or progress none"
        )
