"""The handshake: two processes work together only if they agree on schema, spaces, task, hardware and code."""

from dataclasses import asdict, dataclass
from typing import Any

from robot_rl import __version__
from robot_rl.data.codec import SCHEMA, space_hash
from robot_rl.transport.calls import CallClient, CallServer
from robot_rl.types import LinkError, SpaceSpec

MUST_AGREE = ("schema", "space", "task", "hardware", "code")


@dataclass(frozen=True)
class Hello:
    """What a process says of itself: its role, and what must be equal on both sides."""

    role: str
    task: str
    hardware: str
    space: str
    schema: int = SCHEMA
    code: str = __version__

    @staticmethod
    def of(role: str, task: str, hardware: str, space: SpaceSpec) -> "Hello":
        return Hello(role, task, hardware, space_hash(space))


def check(ours: Hello, theirs: dict[str, Any]) -> None:
    """Raise LinkError naming both sides of everything that differs."""
    role = theirs.get("role", "the other side")
    differ = [
        f"{name}: {ours.role} has {getattr(ours, name)!r}, {role} has {theirs.get(name)!r}"
        for name in MUST_AGREE
        if theirs.get(name) != getattr(ours, name)
    ]
    if differ:
        raise LinkError(f"{ours.role} and {role} do not fit together ({'; '.join(differ)}). Start both with the same "
                        "task, hardware, obs and version of robot_rl")  # fmt: skip


def serve_hello(server: CallServer, ours: Hello) -> None:
    """Answer the call "hello": a peer that does not fit is refused."""

    def answer(body: dict[str, Any], _: Any) -> dict[str, Any]:
        check(ours, body)
        return asdict(ours)

    server.register("hello", answer)


def say_hello(client: CallClient, ours: Hello, timeout_s: float = 30.0) -> dict[str, Any]:
    """Introduce ourselves and return what the other side is. LinkError if it is silent or does not fit."""
    theirs = client.call("hello", asdict(ours), timeout_s=timeout_s).body
    check(ours, theirs)
    return theirs
