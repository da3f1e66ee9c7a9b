"""Laws of resuming from the end of a log: the replay holds what it would hold if all of it had been
read.
"""

import random

import pytest

from robot_rl.learner.replay import Replay
from robot_rl.learner.tally import Tally, tail_start
from robot_rl.stream.log import StepLog
from robot_rl.types import Mark, MarkKind, RecordId, Step
from tests.stream.test_codec import SPACE, make_step

CAPACITY = 60


def write(log: StepLog, draw: random.Random, count: int) -> None:
    """Several actors, episodes of their own, cut or ended, with the operator's words in between."""
    seqs = dict.fromkeys("abc", 0)
    at = {name: (number, 0) for number, name in enumerate("abc")}
    for number in range(count):
        name = draw.choice("aab" if number < count // 2 else "bbc")
        episode, index = at[name]
        identity = RecordId(name, 1, seqs[name])
        seqs[name] += 1
        if draw.random() < 0.1:
            kinds = (MarkKind.DISCARD, MarkKind.UNDO, MarkKind.SUCCESS, MarkKind.TRUNCATED)
            mark = Mark(
                draw.choice(kinds),
                max(0, episode - draw.choice((0, 0, 3))),
                actor=name,
                epoch=1,
                reward=1.0,
            )
            log.append_mark(mark, identity)
            at[name] = (episode + 3, 0) if mark.kind == MarkKind.TRUNCATED else at[name]
            continue
        ended = draw.random() < 0.15
        log.append_step(
            make_step(index, episode=episode, terminated=ended, truncated=False), identity
        )
        at[name] = (episode + 3, 0) if ended else (episode, index + 1)


def held(log: StepLog, start: int) -> set:
    """All transitions of a replay that was filled from record `start` on: whose, from which step,
    with which end.
    """
    replay = Replay(SPACE, CAPACITY)
    names: dict[int, tuple] = {}
    for identity, said in log.entries(start):
        stream = (identity.actor, identity.epoch)
        if isinstance(said, Step):
            names[replay.append(said, stream=stream)] = (*stream, said.episode, said.index)
        else:
            replay.apply(said, stream)
    assert len(replay) == CAPACITY
    found = set()
    for slot in replay.transitions():
        done = replay._successor[slot]
        found.add((names[int(slot)], float(replay._reward[done]), float(replay._terminated[done])))
    return found


@pytest.mark.parametrize("seed", range(6))
def test_a_replay_filled_from_the_end_of_a_log_holds_what_one_filled_from_all_of_it_holds(
    tmp_path, seed
):
    with StepLog(tmp_path / "steps.log", SPACE) as log:
        write(log, random.Random(seed), 900)
        start = tail_start(log, CAPACITY)
        assert 0 < start < 800
        assert held(log, start) == held(log, 0)


def test_what_comes_before_the_end_is_what_all_adds_up_to_without_it(tmp_path):
    with StepLog(tmp_path / "steps.log", SPACE) as log:
        write(log, random.Random(1), 500)
        whole, begin = Tally(), Tally()
        for number, (_, said) in enumerate(log.entries()):
            whole.count(said)
            if number < 300:
                begin.count(said)
        before = whole.without(log.entries(300))
        assert (before.frames, before.steps, before.episodes) == (
            begin.frames,
            begin.steps,
            begin.episodes,
        )
        for _, said in log.entries(300):
            before.count(said)
        assert before == whole


def test_of_a_log_with_few_steps_all_is_read(tmp_path):
    with StepLog(tmp_path / "steps.log", SPACE) as log:
        assert tail_start(log, CAPACITY) == 0
        write(log, random.Random(2), 40)
        assert tail_start(log, CAPACITY) == 0
