"""What peers ask a learner for, and what they hand over: whether they fit and where the run stands,
policy and config; demonstrations and a judge of an actor on another machine.
"""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from robot_rl.config.run_folder import DEMO_COUNTS, RunFolder
from robot_rl.learner.publishing import Publishing
from robot_rl.links.calls import CallServer
from robot_rl.links.judges import answerer, taker
from robot_rl.links.upload import REQUEST_BYTES, Inbox
from robot_rl.stream.compatibility import Hello, check
from robot_rl.types import Array, SpaceSpec


def answering(
    folder: RunFolder,
    space: SpaceSpec,
    publishing: Publishing,
    stands: Callable[[], dict[str, Any]],
) -> CallServer:
    """A server of the run's calls, to be polled. `stands` says where the run stands, for an actor that
    goes on from there.
    """
    settings = folder.settings
    ours = Hello.of("learner", folder.load_task(), folder.load_hardware(), space, settings.id)

    def hello(body: dict[str, Any], _: dict[str, Array]) -> dict[str, Any]:
        """A peer that does not fit is refused."""
        check(ours, body)
        return asdict(ours) | stands()

    def take_demos(facts: dict[str, Any]) -> None:
        """They are all here; `facts` counts them as `demos.json` does."""
        folder.write_demos({name: int(facts[name]) for name in DEMO_COUNTS})

    server = CallServer(settings.calls_address, REQUEST_BYTES)
    server.register("hello", hello)
    server.register("policy", publishing.answer)
    server.register("run", lambda *_: {"name": folder.path.name, "sections": folder.sections})
    server.register("judge", answerer(folder.judge))
    server.register("take_judge", taker(folder.judge, folder.outcomes_log))
    server.register("upload", Inbox(folder.demos_log, take_demos).answer)
    return server
