"""Replay: steps in a ring of slots in memory, sampled as transitions at memory speed.

A slot holds one step: the observation, and what was done to get there. A transition is a slot and its successor, the
following step of the same episode; it is never made from anything else, so no action meets a frame of another
episode or segment. Each frame is stored once. Demonstrations, corrections and own experience share the storage and
differ by a flag. An episode that just stops coming ends in a slot without successor: it was truncated, and its
last observation is still what the value is bootstrapped from.
"""

import numpy as np
import torch
from torch import Tensor

from robot_rl.types import Array, DataError, Provenance, SpaceSpec, Step

_NONE = -1


class _SlotSet:
    """A set of slots with uniform sampling: add, discard and draw in constant time."""

    def __init__(self, capacity: int):
        self._members = np.zeros(capacity, np.int64)
        self._position = np.full(capacity, _NONE, np.int64)
        self.size = 0

    def add(self, slot: int) -> None:
        if self._position[slot] == _NONE:
            self._members[self.size], self._position[slot] = slot, self.size
            self.size += 1

    def discard(self, slot: int) -> None:
        position = self._position[slot]
        if position != _NONE:
            self.size -= 1
            last = self._members[self.size]
            self._members[position], self._position[last] = last, position
            self._position[slot] = _NONE

    def draw(self, generator: np.random.Generator, n: int) -> Array:
        return self._members[generator.integers(0, self.size, n)]

    def all(self) -> Array:
        return np.sort(self._members[: self.size])


