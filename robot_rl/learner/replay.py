"""Replay: steps in a ring of slots in memory, sampled as transitions at memory speed.

A slot holds one step: the observation, and what was done to get there. A transition is a slot and
its successor, the following step of the same episode; it is never made from anything else, so no
action meets a frame of another episode or actor. Each frame is stored once. Demonstrations,
corrections and own experience are index sets over the one storage, and a correction's border is no
border of the episode. An episode that just stops coming ends in a slot without successor: it was
truncated, and its last observation is still what the value is bootstrapped from.

The ring is filled from the log, steps and marks in their order: filled again from there, it gives
the same samples. What later versions of a learned judge make of its episodes may come at any time:
what was recorded is held beside what it comes to, and is never changed. One thread writes; another
may gather while nobody does.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from robot_rl.learner.columns import NO_COLUMNS, Column, columns_of, places_of
from robot_rl.learner.frame_ring import FrameRing
from robot_rl.learner.index_sets import IndexSet, draw
from robot_rl.learner.windows import ONE_STEP, Window, follow, taken_over
from robot_rl.stream.episodes import EpisodeLabel, EpisodeOf, Outcome, Relabel, episode_of
from robot_rl.types import ActorStream, Array, DataError, Mark, Provenance, SpaceSpec, Step

_NONE = -1
LOCAL: ActorStream = ("local", 0)
Kind = Literal["demonstrations", "corrections", "own"]
"""`own` is all own experience, corrections included; the other two share no transition with one
another.

What shows nothing (`stream/motion.py`) is experience alone, also in a demonstration, but for its
success: a person may hold still to say it, and critics learn from it. Nobody imitates it."""


@dataclass
class _Episode:
    """An episode's number here, its newest slot, and what is known of it."""

    number: int
    last: int = _NONE
    label: EpisodeLabel = field(default_factory=EpisodeLabel)


