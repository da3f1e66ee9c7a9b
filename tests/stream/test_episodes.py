"""Which episodes succeeded, by the judge's word and the operator's over it."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from robot_rl.actor.demonstrate import DemoTally
from robot_rl.learner.replay import Replay
from robot_rl.stream.episodes import Entries, counted_steps, newest_episodes
from robot_rl.stream.log import StepLog
from robot_rl.tools import data_tools
from robot_rl.types import Mark, MarkKind, Provenance, RecordId, SpaceSpec, Step

LENGTH = 3
SPACE = SpaceSpec.unnamed({"state/x": ((2,), "float32")}, 2)


def entries(
    rewards: list[float], marks: dict[int, list[Mark]] | None = None
) -> list[tuple[RecordId, Step | Mark]]:
    """Two actors in turn, one episode each at a time; the marks of an episode come at the very end."""
    out: list[tuple[RecordId, Step | Mark]] = []
    for episode, reward in enumerate(rewards):
        for index in range(LENGTH):
            for actor in ("one", "two"):
                out.append((
                    RecordId(actor, 7, len(out)),
                    step(episode, index, reward if actor == "one" else 0.0),
                ))
    for said in (marks or {}).values():
        out += [(RecordId("console", 9, number), mark) for number, mark in enumerate(said)]
    return out


def step(episode: int, index: int, reward: float) -> Step:
    last, nothing = index == LENGTH - 1, np.zeros(2, np.float32)
    return Step(
        episode=episode,
        index=index,
        observation={"state/x": np.array([episode, index], np.float32)},
        proposed=nothing,
        commanded=nothing,
        executed=nothing,
        reward=reward - 1.0,
        terminated=last and reward > 0.0,
        truncated=last and not reward > 0.0,
        success=last and reward > 0.0,
        provenance=Provenance.POLICY,
        weights_version=0,
        t_monotonic=0.0,
        t_wall=0.0,
    )


def said_of(episode: int, kind: MarkKind, actor: str = "one") -> Mark:
    return Mark(kind, episode=episode, actor=actor, epoch=7)


def found(
    log: list[tuple[RecordId, Step | Mark]], most: int = 100, *, failures: bool = False
) -> list[int]:
    def read() -> Entries:
        return iter(log)

    episodes = newest_episodes(read, most, failures=failures)
    assert all([s.index for s in steps] == list(range(LENGTH)) for steps, _ in episodes)
    return [steps[0].episode for steps, success in episodes if success != failures]


def test_the_newest_episodes_come_whole_and_oldest_first() -> None:
    log = entries([1.0, 0.0, 1.0, 1.0])
    assert found(log) == [0, 2, 3]
    assert found(log, most=2) == [2, 3]
    assert found(log, most=0) == []


@pytest.mark.parametrize(
    ("marks", "left"),
    [
        ([said_of(0, MarkKind.DISCARD)], [2]),
        ([said_of(0, MarkKind.FAILURE)], [2]),
        ([said_of(0, MarkKind.DISCARD), said_of(0, MarkKind.UNDO)], [0, 2]),
        ([said_of(1, MarkKind.SUCCESS)], [0, 1, 2]),
        ([said_of(1, MarkKind.SUCCESS, actor="two")], [0, 1, 2]),
    ],
)
def test_the_operators_word_goes_before_the_judges(marks: list[Mark], left: list[int]) -> None:
    assert found(entries([1.0, 0.0, 1.0], {0: marks})) == left


@pytest.mark.parametrize("kind", [MarkKind.SUCCESS, MarkKind.FAILURE])
def test_a_word_decides_for_tables_replay_and_pretraining_whatever_its_reward(
    kind: MarkKind, tmp_path: Path
) -> None:
    """A SUCCESS mark has reward 0 unless it says otherwise; a FAILURE may be worth something."""
    replay = Replay(SPACE, 100)
    with StepLog(tmp_path / "demos.log", SPACE) as log:
        for identity, said in entries([0.0, 1.0], {0: [Mark(kind, 0, 0.5, actor="one", epoch=7)]}):
            if isinstance(said, Step):
                shown = replace(said, provenance=Provenance.DEMO)
                log.append_step(shown, identity)
                replay.append(shown, stream=identity.stream)
            else:
                log.append_mark(said, identity)
                replay.apply(said, identity.stream)
        read, tally = list(log.entries()), DemoTally.of(log)
    succeeds = kind == MarkKind.SUCCESS
    wanted = [0, 1] if succeeds else [1]
    assert [episode for _, _, episode in tally.kept] == found(read) == wanted
    listed = data_tools.listing(tmp_path / "demos.log")
    assert sorted(each.facts.key.episode for each in listed if each.facts.label.succeeded) == wanted
    (end,) = [s for s in counted_steps(read) if s.terminated and s.episode == 0]
    assert (end.success, end.reward) == (succeeds, 0.5)
    assert replay.count("demonstrations") == len(wanted), (
        "still hands: only a success is a demonstration"
    )


def test_a_failure_that_counts_is_there_where_it_is_asked_for() -> None:
    marks = {0: [said_of(0, MarkKind.DISCARD)], 1: [said_of(1, MarkKind.FAILURE)]}
    two = [0, 1, 2, 3]  # of whom none succeeds
    failed = found(entries([0.0, 1.0, 1.0, 0.0], marks), failures=True)
    assert sorted(failed) == sorted([*two, 1, 3])


def test_an_episode_that_still_goes_on_is_none() -> None:
    log = entries([1.0, 1.0])
    begun = [
        entry
        for entry in log
        if not (isinstance(entry[1], Step) and entry[1].episode == 1 and entry[1].index == 2)
    ]
    assert found(begun) == [0]


def test_a_log_is_read_twice_and_never_held() -> None:
    readings = 0

    def read() -> Iterator[tuple[RecordId, Step | Mark]]:
        nonlocal readings
        readings += 1
        yield from entries([1.0])

    assert len(newest_episodes(read, 10)) == 1
    assert readings == 2
