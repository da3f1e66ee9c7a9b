"""`robot-rl console`: look ten times a second, show it, and pass on what is done on the page."""

import socket
import threading
import time
from collections.abc import Callable
from functools import partial

from robot_rl.config import scene_of
from robot_rl.console.auth_proxy import AuthProxy
from robot_rl.console.model import ConsoleModel, Sources, page_device, without_effect
from robot_rl.console.token import new_token
from robot_rl.controllers.client import ArmClient
from robot_rl.links.console_link import ConsoleLinkClient
from robot_rl.sim.shapes import ArmShapes
from robot_rl.types import ConfigError, DeviceError, LinkError

PERIOD_S = 0.1
GRIP_S = 0.05  # how often it is said that the gizmo is held
SAID = {"halt": "stop"}  # what the actor hears
HALT_TRIES = (
    10  # a second each, until an actor that is busy has heard it: said twice it means the same
)


class Console:
    """The page, the door to it, and the threads behind them. `url` is the link with the token."""

    def __init__(
        self, sources: Sources, *, host: str = "127.0.0.1", port: int = 8080, token: str = ""
    ):
        """A new token, if none is given. Raises LinkError if nobody can listen there, ConfigError
        without the extra.
        """
        require_page()
        from robot_rl.console.page import Page

        self._sources = sources
        hardware = sources.hardware
        scene = scene_of(sources.task, hardware)
        self._shapes = [ArmShapes(scene, i) for i in range(len(hardware.arms))]
        drawn = [
            (arm, shapes.shapes) for arm, shapes in zip(hardware.arms, self._shapes, strict=True)
        ]
        device = page_device(hardware)
        gizmo = device.options.get("arm", hardware.arms[0].name) if device else None
        listener = listen(host, port)
        door = AuthProxy(host, listener.getsockname()[1], token or new_token())
        self.url = door.url
        self.page = Page(
            sources.title,
            drawn,
            listener=listener,
            door=door,
            gizmo=gizmo,
            cameras=hardware.cameras,
            hands=sources.hands if sources.desk else (),
        )
        self._watch = ConsoleModel(sources)
        self._closing = threading.Event()
        self._mouth = threading.Thread(target=self._speak, name="console mouth", daemon=True)
        self._mouth.start()

    def run(self, stop: Callable[[], bool]) -> None:
        """Keep the page true until `stop()`."""
        deadline = time.monotonic()
        while not stop():
            self.look()
            deadline = max(deadline + PERIOD_S, time.monotonic())
            time.sleep(max(0.0, deadline - time.monotonic()))

    def look(self) -> None:
        """Show what there is to see now."""
        sight = self._watch.look(self.page.marked)
        poses = [
            shapes.poses(arm.q, sight.world)
            if arm is not None and len(arm.q) == shapes.joints
            else None
            for shapes, arm in zip(self._shapes, sight.arms, strict=True)
        ]
        self.page.show(sight, poses)

    def close(self) -> None:
        """Close the page and let go of all links."""
        self._closing.set()
        self.page.said.waiting.set()
        self._mouth.join()
        self.page.stop()
        self._watch.close()

    def _speak(self) -> None:
        """In a thread of its own: pass on words as they come, and where the gizmo is held twenty
        times a second.
        """
        desk = ConsoleLinkClient(self._sources.desk) if self._sources.desk else None
        held = False
        while not self._closing.is_set():
            self.page.said.waiting.wait(GRIP_S if held else None)
            for word in self.page.said.take_words():
                self._try(word, partial(self._say, desk, word))
            for hand, button in self.page.said.take_presses():
                if desk is not None and not self.page.said.has_words:  # a STOP waits for none
                    self._try(button, partial(desk.press, hand, button), f"{button} {hand}")
            grip = self.page.said.grip
            if desk is not None and (grip is not None or held):
                held = grip is not None
                try:
                    desk.hold(grip)
                except LinkError as error:
                    self.page.note(str(error), problem=True)
            if held:
                self._closing.wait(GRIP_S)
        if desk is not None:
            desk.close()

    def _try(self, word: str, act: Callable[[], None], said: str = "") -> None:
        said = said or SAID.get(word, word).split()[0]
        idle = without_effect(word, self.page.sight, asks_operator=self._sources.asks_operator)
        try:
            act()
            self.page.note(
                f"{said}: heard, without effect: {idle}" if idle else f"{said}: heard",
                problem=bool(idle),
            )
        except (LinkError, DeviceError) as error:
            self.page.note(f"{said}: {error}", problem=True)

    def _say(self, desk: ConsoleLinkClient | None, word: str) -> None:
        if word == "acknowledge":
            self._acknowledge(desk)
            return
        if desk is None:
            raise LinkError("no run is looked at: name one, robot-rl console RUN")
        answer, _, number = word.partition(" ")
        if number:
            desk.answer(int(number), success=answer == "yes")
            return
        for left in reversed(range(HALT_TRIES if word == "halt" else 1)):
            try:
                desk.say(SAID.get(word, word))
                break
            except LinkError:
                if left == 0 or self._closing.is_set():
                    raise

    def _acknowledge(self, desk: ConsoleLinkClient | None) -> None:
        """Tell every arm, and by the desk the hands, that somebody has looked; then raise what the
        first has answered that still has a fault, or does not answer.
        """
        tell: list[Callable[[], object]] = [
            partial(acknowledge_arm, address) for address in self._watch.arm_addresses
        ]
        if desk is not None and self.page.sight.hands:
            tell.append(desk.acknowledge)
        problems = []
        for each in tell:
            try:
                each()
            except (LinkError, DeviceError) as error:
                problems.append(error)
        if problems:
            raise problems[0]


def acknowledge_arm(address: str) -> None:
    """Clear the fault of an arm. Raises DeviceError if it is still there, LinkError if nobody
    answers.
    """
    client = ArmClient(address, timeout_s=1.0)
    try:
        if (state := client.acknowledge_fault()).fault:
            raise DeviceError(f"the fault is still there: {state.reason}")
    finally:
        client.close()


def require_page() -> None:
    """Raise ConfigError without the extra that pages need."""
    try:
        import robot_rl.console.viser_server  # noqa: F401
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"the console needs the package {error.name!r}: pip install 'robot_rl[console]'"
        ) from error


def listen(host: str, port: int) -> socket.socket:
    """A socket at an address that nobody has. Raises LinkError."""
    try:
        family, *_, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        return socket.create_server(address, family=family)
    except (OSError, OverflowError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise LinkError(
            f"cannot listen at {host}:{port}: {reason}. Choose another --port or --host"
        ) from error