class Replay:
    """A ring of `capacity` steps.

    ```
    replay.append(step)                                  # as they come; steps of several actors may be interleaved
    indices = replay.sample(generator, n_demo=128, n_own=128)
    batch = replay.gather(indices)
    ```
    `keep_images` False drops the frames (their cached `vision` features, `vision_size` float16 numbers in `variants`
    augmented versions, are then all that is left of them in memory; the log still has them).
    """

    def __init__(
        self, space: SpaceSpec, capacity: int, keep_images: bool = True, vision_size: int = 0, variants: int = 1
    ):
        if capacity < 2:
            raise DataError(f"a replay needs at least 2 slots for a transition, not {capacity}")
        self.capacity = capacity
        observations = space.observations
        self._states = [(n, shape[0]) for n, (shape, _) in observations.items() if n.startswith("state/")]
        state_size = sum(size for _, size in self._states)
        # np.zeros maps memory lazily: slots that were never written cost none
        self._images = {
            n: np.zeros((capacity, *shape), np.uint8)
            for n, (shape, _) in observations.items()
            if n.startswith("image/") and keep_images
        }
        self._state = np.zeros((capacity, state_size), np.float32)
        self._executed = np.zeros((capacity, space.action_size), np.float32)
        self._commanded = np.zeros((capacity, space.action_size), np.float32)
        self._reward = np.zeros(capacity, np.float32)
        self._terminated = np.zeros(capacity, np.float32)
        self._provenance = np.zeros(capacity, np.int8)
        self._episode = np.full(capacity, _NONE, np.int64)
        self._index = np.zeros(capacity, np.int64)
        self._successor = np.full(capacity, _NONE, np.int64)
        self._predecessor = np.full(capacity, _NONE, np.int64)
        self._vision = np.zeros((capacity, variants, vision_size), np.float16) if vision_size else None
        self._own, self._demo = _SlotSet(capacity), _SlotSet(capacity)
        self._last_slot: dict[int, int] = {}
        self._kept = self._next = self._filled = 0

    def __len__(self) -> int:
        """Steps held."""
        return self._filled

    @property
    def own_transitions(self) -> int:
        """Transitions of own experience, corrections included."""
        return self._own.size

    @property
    def demo_transitions(self) -> int:
        """Transitions of demonstrations and corrections."""
        return self._demo.size

    def keep(self) -> None:
        """What has been appended so far (the demonstrations) is never evicted."""
        if self._next + 2 > self.capacity:
            raise DataError(f"no room is left beside the {self._next} steps to keep; capacity is {self.capacity}")
        self._kept = self._next

    def append(self, step: Step, vision: Array | None = None) -> int:
        """Write a step into the next slot, over the oldest one if the ring is full; returns the slot.

        `vision (variants, vision_size)` are the features of its images, if they are cached.
        """
        slot = self._next
        self._forget(slot)
        self._write(slot, step)
        if self._vision is not None:
            if vision is None:
                raise DataError("this replay caches vision features, but the step came without them")
            self._vision[slot] = vision
        self._link(slot, step)
        self._next = slot + 1 if slot + 1 < self.capacity else self._kept
        self._filled = max(self._filled, slot + 1)
        return slot

    def _forget(self, slot: int) -> None:
        """The old step in this slot goes, and with it the transition that began and the one that ended there.

        (The latter matters only if it began in a kept slot: otherwise it began at an older one, already gone.)
        """
        for start in (slot, self._predecessor[slot]):
            if start != _NONE:
                self._own.discard(start)
                self._demo.discard(start)
                self._successor[start] = _NONE
        self._predecessor[slot] = _NONE

    def _write(self, slot: int, step: Step) -> None:
        start = 0
        for name, size in self._states:
            self._state[slot, start : start + size] = step.observation[name]
            start += size
        for name, array in self._images.items():
            array[slot] = step.observation[name]
        self._executed[slot] = np.clip(step.executed, -1.0, 1.0)  # outside, tanh has no density
        self._commanded[slot] = step.commanded
        self._reward[slot] = step.reward
        self._terminated[slot] = step.terminated
        self._provenance[slot] = step.provenance
        self._episode[slot], self._index[slot] = step.episode, step.index

    def _link(self, slot: int, step: Step) -> None:
        """Make the transition that ends in this slot, if the step before it is there."""
        previous = self._last_slot.pop(step.episode, _NONE)
        follows = (
            step.index > 0
            and previous != _NONE
            and previous != slot
            and self._episode[previous] == step.episode
            and self._index[previous] == step.index - 1
        )
        if follows:
            self._successor[previous], self._predecessor[slot] = slot, previous
            if step.provenance != Provenance.DEMO:
                self._own.add(previous)
            if step.provenance in (Provenance.DEMO, Provenance.HUMAN):
                self._demo.add(previous)
        if not (step.terminated or step.truncated):
            self._last_slot[step.episode] = slot

    def sample(self, generator: np.random.Generator, n_demo: int, n_own: int) -> Array:
        """Indices of transitions for `gather`, demonstrations and corrections first. Uniform, with replacement.

        If one of the two kinds has no transition yet, the other fills the batch. Raises DataError if both are empty.
        """
        if not self._own.size and not self._demo.size:
            raise DataError("the replay holds no transition yet: append at least two steps of one episode")
        if not self._own.size:
            return self._demo.draw(generator, n_demo + n_own)
        if not self._demo.size:
            return self._own.draw(generator, n_demo + n_own)
        return np.concatenate([self._demo.draw(generator, n_demo), self._own.draw(generator, n_own)])

    def transitions(self) -> Array:
        """The indices of all transitions, ascending."""
        return np.union1d(self._own.all(), self._demo.all())

    def gather(self, indices: Array, variants: tuple[Array, Array] | None = None) -> dict[str, Tensor]:
        """The transitions at `indices (B,)` as a batch.

        `state, next_state (B, S)`, `action (B, A)` (executed), `reward, terminated, demo (B,)` float32 (`demo` is 1 for
        demonstrations and corrections), `image/NAME, next/image/NAME (B, H, W, 3)` uint8, `vision, next_vision (B, V)`
        float16. `variants` selects the cached augmented version `(B,)` of the observation and of the next one.
        """
        i, j = np.asarray(indices), self._successor[indices]
        provenance = self._provenance[j]
        batch = {
            "state": self._state[i],
            "next_state": self._state[j],
            "action": self._executed[j],
            "reward": self._reward[j],
            "terminated": self._terminated[j],
            "demo": ((provenance == Provenance.DEMO) | (provenance == Provenance.HUMAN)).astype(np.float32),
        }
        if self._vision is not None:
            first, second = variants if variants is not None else (0, 0)
            batch["vision"], batch["next_vision"] = self._vision[i, first], self._vision[j, second]
        tensors = {name: torch.from_numpy(array) for name, array in batch.items()}
        rows, next_rows = torch.from_numpy(i), torch.from_numpy(j)
        for name, array in self._images.items():  # index_select reaches 80 % of memcpy, fancy indexing 38 %
            source = torch.from_numpy(array)
            tensors[name] = torch.index_select(source, 0, rows)
            tensors["next/" + name] = torch.index_select(source, 0, next_rows)
        return tensors

    def states(self) -> Array:
        """A copy of all states held `(N, S)`, entries in the order of the space."""
        return self._state[: self._filled].copy()
