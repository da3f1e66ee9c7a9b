"""A learner that was started anew while the actor waited for weights: gone is one thing, another
one is not.
"""

import pytest

from robot_rl import config
from robot_rl.actor.loop import Actor
from robot_rl.links.calls import CallClient, CallServer
from robot_rl.stream import compatibility
from robot_rl.stream.compatibility import Hello
from robot_rl.types import RefusedError, SpaceSpec


@pytest.fixture
def actor():
    """As much of an actor as asks its learner, and the learner's end."""
    server = CallServer()
    actor = object.__new__(Actor)
    task, hardware = config.load_task("peg_insert"), config.load_hardware("sim_panda")
    actor._hello = Hello.of("actor", task, hardware, SpaceSpec.unnamed({}, 7))
    actor._calls = CallClient(server.address)
    yield actor, server
    actor._calls.close()
    server.close()


def test_a_learner_with_another_task_is_an_error_that_names_both(actor):
    """Else the two would wait for each other for ever."""
    actor, server = actor
    ours = Hello.of(
        "learner",
        config.load_task("peg_insert_hard"),
        config.load_hardware("sim_panda"),
        SpaceSpec.unnamed({}, 7),
    )
    server.register("hello", lambda body, arrays: compatibility.check(ours, body))
    server.start()
    with pytest.raises(
        RefusedError, match=r"learner has 'peg_insert_hard .*actor has 'peg_insert "
    ):
        actor._recount()
