"""What the operator says of a judge's mistakes: a denial of the episode before, a note in one that
goes on, and answers, each about the very moment that was shown.
"""

from dataclasses import replace

import numpy as np
import pytest

from robot_rl.links.console_link import ConsoleLink, ConsoleLinkClient
from robot_rl.operator.annotations import OperatorMarks
from robot_rl.operator.intervention import Intervention
from robot_rl.stream.episodes import EpisodeLabel
from robot_rl.types import LinkError, Mark, MarkKind, OperatorCommand
from tests.links.test_console_link import a_step

DENY, UNDO, DISCARD = OperatorCommand.DENY, OperatorCommand.UNDO, OperatorCommand.DISCARD
SUCCESS, FAILURE = OperatorCommand.SUCCESS, OperatorCommand.FAILURE


@pytest.mark.parametrize(
    ("how", "said", "expected"),
    [
        ({"deniable": True}, [DENY, DENY], [MarkKind.DENY]),
        ({"deniable": True}, [DENY, UNDO, DENY], [MarkKind.DENY, MarkKind.UNDO, MarkKind.DENY]),
        (
            {"deniable": True},
            [DENY, DISCARD, DENY, UNDO, UNDO, UNDO],
            [MarkKind.DENY, MarkKind.DISCARD, MarkKind.UNDO, MarkKind.UNDO, MarkKind.DISCARD],
        ),
        ({"deniable": False}, [DENY], []),
        ({"deniable": True, "failed": True}, [DENY], []),
        ({"deniable": True, "discarded": True}, [DENY], []),
        (
            {"success": True, "deniable": True},
            [DENY, SUCCESS, SUCCESS, DENY],
            [MarkKind.DENY, MarkKind.SUCCESS, MarkKind.DENY],
        ),
        (
            {"success": True, "deniable": True},
            [FAILURE, DENY, UNDO],
            [MarkKind.FAILURE, MarkKind.DISCARD],
        ),
        ({"success": False}, [SUCCESS, DENY], [MarkKind.SUCCESS, MarkKind.DENY]),
    ],
)
def test_a_denial_takes_a_success_back_once_and_undo_takes_the_denial_back(how, said, expected):
    heard = list[Mark]()
    marks = OperatorMarks(heard.append)
    intervention = Intervention(None, marks=marks)
    marks.end(4, deniable=True)
    marks.end(5, **how)
    for word in said:
        intervention.events.put(word, "device")
    intervention.listen()
    assert [(mark.kind, mark.episode) for mark in heard] == [(kind, 5) for kind in expected]
    assert intervention.on_last == [word for word in said if word in (DENY, UNDO, DISCARD)]


def test_during_an_episode_a_denial_is_a_note_with_its_time_and_the_episode_goes_on():
    heard = list[Mark]()
    marks = OperatorMarks(heard.append)
    intervention = Intervention(None, marks=marks)
    marks.end(5, deniable=True)
    intervention.events.episode = 6
    intervention.events.put(DENY, "device")
    intervention.decide(np.zeros(6), ())
    (note,) = heard
    assert (note.kind, note.episode) == (MarkKind.DENY, 6) and note.t_wall > 0.0
    assert not intervention.ends and intervention.outcome == OperatorCommand.NONE
    assert intervention.on_last == []


@pytest.fixture
def asking(desk: ConsoleLink):
    """A desk that asks, and the marks of what is answered there."""
    heard = list[Mark]()
    marks = OperatorMarks(heard.append)
    intervention = Intervention(None, desk=desk, marks=marks)
    desk.asks = True
    return desk, intervention, heard


def doubts(desk: ConsoleLink, episode: int, index: int, doubtful: bool = True) -> None:
    step = replace(a_step(index), episode=episode, t_wall=1000.0 * episode + index)
    desk.show(step, [], probability=0.5, doubtful=doubtful, version=3)


def test_an_answer_is_about_the_moment_that_was_shown_whatever_goes_on_by_then(asking, console):
    desk, intervention, heard = asking
    desk.events.episode = 7
    doubts(desk, 7, 30)
    question = console.question()
    assert (question.episode, question.index, question.version) == (7, 30, 3)
    assert question.views["wrist"].startswith(b"\xff\xd8")
    doubts(desk, 7, 31)  # the same doubt
    doubts(desk, 7, 40, doubtful=False)
    for now in (None, 8, 9, 10):  # more episodes than are kept in mind
        desk.events.episode = now
        intervention.listen()
    console.answer(question.number, success=True)
    intervention.decide(np.zeros(6), ())
    (mark,) = heard
    assert (mark.kind, mark.episode, mark.index, mark.t_wall) == (MarkKind.SUCCESS, 7, 30, 7030.0)
    assert intervention.outcome == OperatorCommand.NONE and not intervention.ends
    assert console.question() is None


