"""Whatever is written, what is sampled is what the robot saw: the replay against a slow and obvious
model.
"""

import json
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from robot_rl.learner.replay import Kind, Replay
from robot_rl.learner.windows import Window
from robot_rl.stream.episodes import EpisodeOf, Relabel, counted_steps, episode_of
from robot_rl.stream.log import StepLog
from robot_rl.stream.relabels import relabels_in, row_of
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
@given(history=histories(versions=False), capacity=st.integers(2, 60), cut=st.integers(0, 60))
def test_filled_again_from_the_log_it_gives_the_same_samples(
    history: list[Event], capacity: int, cut: int
) -> None:
    """Whatever was sampled, and when, before the process was started again."""
    first, second = Replay(SPACE, capacity), Replay(SPACE, capacity)
    with tempfile.TemporaryDirectory() as folder, StepLog(Path(folder) / "steps.log", SPACE) as log:
        for seq, (stream, said) in enumerate(history):
            write(log, said, (*stream, seq))
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


@settings(max_examples=60, deadline=None)
@given(history=histories(), capacity=st.integers(2, 60), before=st.booleans())
def test_it_is_what_log_and_relabels_make_of_it_whenever_those_came(
    history: list[Event], capacity: int, before: bool
) -> None:
    """After any steps, words and versions, the file with torn and doubled lines; no step is
    rewritten in the log.
    """
    first, second = Replay(SPACE, capacity), Replay(SPACE, capacity)
    with tempfile.TemporaryDirectory() as folder, StepLog(Path(folder) / "steps.log", SPACE) as log:
        lines = Path(folder) / "relabels.jsonl"
        for seq, (stream, said) in enumerate(history):
            if isinstance(said, Relabel):
                line = json.dumps(row_of(stream, said))
                with lines.open("a") as file:
                    file.write(f"{line[: seq % len(line)]}\n{line}\n{line}\n")
            else:
                write(log, said, (*stream, seq))
        for _ in feed(history, first, Model(capacity)):
            pass
        relabels: list[Event] = list(relabels_in(lines).items())
        entries: list[Event] = [(identity.stream, said) for identity, said in log.entries()]
        for _ in feed(
            relabels + entries if before else entries + relabels, second, Model(capacity)
        ):
            pass
        begun = set[EpisodeOf]()  # of the others a mark says nothing to a replay
        heard = []
        for identity, said in log.entries():
            about = episode_of(identity.stream, said)
            begun |= {about} if isinstance(said, Step) else set()
            heard += [(identity, said)] if about in begun else []
        counted = counted_steps(heard, relabels_in(lines))
    assert contents(first) == contents(second)
    outcomes = {named(s.observation["state/a"][None])[0]: (s.reward, s.terminated) for s in counted}
    ends = {name[:3]: outcome for name, outcome in ended_in(first).items()}
    assert ends.items() <= outcomes.items(), "what is drawn is what everybody else reads in the log"


def write(log: StepLog, said: Step | Mark | Relabel, identity: tuple[str, int, int]) -> None:
    if isinstance(said, Step):
        log.append_step(said, RecordId(*identity))
    elif isinstance(said, Mark):
        log.append_mark(said, RecordId(*identity))


def contents(replay: Replay) -> dict[str, object]:
    """All that can be drawn, whatever its order."""
    slots = replay.transitions()
    rows = {}
    for n_step in (1, 3):
        batch = replay.gather(slots, window=Window(n_step, 0.5))
        numbers = ("reward", "terminated", "discount", "next_state")
        rows[n_step] = {
            name: [batch[key][row].tolist() for key in numbers]
            for row, name in enumerate(named(batch["state"].numpy()))
        }
    kinds = {
        kind: sorted(named(replay.gather(replay._sets[kind].all())["state"].numpy()))
        for kind in KINDS
    }
    return {"rows": rows, "kinds": kinds}


def ended_in(replay: Replay) -> dict[tuple[int, ...], tuple[float, bool]]:
    """Reward of each transition and whether the return ends there, by its last step."""
    batch = replay.gather(replay.transitions())
    ends = named(batch["next_state"].numpy())
    outcomes = zip(batch["reward"].tolist(), batch["terminated"].tolist(), strict=True)
    return {
        name: (reward, bool(terminated))
        for name, (reward, terminated) in zip(ends, outcomes, strict=True)
    }


def test_versions_move_the_end_of_an_episode_and_a_word_wins_over_all_of_them() -> None:
    """The judge saw success at step 4; version 2 sees none, 3 at step 2, 4 none again; then "no"."""
    replay, about = Replay(SPACE, 50), (*STREAMS[0], 0)
    for index in range(5):
        end = "success" if index == 4 else ""
        replay.append(
            make_step(STREAMS[0], 0, index, Provenance.POLICY, end, float(index == 4)),
            stream=STREAMS[0],
        )

    def ends() -> list[tuple[float, bool]]:
        return list(ended_in(replay).values())

    nothing = (0.0, False)
    judged, truncated = [nothing] * 3 + [(1.0, True)], [nothing] * 4
    assert ends() == judged
    replay.relabel(about, Relabel(2, None))
    assert ends() == truncated and replay.newest().size
    replay.relabel(about, Relabel(3, 2))
    assert ends() == [nothing, (1.0, True)] and not replay.newest().size
    assert [len(slots) for slots in replay.newest_episodes(9)] == [2]
    replay.relabel(about, Relabel(2, 1))  # late
    assert ends() == [nothing, (1.0, True)]
    replay.apply(Mark(MarkKind.DENY, 0), STREAMS[0])
    assert ends() == truncated
    replay.relabel(about, Relabel(4, 4))
    assert ends() == truncated
    replay.apply(Mark(MarkKind.UNDO, 0), STREAMS[0])
    assert ends() == judged
    replay.apply(Mark(MarkKind.SUCCESS, 0, reward=1.0), STREAMS[0])
    replay.relabel(about, Relabel(5, None))
    assert ends() == judged


def test_a_no_while_the_episode_goes_on_is_a_note() -> None:
    replay = Replay(SPACE, 50)
    for index in range(4):
        end = "success" if index == 3 else ""
        replay.append(make_step(STREAMS[0], 0, index, Provenance.POLICY, end, float(index == 3)))
        if index == 1:
            replay.apply(Mark(MarkKind.DENY, 0))
    assert list(ended_in(replay).values())[-1] == (1.0, True)


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
