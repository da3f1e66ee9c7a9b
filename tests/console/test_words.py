"""What is pressed on the page, on its way to the actor."""

import time
from dataclasses import replace

from robot_rl import config
from robot_rl.console.model import Sources
from robot_rl.links.console_link import ConsoleLink, Question
from robot_rl.links.sockets import free_addresses
from robot_rl.types import OperatorCommand
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
