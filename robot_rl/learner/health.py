"""Whether learning is well: what the critics promise beside what then came, and how sure and how
fresh all of it is.

Everything here is computed when a line of metrics is written, from what replay and agent hold: no
number is drawn and no weight is changed, so a run learns the very same with and without it.
"""

import time
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from robot_rl.learner.agents._parts import BaseAgent, Batch
from robot_rl.learner.memory import Memory
from robot_rl.learner.replay import Replay
from robot_rl.types import Array

TRANSITIONS = 256
"""Of the newest whole own episodes are looked at: as many as an update has in its batch."""
SATURATED = 0.95
"""Share of the action's range from which on an action counts as being at its border."""


@torch.no_grad()
def health(agent: BaseAgent, replay: Replay, discount: float, device: str) -> dict[str, float]:
    """Figures of the newest whole own episodes and of the newest update. What there is nothing of
    yet is left out.

    `saturation` is the share of the policy's modes at their border, on the axis with the largest
    share. `disagreement` is the standard deviation over the critics. For `q_*` and `return_*` see
    `promised_and_came`.
    """
    figures = {name: float(norm) for name, norm in agent.gradient_norms().items()}
    episodes = replay.newest_episodes(TRANSITIONS)
    if not episodes:
        return figures
    batch = replay.gather(np.concatenate(episodes))
    modes, q = agent.assess(_on(device, batch))
    axes = modes[:, list(agent.spec.actions.continuous)]
    figures["saturation"] = float((axes.abs() > SATURATED).float().mean(0).max())
    if not agent.has_critic:
        return figures
    last = replay.gather(np.array([slots[-1] for slots in episodes]))
    _, after = agent.assess(_on(device, last), "next")
    figures["disagreement"] = float(q.std(0, correction=0).mean())
    lengths = [len(slots) for slots in episodes]
    promised, behind = unshaped(q, batch), unshaped(after, last, "next_")
    return figures | promised_and_came(lengths, batch, promised, behind, discount)


def unshaped(q: Tensor, batch: Batch, prefix: str = "") -> Array:
    """The critics' mean value `(B,)` of the task's own rewards, of `q (critics, B)`: what shaped
    rewards teach is less by the potential of the state."""
    return q.mean(0).cpu().numpy() + batch.get(f"{prefix}potential", torch.zeros(())).numpy()


def _on(device: str, batch: Batch) -> Batch:
    return {name: tensor.to(device) for name, tensor in batch.items()}


def promised_and_came(
    lengths: Sequence[int], batch: Batch, q: Array, after: Array, discount: float
) -> dict[str, float]:
    """Mean value `q (B,)` of the policy's action, and mean discounted return that came from there
    on, in four places.

    `batch` holds whole episodes of `lengths` transitions one after the other. `start`: where an
    episode begins. `human`: where the operator acted. `before_help`: where the policy acted and the
    operator did so later in the episode. `alone`: where nobody acted any more but the policy.
    Behind an episode that was cut off, at its time limit for example, the return goes on with the
    value `after (episodes,)` of its last observation.
    """
    rewards, terminated = batch["reward"].numpy(), batch["terminated"].numpy() > 0.0
    human = batch["demo"].numpy() > 0.0
    came, helped, first = np.zeros(len(q)), np.zeros(len(q), bool), np.zeros(len(q), bool)
    end = 0
    for length, value in zip(lengths, after, strict=True):
        begin, end = end, end + length
        first[begin] = True
        helped[begin:end] = np.logical_or.accumulate(human[begin:end][::-1])[::-1]
        value = 0.0 if terminated[end - 1] else value
        for i in reversed(range(begin, end)):
            came[i] = value = rewards[i] + discount * value
    places = {"start": first, "human": human, "before_help": helped & ~human, "alone": ~helped}
    figures: dict[str, float] = {}
    for name, there in places.items():
        if there.any():
            figures |= {
                f"q_{name}": float(q[there].mean()),
                f"return_{name}": float(came[there].mean()),
            }
    return figures


@torch.no_grad()
def newest_value(agent: BaseAgent, memory: Memory, device: str) -> dict[str, float]:
    """What the critic expects from the newest step on, and in which episode that is.

    Nothing where an episode begins or ends, or without a critic.
    """
    if not agent.has_critic:
        return {}
    batch = memory.replay.gather(memory.replay.newest())
    if batch["terminated"].tolist() != [0.0]:
        return {}
    _, q = agent.assess(_on(device, batch), "next")
    value = float(unshaped(q, batch, "next_")[0])
    return {"value": value, "value_episode": memory.newest_episode}


class Means:
    """Means of the figures of the updates since they were last taken, and the updates' speed."""

    def __init__(self) -> None:
        self._rows: list[dict[str, torch.Tensor]] = []
        self.begin(0)

    def begin(self, updates: int) -> None:
        """So many `updates` are made: the speed is counted from here on."""
        self._begun, self._updates = time.monotonic(), updates

    def add(self, figures: dict[str, torch.Tensor]) -> None:
        """The figures of one update; they are not read before they are taken."""
        self._rows.append(figures)

    def per_s(self, updates: int) -> float:
        """Updates per second since the last call, with so many `updates` made in all."""
        then, before = self._begun, self._updates
        self.begin(updates)
        return (updates - before) / max(self._begun - then, 1e-9)

    def take(self) -> dict[str, float]:
        """The means by name; the critics' is `q`."""
        rows, self._rows = self._rows, []
        names = sorted({name for row in rows for name in row})
        means = {n: float(torch.stack([r[n] for r in rows if n in r]).mean()) for n in names}
        if "q_mean" in means:
            means["q"] = means.pop("q_mean")
        return means


class WeightsAge:
    """How old the weights were that the newest own step was made with.

    ```
    age.published(version, updates)             # the learner, each time
    age.used(step.weights_version)              # as own steps arrive
    line |= age.figures(updates)
    ```
    """

    def __init__(self) -> None:
        self._published: dict[int, tuple[int, float]] = {}
        self._newest: tuple[int, float] | None = None

    def published(self, version: int, updates: int) -> None:
        """These weights, made by so many updates, are on their way to the actor."""
        self._published[version] = updates, time.monotonic()

    def used(self, version: int) -> None:
        """A step that was made with these weights has arrived. Older ones are not asked for any
        more.
        """
        if (published := self._published.get(version)) is None:  # by the learner before a restart
            self._newest = None
            return
        self._newest = published[0], time.monotonic() - published[1]
        for older in [known for known in self._published if known < version]:
            del self._published[older]

    def figures(self, updates: int) -> dict[str, float]:
        """`weights_age_updates`: made since, of `updates` in all. `weights_age_s`: from publication
        to the step.
        """
        if self._newest is None:
            return {}
        return {"weights_age_updates": updates - self._newest[0], "weights_age_s": self._newest[1]}