class Replay:
    """A ring of `capacity` steps.

    ```
    # as they come; steps of several actors may be interleaved
    replay.append(step, stream=(actor, epoch))
    replay.apply(mark, stream=(actor, epoch))            # likewise
    indices = replay.sample(generator, n_demo=128, n_own=128)
    batch = replay.gather(indices, window=Window(n_step=3, discount=0.97))
    ```
    `keep_images` False drops the frames (their cached `vision` features, `vision_size` float16
    numbers in `variants` augmented versions, are then all that is left of them in memory; the log
    still has them). With `pad` the frames are held with their border pixels repeated so far
    outwards: a shifted frame is then a mere copy. `columns` are held besides those of every replay,
    and are in every batch.
    """

    def __init__(
        self,
        space: SpaceSpec,
        capacity: int,
        keep_images: bool = True,
        vision_size: int = 0,
        variants: int = 1,
        pad: int = 0,
        columns: Mapping[str, Column] = NO_COLUMNS,
    ):
        if capacity < 2:
            raise DataError(f"a replay needs at least 2 slots for a transition, not {capacity}")
        self.capacity = capacity
        observations = space.observations
        self._states = [
            (n, shape[0]) for n, (shape, _) in observations.items() if n.startswith("state/")
        ]
        self._frames = FrameRing(space, capacity, keep_images, vision_size, variants, pad)
        self._columns = columns_of(space) | dict(columns)
        # numbers that are read together lie together: beside batches of images each of them is a
        # miss of the cache
        self._places = places_of(self._columns)
        width = sum(1 if each.size is None else each.size for each in self._columns.values())
        self._numbers = np.zeros((capacity, width), np.float32)
        self.columns = {name: self._numbers[:, place] for name, place in self._places.items()}
        self._reward, self._terminated = self.columns["reward"], self.columns["terminated"]
        self._provenance = np.zeros(capacity, np.int8)
        self._success = np.zeros(capacity, bool)
        self._recorded = np.zeros((capacity, 3), np.float32)  # reward, terminated, success
        self._episode = np.full(capacity, _NONE, np.int32)
        self._index = np.zeros(capacity, np.int32)
        self._following = np.full(capacity, _NONE, np.int32)  # as recorded
        self._predecessor = np.full(capacity, _NONE, np.int32)  # as recorded
        # none where the episode ends, as it is known now
        self._successor = np.full(capacity, _NONE, np.int32)
        self._sets: dict[Kind, IndexSet] = {
            "demonstrations": IndexSet(capacity),
            "corrections": IndexSet(capacity),
            "own": IndexSet(capacity),
        }
        self._episodes: dict[EpisodeOf, _Episode] = {}
        self._relabels: dict[EpisodeOf, Relabel] = {}  # also of episodes that will come
        self._begun = 0
        self._kept = self._next = self._filled = self._newest = 0

    def __len__(self) -> int:
        """Steps held."""
        return self._filled

    def count(self, kind: Kind) -> int:
        """Transitions of this kind."""
        return self._sets[kind].size

    @property
    def own_transitions(self) -> int:
        """Transitions of own experience, corrections included."""
        return self.count("own")

    @property
    def demo_transitions(self) -> int:
        """Transitions of demonstrations and corrections."""
        return self.count("demonstrations") + self.count("corrections")

    @property
    def bytes_per_step(self) -> float:
        """Memory that one slot takes, its frames and its share of the index sets included."""
        arrays = (
            self._frames,
            self._numbers,
            self._provenance,
            self._success,
            self._recorded,
            self._episode,
            self._index,
            self._following,
            self._successor,
            self._predecessor,
        )
        sizes = [array.nbytes for array in arrays] + [s.nbytes for s in self._sets.values()]
        return sum(sizes) / self.capacity

    def extremes(self) -> tuple[float, str, float]:
        """The largest reward held, the name of the state that has the largest number, and that
        number: sizes.
        """
        state = np.abs(self.columns["state"][: self._filled]).max(0, initial=0.0)
        names = [name for name, size in self._states for _ in range(size)]
        where = int(state.argmax()) if state.size else 0
        largest = (names[where], float(state[where])) if state.size else ("", 0.0)
        return float(np.abs(self._reward[: self._filled]).max(initial=0.0)), *largest

    def keep(self) -> None:
        """What has been appended so far (the demonstrations) is never evicted."""
        if self._next + 2 > self.capacity:
            raise DataError(
                f"no room is left beside the {self._next} steps to keep; capacity is"
                f" {self.capacity}"
            )
        self._kept = self._next

    def append(self, step: Step, vision: Array | None = None, stream: ActorStream = LOCAL) -> int:
        """Write a step into the next slot, over the oldest one if the ring is full; returns the
        slot.

        `vision (variants, vision_size)` are the features of its images, if they are cached.
        """
        slot = self._next
        self._forget(slot)
        self._write(slot, step)
        self._frames.write(slot, step, vision)
        self._link(slot, step, stream)
        self._newest = slot
        self._next = slot + 1 if slot + 1 < self.capacity else self._kept
        self._filled = max(self._filled, slot + 1)
        return slot

    def apply(self, mark: Mark, stream: ActorStream = LOCAL) -> None:
        """What a mark says of an episode; of one that is not held (any more), nothing. `stream` is
        whose mark it is.

        discard: no transition of the episode is drawn. success, failure: the episode's last step
        gets the mark's reward and ends the return; if steps of it still follow, the last of them
        does. deny: its success is taken back. undo: the last of these is taken back. gap,
        truncated: no more of the episode comes. The other kinds change nothing here.
        """
        self._hear(episode_of(stream, mark), mark)

    def relabel(self, about: EpisodeOf, said: Relabel) -> None:
        """What a version makes of an episode, which may have gone, or be still to come."""
        known = self._relabels.get(about)
        if known is None or said.version >= known.version:
            self._relabels[about] = said
            self._hear(about, said)

    def _hear(self, about: EpisodeOf, said: Mark | Relabel) -> None:
        if (episode := self._episodes.get(about)) is not None:
            episode.label.hear(said)
            self._judge_all(episode)

    def _judge_all(self, episode: _Episode) -> None:
        for slot in np.flatnonzero(self._episode == episode.number):
            self._judge(int(slot), episode.label)

    def _judge(self, slot: int, label: EpisodeLabel) -> None:
        """What the step in this slot comes to, and whether the transition that ends there counts."""
        reward, terminated, success = self._recorded[slot].tolist()
        recorded = Outcome(reward, bool(terminated), success=bool(success))
        outcome = label.of(int(self._index[slot]), recorded)
        self._reward[slot], self._terminated[slot] = outcome.reward, outcome.terminated
        self._success[slot] = outcome.success
        start = int(self._predecessor[slot])
        if start == _NONE:
            return
        is_reached = label.reaches(int(self._index[slot]))
        self._successor[start] = slot if is_reached else _NONE
        self._put(start, self._kinds(slot) if is_reached and label.counts else ())

    def _put(self, start: int, kinds: tuple[Kind, ...]) -> None:
        """The transition that begins in this slot counts as these, and as nothing else."""
        for kind, members in self._sets.items():
            change = members.add if kind in kinds else members.discard
            change(start)

    def _kinds(self, done: int) -> tuple[Kind, ...]:
        """What the transition that ends in this slot counts as."""
        shows = bool(self.columns["demo"][done])
        if self._provenance[done] == Provenance.DEMO:
            return ("demonstrations",) if shows or self._success[done] else ("own",)
        return ("own", "corrections") if shows else ("own",)

    def _unlink(self, start: int) -> None:
        """The transition that begins in this slot goes, if there is one."""
        self._put(start, ())
        done = self._following[start]
        if done != _NONE:
            self._following[start] = self._successor[start] = self._predecessor[done] = _NONE

    def _forget(self, slot: int) -> None:
        """The step in this slot is about to be overwritten: no transition begins or ends there any
        more.
        """
        self._unlink(slot)
        if self._predecessor[slot] != _NONE:
            self._unlink(int(self._predecessor[slot]))
        self._episode[slot] = _NONE

    def _write(self, slot: int, step: Step) -> None:
        for name, column in self._columns.items():
            self.columns[name][slot] = column.of(step) if column.of is not None else 0.0
        self._recorded[slot] = step.reward, step.terminated, step.success
        self._provenance[slot] = step.provenance
        self._index[slot] = step.index

    def _link(self, slot: int, step: Step, stream: ActorStream) -> None:
        """Make the transition that ends in this slot, if the step before it is there."""
        about = episode_of(stream, step)
        episode = self._episodes.get(about)
        # numbers in two logs without streams may be the same
        if episode is None or step.index == 0:
            label = EpisodeLabel(relabel=self._relabels.get(about))
            episode = self._episodes[about] = _Episode(self._begun, label=label)
            self._begun += 1
        previous, label = episode.last, episode.label
        if (
            self._episode[previous] == episode.number  # it has not been overwritten
            and label.end == "open"
            and self._index[previous] == step.index - 1
        ):
            self._following[previous], self._predecessor[slot] = slot, previous
        self._episode[slot] = episode.number
        episode.last = slot
        label.hear(step)
        if label.words or label.relabel is not None:
            self._judge_all(episode)  # the operator's word moves on
        else:
            self._judge(slot, label)

    def sample(self, generator: np.random.Generator, n_demo: int, n_own: int) -> Array:
        """Indices of transitions for `gather`, demonstrations and corrections first. Uniform, with
        replacement.

        If one of the two kinds has no transition yet, the other fills the batch. Raises DataError
        if both are empty.
        """
        demo: tuple[Kind, ...] = ("demonstrations", "corrections")
        if not self.own_transitions:
            return self.draw(generator, demo, n_demo + n_own)
        if not self.demo_transitions:
            return self.draw(generator, ("own",), n_demo + n_own)
        return np.concatenate([
            self.draw(generator, demo, n_demo),
            self.draw(generator, ("own",), n_own),
        ])

    def draw(self, generator: np.random.Generator, kinds: tuple[Kind, ...], n: int) -> Array:
        """`n` indices of transitions of these kinds together: uniform, with replacement.

        Raises DataError if there is none, or if a correction would count twice.
        """
        if {"own", "corrections"} <= set(kinds):
            raise DataError(
                "corrections are own experience too: draw from 'own' alone, or make two draws"
            )
        if not any(self._sets[kind].size for kind in kinds):
            raise DataError(f"the replay holds no transition yet of {' or '.join(kinds)}: append at least two steps of "
                            "one episode")  # fmt: skip
        return draw(generator, tuple(self._sets[kind] for kind in kinds), n)

    def transitions(self) -> Array:
        """The indices of all transitions, ascending."""
        return np.union1d(self._sets["demonstrations"].all(), self._sets["own"].all())

    def newest(self) -> Array:
        """The index of the transition that ends in the newest step `(1,)`; `(0,)` where it began an
        episode, or lies behind its success.
        """
        start = self._predecessor[self._newest : self._newest + 1]
        return start[(start != _NONE) & (self._successor[start] != _NONE)]

    def newest_episodes(self, transitions: int) -> list[Array]:
        """The newest own episodes of `whole_episodes`, newest first: of each the indices of its
        transitions, in order. So many that they have this many `transitions`, or all there are."""
        found: list[Array] = []
        for slots, _ in self.whole_episodes():
            if sum(map(len, found)) >= transitions:
                break
            if self._provenance[slots[-1]] != Provenance.DEMO:
                found.append(slots[:-1])
        return found

    def whole_episodes(self) -> Iterator[tuple[Array, EpisodeLabel]]:
        """The episodes that are over, count and are held from their first step on, newest first:
        the slots of all steps of each, in order, and what is known of it."""
        for episode in reversed(self._episodes.values()):
            label = episode.label
            if (
                label.end == "open"
                or not label.counts
                or self._episode[episode.last] != episode.number
            ):
                continue
            # behind a success that a later version has moved forward no step has a successor
            slots, slot = list[int](), int(self._predecessor[episode.last])
            while slot != _NONE:
                slots += [slot] if self._successor[slot] != _NONE else []
                slot = int(self._predecessor[slot])
            if slots and self._index[slots[-1]] == 0:
                yield np.array([*slots[::-1], self._successor[slots[0]]]), label

    def observed(self, slots: Array) -> dict[str, Tensor]:
        """What was seen in these steps, named as in a batch: `state (n, S)`, and images or
        `vision`."""
        out = self.buffers(len(slots))
        self._frames.read(slots, slots, None, None, out)
        return {"state": torch.from_numpy(self.columns["state"][slots])} | out

    def buffers(self, n: int, pinned: bool = False) -> dict[str, Tensor]:
        """Tensors for what is large of `n` transitions, images and cached features, to be used
        again and again as `out` of `gather`.

        `pinned`: page-locked memory, from which a GPU copies by itself.
        """
        return self._frames.buffers(n, pinned)

    def gather(
        self,
        indices: Array,
        variants: tuple[Array, Array] | None = None,
        window: Window = ONE_STEP,
        out: dict[str, Tensor] | None = None,
        shifts: Mapping[str, Array] | None = None,
    ) -> dict[str, Tensor]:
        """The transitions at `indices (B,)` as a batch.

        `state, next_state (B, S)`, `action (B, A)` (executed), `reward, terminated, demo (B,)`
        float32 (`demo` is 1 for what of demonstrations and corrections shows a motion), further
        columns by their names (of grippers `ordered (B, G)`, what was commanded, and `toggles
        (B,)`, what was carried out, summed as rewards are; with grippers or several arms `corrected
        (B, A)`, 1 for the numbers that a person gave), `image/NAME, next/image/NAME (B, H, W,
        3)` uint8, `vision, next_vision (B, V)` float16. `variants` selects the cached augmented
        version `(B,)` of the observation and of the next one. `discount (B,)` is what the value of
        the next observation counts: `window.discount` to the power of the rewards in `reward`,
        fewer than `n_step` where the episode ends before; less behind a take-over. Images and
        features are written into `out` (of `buffers`), if it is given. `shifts` says by name which
        pixel `(row, column)` of each padded frame is the first, `(B, 2)` from 0 to 2 `pad`; without
        it none is shifted.
        """
        first = np.asarray(indices)
        done = self._successor[first]  # the step that tells what was done there
        if done.size and done.min() == _NONE:
            raise DataError(
                "an index is of no transition, or of one that has gone: sample and gather in one go"
            )
        path, held = follow(self._successor, done, window.n_step)
        last, taken = path[-1], taken_over(path, self._successor, self._provenance)
        weights, discount = window.weights(held, taken)
        batch = self._read_columns(first, done, last)
        batch["reward"], batch["discount"] = (weights * self._reward[path]).sum(0), discount
        if "toggles" in batch:
            batch["toggles"] = (weights * self.columns["toggles"][path]).sum(0)
        batch["terminated"] = self._terminated[last]
        out = self.buffers(len(first)) if out is None else out
        self._frames.read(first, last, variants, shifts, out)
        return {name: torch.from_numpy(array) for name, array in batch.items()} | out

    def _read_columns(self, first: Array, done: Array, last: Array) -> dict[str, Array]:
        begin, between, end = (self._numbers.take(slots, 0) for slots in (first, done, last))
        batch: dict[str, Array] = {}
        for name, place in self._places.items():
            if self._columns[name].observed:
                batch[name], batch[f"next_{name}"] = begin[:, place].copy(), end[:, place].copy()
            else:
                batch[name] = between[:, place].copy()
        return batch
