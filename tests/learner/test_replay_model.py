"""Whatever is written, what is sampled is what the robot saw: the replay against a slow and obvious
model.
"""

import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from robot_rl.learner.replay import Kind, Replay
from robot_rl.learner.windows import Window
from robot_rl.stream.log import StepLog
from robot_rl.types import Array, DataError, Mark, MarkKind, Provenance, RecordId, Step
from tests.learner.replay_model import (
    SPACE,
    STREAMS,
    Event,
    Model,
    feed,
    histories,
    make_step,
    name_of,
    named,
    shows,
    starts,
)

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
        assert batch["demo"][row] == shows(done.step)
        assert batch["terminated"][row] == outcomes[-1][1]
        assert np.isclose(
            batch["reward"][row],
            sum(window.discount**k * r for k, (r, _, _) in enumerate(outcomes)),
        )
        assert np.isclose(batch["discount"][row], window.discount ** len(path))


def seen(batch: dict[str, Array], row: int, prefix: str, step: Step) -> bool:
    """Whether the row holds this step's observation."""
    state, image = ("next_state", "next/image/eye") if prefix else ("state", "image/eye")
    expected = np.concatenate([step.observation["state/a"], step.observation["state/b"]])
    return np.array_equal(batch[state][row], expected) and np.array_equal(
        batch[image][row], step.observation["image/eye"]
    )


@settings(max_examples=120, deadline=None)
@given(
    history=histories(),
    capacity=st.integers(2, 60),
    kept=st.integers(-1, 12),
    seed=st.integers(0, 9),
)
def test_what_is_sampled_is_what_was_seen(
    history: list[Event], capacity: int, kept: int, seed: int
) -> None:
    """For any lengths, ends, corrections, lost steps, marks, evictions, interleaved actors; nothing
    is left out.
    """
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
    discount=st.sampled_from([0.0, 0.5, 0.97, 1.0]),
)
def test_windows_stay_in_their_episode(
    history: list[Event], capacity: int, n_step: int, discount: float
) -> None:
    """Across corrections and the ring's seam, up to a termination, a time limit, a lost step or the
    newest one.
    """
    replay, model = Replay(SPACE, capacity), Model(capacity)
    for _ in feed(history, replay, model):
        pass
    check_rows(replay, model, replay.transitions(), Window(n_step, discount))


@settings(max_examples=30, deadline=None)
@given(history=histories(), capacity=st.integers(2, 60), cut=st.integers(0, 60))
def test_filled_again_from_the_log_it_gives_the_same_samples(
    history: list[Event], capacity: int, cut: int
) -> None:
    """Whatever was sampled, and when, before the process was started again."""
    first, second = Replay(SPACE, capacity), Replay(SPACE, capacity)
    with tempfile.TemporaryDirectory() as folder, StepLog(Path(folder) / "steps.log", SPACE) as log:
        for seq, (stream, said) in enumerate(history):
            append = log.append_step if isinstance(said, Step) else log.append_mark
            append(said, RecordId(*stream, seq))  # type: ignore[arg-type]
        for number, _ in enumerate(feed(history, first, Model(capacity))):
            if number == cut and len(first.transitions()):
                first.gather(first.sample(np.random.default_rng(1), 8, 8))
        for identity, said in log.entries():
            stream = (identity.actor, identity.epoch)
            if isinstance(said, Step):
                second.append(said, stream=stream)
            else:
                second.apply(said, stream)
    assert np.array_equal(first.transitions(), second.transitions())
    if len(first.transitions()):
        one, two = (
            r.gather(r.sample(np.random.default_rng(5), 16, 16), window=Window(3))
            for r in (first, second)
        )
        assert all(torch.equal(one[name], two[name]) for name in one)


def test_a_discard_takes_the_episode_out_and_undo_puts_it_back() -> None:
    """Episode 1 of one process is not episode 1 of another; what follows of a discarded episode
    stays out as well.
    """
    replay, (one, other, _) = Replay(SPACE, 50), STREAMS
    for index in range(5):
        for stream in (one, other):
            author = Provenance.HUMAN if index == 2 else Provenance.POLICY
            replay.append(make_step(stream, 1, index, author, "", 0.0), stream=stream)
    replay.apply(Mark(MarkKind.DISCARD, 1), one)
    assert (replay.count("own"), replay.count("corrections")) == (4, 1)
    replay.append(make_step(one, 1, 5, Provenance.POLICY, "", 0.0), stream=one)
    assert {name[0] for name in named(replay.gather(replay.transitions())["state"].numpy())} == {
        STREAMS.index(other)
    }
    replay.apply(Mark(MarkKind.UNDO, 1, actor=one[0], epoch=one[1]), other)
    assert (replay.count("own"), replay.count("corrections")) == (9, 2)


def test_the_operators_word_overrules_the_judge_at_the_last_step() -> None:
    replay = Replay(SPACE, 50)
    for index in range(4):
        replay.append(
            make_step(
                STREAMS[0], 0, index, Provenance.POLICY, "truncated" if index == 3 else "", 0.0
            )
        )

    def outcomes() -> list[tuple[float, float, float]]:
        batch = replay.gather(replay.transitions(), window=Window(2, discount=0.5))
        return list(
            zip(
                *(batch[name].tolist() for name in ("reward", "terminated", "discount")),
                strict=True,
            )
        )

    by_the_judge = [
        (0.0, 0.0, 0.25),
        (0.0, 0.0, 0.25),
        (0.0, 0.0, 0.5),
    ]  # a time limit: bootstrapped
    assert outcomes() == by_the_judge
    replay.apply(Mark(MarkKind.SUCCESS, 0, reward=1.0))
    assert outcomes() == [(0.0, 0.0, 0.25), (0.5, 1.0, 0.25), (1.0, 1.0, 0.5)]
    replay.apply(Mark(MarkKind.FAILURE, 0))
    assert outcomes() == [(0.0, 0.0, 0.25), (0.0, 1.0, 0.25), (0.0, 1.0, 0.5)]
    for _ in range(2):
        replay.apply(Mark(MarkKind.UNDO, 0))
    assert outcomes() == by_the_judge


def test_corrections_are_not_drawn_twice_and_none_is_an_error() -> None:
    replay, generator = Replay(SPACE, 9), np.random.default_rng(0)
    with pytest.raises(DataError, match="own experience too"):
        replay.draw(generator, ("own", "corrections"), 3)
    with pytest.raises(DataError, match="no transition yet of corrections"):
        replay.draw(generator, ("corrections",), 3)
    with pytest.raises(DataError, match="n_step of at least 1"):
        Window(n_step=0)


def test_indices_of_transitions_that_have_gone_are_refused() -> None:
    replay = Replay(SPACE, 3)
    for index in range(3):
        replay.append(make_step(STREAMS[0], 0, index, Provenance.POLICY, "", 0.0))
    with pytest.raises(DataError, match="in one go"):
        replay.gather(np.array([2]))