def test_one_question_is_open_the_newest_and_an_old_ones_answer_is_about_nothing(asking, console):
    desk, intervention, heard = asking
    for episode, index in ((7, 3), (7, 9), (8, 2)):
        doubts(desk, episode, index)
        doubts(desk, episode, index + 1, doubtful=False)
    newest = console.question()
    assert (newest.episode, newest.index) == (8, 2)
    for number in (newest.number + other for other in (-2, -1, 1, -newest.number)):
        with pytest.raises(LinkError, match="no longer open"):
            console.answer(number, success=True)
    console.answer(newest.number, success=False)
    with pytest.raises(LinkError, match="no longer open"):
        console.answer(newest.number, success=True)
    intervention.listen()
    assert [(m.kind, m.episode, m.index) for m in heard] == [(MarkKind.DENY, 8, 2)]
    assert console.look().facts["doubts"] == 3, "unanswered ones are counted, no more"


def test_where_nobody_learns_nothing_is_asked(desk, console):
    doubts(desk, 7, 30)
    assert console.question() is None and console.look().facts["question"] == 0


def test_a_no_to_a_question_changes_nothing_of_how_the_episode_ended():
    label = EpisodeLabel()
    label.hear(replace(a_step(9), reward=1.0, terminated=True, success=True))
    label.hear(Mark(MarkKind.DENY, a_step(9).episode, index=4))
    assert label.succeeded and label.said is None
    label.hear(Mark(MarkKind.UNDO, a_step(9).episode))
    assert label.counts and label.succeeded


@pytest.mark.parametrize(("success", "goes_on"), [(True, False), (False, True)])
def test_a_yes_about_the_episode_that_goes_on_ends_it_with_success_and_a_no_does_not(
    asking, console, success, goes_on
):
    desk, intervention, heard = asking
    desk.events.episode = 7
    doubts(desk, 7, 30)
    console.answer(console.question().number, success=success)
    intervention.decide(np.zeros(6), ())
    assert (intervention.outcome == OperatorCommand.NONE) == goes_on and not intervention.ends
    assert [(mark.episode, mark.index) for mark in heard] == [(7, 30)]
    intervention.decide(np.zeros(6), ())
    assert intervention.outcome == OperatorCommand.NONE, "said once"


def test_a_yes_about_an_episode_that_is_over_is_its_success_and_can_be_denied(asking, console):
    desk, intervention, heard = asking
    marks = intervention._marks
    label = EpisodeLabel()
    for index in range(40):
        label.hear(replace(a_step(index), episode=7, success=False, truncated=index == 39))
    doubts(desk, 7, 30)
    marks.end(7, success=False)
    console.answer(console.question().number, success=True)
    for word in (SUCCESS, DENY, UNDO):  # it is one already; it was none; it was one after all
        intervention.events.put(word, "device")
    intervention.listen()
    assert [(mark.kind, mark.index) for mark in heard] == [
        (MarkKind.SUCCESS, 30), (MarkKind.DENY, -1), (MarkKind.UNDO, -1)
    ]  # fmt: skip
    succeeded = []
    for mark in heard:
        label.hear(mark)
        succeeded.append((label.succeeded, label.reaches(31)))
    assert succeeded == [(True, False), (False, True), (True, False)]


def test_the_desk_refuses_answers_that_are_none(asking, console: ConsoleLinkClient):
    desk, intervention, heard = asking
    doubts(desk, 7, 30)
    question = console.question()
    assert question is not None
    number = question.number
    for body in ({"number": number}, {"number": number, "success": 1}, {"success": True}, {}):
        with pytest.raises(LinkError, match="no longer open"):
            console._calls.call("answer", body, timeout_s=2.0)
    intervention.listen()
    assert heard == [] and console.question() is not None


def test_an_answer_for_an_actor_that_is_gone_is_not_about_what_the_next_one_asks(address):
    asked = []
    for episode in (7, 8):
        desk, looks = ConsoleLink(address), ConsoleLinkClient(address)
        desk.asks = True
        doubts(desk, episode, 30)
        question = looks.question()
        assert question is not None
        asked.append(question.number)
        if episode == 8:
            with pytest.raises(LinkError, match="no longer open"):
                looks.answer(asked[0], success=True)
        looks.close()
        desk.close()
    assert asked[0] != asked[1]
