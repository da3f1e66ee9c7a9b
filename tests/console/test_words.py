"""Words on their way, without a browser: from the page to the actor, and back what has happened."""

import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from robot_rl import config
from robot_rl.console import model
from robot_rl.console.model import Sources
from robot_rl.links.console_link import NEEDS_HUMAN, ConsoleLink, Question
from robot_rl.links.sockets import free_addresses
from robot_rl.types import OperatorCommand
from tests.links.test_console_link import a_step
from tests.teleop.benches import require, wait_until

require("viser")

from robot_rl.console import page as pages  # noqa: E402
from robot_rl.console.serve import Console  # noqa: E402


def test_a_soft_stop_is_said_until_a_busy_actor_has_heard_it_and_other_words_once():
    (address,) = free_addresses(1)
    console = Console(
        Sources("run", replace(config.load_hardware("sim_panda"), arms=()), desk=address), port=0
    )
    console.page.said.word("success")
    console.page.said.word("halt")
    time.sleep(2.5)  # longer than the patience for one answer, of each word
    desk = ConsoleLink(address)
    wait_until(lambda: [event.command for event in desk.events.take()] == [OperatorCommand.STOP])
    console.close()
    desk.close()


def test_a_key_that_is_held_down_answers_one_question(monkeypatch):
    monkeypatch.setattr(pages, "LOOK_AT_IT_S", 0.0)
    monkeypatch.setattr(pages, "SAID_AGAIN_S", 1e6)
    bench = replace(config.load_hardware("sim_panda"), arms=())
    console = Console(Sources("run", bench), port=0)
    try:
        said: list[str] = []
        monkeypatch.setattr(console.page.said, "word", said.append)
        for number in (1, 1, 2, 3):
            console.page._show_question(Question(number, 0, 0, None, 0, {}))
            console.page._answer_by_key("yes", None)
        console.page._answer_by_key("no", None)
        monkeypatch.setattr(pages, "LOOK_AT_IT_S", 1e9)
        console.page._answer("no")
        assert said == ["yes 1", "no 3"]
    finally:
        console.close()


def succeeds(desk: ConsoleLink) -> None:
    desk.show(replace(a_step(2), terminated=True, success=True), [])


def needs_a_person(desk: ConsoleLink) -> None:
    desk.tell(phase=NEEDS_HUMAN)


@pytest.mark.parametrize(("happens", "event"), [(succeeds, "success"), (needs_a_person, "person")])
def test_what_happens_while_the_actor_does_not_answer_is_told_once_when_it_does(
    happens: Callable[[ConsoleLink], None], event: str, monkeypatch
):
    monkeypatch.setattr(model, "LOOK_AGAIN_S", 0.0)
    (address,) = free_addresses(1)
    bench = replace(config.load_hardware("sim_panda"), arms=())
    console = Console(Sources("run", bench, desk=address), port=0)

    def looks() -> bool:
        console.look()
        return console.page.sight.view is not None

    def answers(*what: Callable[[ConsoleLink], None]) -> ConsoleLink:
        desk = ConsoleLink(address)
        desk.show(a_step(1), [])
        for each in what:
            each(desk)
        wait_until(looks)
        return desk

    try:
        answers().close()
        wait_until(lambda: not looks())
        assert console.page._event.content == ""
        desk = answers(happens)
        for _ in range(2):
            assert f'data-event="{event}" data-number="1"' in console.page._event.content
            console.look()
        desk.close()
    finally:
        console.close()
