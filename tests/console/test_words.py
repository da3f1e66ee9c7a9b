"""What is pressed on the page, on its way to the actor."""

import time
from dataclasses import replace

from robot_rl import config
from robot_rl.console.watch import Sources
from robot_rl.transport.desk import Desk
from robot_rl.transport.endpoint import free_addresses
from robot_rl.types import Outcome
from tests.teleop.benches import require, wait_until

require("viser")

from robot_rl.console.serve import Console  # noqa: E402


def test_a_soft_stop_is_said_until_a_busy_actor_has_heard_it_and_other_words_once():
    (address,) = free_addresses(1)
    console = Console(Sources("run", replace(config.load_hardware("sim_panda"), arms=()), desk=address), port=0)
    console.page.said.word("success")
    console.page.said.word("halt")
    time.sleep(2.5)  # longer than the patience for one answer, of each word
    desk = Desk(address)
    wait_until(lambda: [event.command for event in desk.events.take()] == [Outcome.STOP])
    console.close()
    desk.close()
