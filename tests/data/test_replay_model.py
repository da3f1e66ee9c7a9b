"""Whatever is written, what is sampled is what the robot saw: the replay against a slow and obvious model."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from robot_rl.data.replay import Kind, Replay
from robot_rl.data.windows import Window
from robot_rl.types import Array, Provenance, Step
from tests.data.replay_model import SPACE, Event, Held, Model, feed, histories, name_of, named, starts

KINDS: tuple[Kind, ...] = ("demonstrations", "corrections", "own")


def check_rows(replay: Replay, model: Model, indices: Array, window: Window) -> None:
    """Every row is a transition that there is, with all that belongs to it."""
    batch = {name: tensor.numpy() for name, tensor in replay.gather(indices, window=window).items()}
    pairs = {name_of(a.step, a.key[0]): (a, b) for a, b in model.transitions()}
    for row, name in enumerate(named(batch["state"])):
        first, done = pairs[name]
        path = model.window(done, window.n_step)
        outcomes = [model.outcome(held) for held in path]
        assert seen(batch, row, "", first.step)
        assert seen(batch, row, "next", path[-1].step)
        assert np.array_equal(batch["action"][row], np.clip(done.step.executed, -1, 1))
        assert batch["demo"][row] == (done.step.provenance in (Provenance.DEMO, Provenance.HUMAN))
        assert batch["terminated"][row] == outcomes[-1][1]
        assert np.isclose(batch["reward"][row], sum(window.discount**k * r for k, (r, _) in enumerate(outcomes)))
        assert np.isclose(batch["discount"][row], window.discount ** len(path))
        if window.chunk > 1:
            check_chunk(batch, row, model.window(done, window.chunk), window.chunk)


def check_chunk(batch: dict[str, Array], row: int, path: list[Held], length: int) -> None:
    missing = length - len(path)
    assert batch["mask"][row].tolist() == [1.0] * len(path) + [0.0] * missing
    actions = [np.clip(held.step.executed, -1, 1) for held in path] + [np.zeros(2)] * missing
    assert np.array_equal(batch["actions"][row], np.array(actions, np.float32))


def seen(batch: dict[str, Array], row: int, prefix: str, step: Step) -> bool:
    """Whether the row holds this step's observation."""
    state, image = ("next_state", "next/image/eye") if prefix else ("state", "image/eye")
    expected = np.concatenate([step.observation["state/a"], step.observation["state/b"]])
    return np.array_equal(batch[state][row], expected) and np.array_equal(
        batch[image][row], step.observation["image/eye"]
    )


@settings(max_examples=120, deadline=None)
@given(history=histories(), capacity=st.integers(2, 60), kept=st.integers(-1, 12), seed=st.integers(0, 9))
def test_what_is_sampled_is_what_was_seen(history: list[Event], capacity: int, kept: int, seed: int) -> None:
    """For any lengths, ends, corrections, lost steps, marks, evictions, interleaved actors; nothing is left out."""
    replay, model, generator = Replay(SPACE, capacity), Model(capacity), np.random.default_rng(seed)
    for _ in feed(history, replay, model, kept):
        if generator.random() < 0.15 and model.transitions():
            check_rows(replay, model, replay.sample(generator, 2, 2), Window())
    held = replay.transitions()
    assert sorted(named(replay.gather(held)["state"].numpy())) == starts(model)
    for kind in KINDS:
        expected = starts(model, kind)
        assert replay.count(kind) == len(expected)
        if expected:
            drawn = replay.draw(generator, (kind,), 300)
            assert set(named(replay.gather(drawn)["state"].numpy())) <= set(expected)
    check_rows(replay, model, held, Window())


@settings(max_examples=80, deadline=None)
@given(
    history=histories(),
    capacity=st.integers(2, 60),
    n_step=st.integers(1, 9),
    chunk=st.integers(1, 9),
    discount=st.sampled_from([0.0, 0.5, 0.97, 1.0]),
)
def test_windows_stay_in_their_episode(
    history: list[Event], capacity: int, n_step: int, chunk: int, discount: float
) -> None:
    """Across corrections and the ring's seam, up to a termination, a time limit, a lost step or the newest one."""
    replay, model = Replay(SPACE, capacity), Model(capacity)
    for _ in feed(history, replay, model):
        pass
    check_rows(replay, model, replay.transitions(), Window(n_step, discount, chunk))


@settings(max_examples=40, deadline=None)
@given(history=histories(), capacity=st.integers(2, 60), cut=st.integers(0, 60))
def test_filled_again_from_the_log_it_gives_the_same_samples(history: list[Event], capacity: int, cut: int) -> None:
    """Whatever was sampled, and when, before the process was started again."""
    first, second = Replay(SPACE, capacity), Replay(SPACE, capacity)
    for number, _ in enumerate(feed(history, first, Model(capacity))):
        if number == cut and len(first.transitions()):
            first.gather(first.sample(np.random.default_rng(1), 8, 8))
    for _ in feed(history, second, Model(capacity)):
        pass
    assert np.array_equal(first.transitions(), second.transitions())
    if len(first.transitions()):
        one, two = (r.gather(r.sample(np.random.default_rng(5), 16, 16), window=Window(3)) for r in (first, second))
        assert all(torch.equal(one[name], two[name]) for name in one)
