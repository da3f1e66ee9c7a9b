"""`robot-rl reward review`: a page that shows frame after frame, and takes a verdict on each by key
or button.
"""

import base64
import html
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import viser

from robot_rl.console.auth_proxy import AuthProxy
from robot_rl.console.markup import note_html
from robot_rl.console.serve import listen
from robot_rl.console.viser_server import guarded_server
from robot_rl.types import DataError

VERDICTS: Mapping[str, tuple[str, str, Any, str]] = {
    "success": ("S", "Success  (s)", "teal", "CHECK"),
    "no success": ("N", "No success  (n)", "orange", "X"),
    "leave out": ("L", "Leave out  (l)", "gray", "TRASH"),
    "undo": ("U", "Undo  (u)", "gray", "ARROW_BACK_UP"),
    "back": ("B", "Back  (b)", "gray", "ARROW_LEFT"),
    "next": ("K", "Keep as it is  (k)", "gray", "ARROW_RIGHT"),
}
"""Each verdict's key, and its button's label, colour and icon."""
LABELS: Mapping[str, bool | None] = {"success": True, "no success": False, "leave out": None}


@dataclass(frozen=True)
class Card:
    """One frame: what is said of it, and what was seen, by camera as the bytes of a JPEG."""

    text: str
    views: Mapping[str, bytes]


class Reviewer(Protocol):
    """Who keeps the verdicts."""

    def say(self, card: int, label: bool | None) -> None: ...

    def undo(self) -> int | None:
        """Take the newest back; of which card it was."""
        ...

    def verdict(self, card: int) -> str:
        """What is in force of a card, in words."""
        ...


class ReviewPage:
    """One page; whoever opens it sees and does the same. `url` is the link with the token."""

    def __init__(
        self,
        title: str,
        cards: Sequence[Card],
        reviewer: Reviewer,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        token: str,
    ):
        """Raises LinkError if nobody can listen there."""
        self._server, self.url = wide_page(title, host, port, token)
        gui = self._server.gui
        self._cards, self._reviewer, self._at = cards, reviewer, 0
        self._lock = threading.Lock()
        self._card = gui.add_html("")
        self._note = gui.add_html(note_html(""))
        for word, (key, label, colour, icon) in VERDICTS.items():
            press = partial(self._press, word)
            gui.add_button(label, color=colour, icon=getattr(viser.Icon, icon)).on_click(press)
            gui.add_command(f"Say: {word}", hotkey=key).on_trigger(press)  # type: ignore[arg-type]
        self._show()

    def close(self) -> None:
        """Close the page."""
        self._server.stop()

    def _press(self, word: str, _: Any = None) -> None:
        """In one of viser's threads: a button or a key."""
        with self._lock:
            try:
                said = self._do(word)
            except DataError as error:
                self._note.content = note_html(str(error), True)
                return
            self._note.content = note_html(said)
            self._show()

    def _do(self, word: str) -> str:
        """Obey, and say so. DataError if a verdict cannot be kept."""
        if word == "undo":
            card = self._reviewer.undo()
            if card is None:
                return "there is nothing to undo"
            self._at = card
            return "taken back"
        if word == "back":
            self._at = max(0, self._at - 1)
            return ""
        if self._at == len(self._cards):
            return "that was the last one"
        if word in LABELS:
            self._reviewer.say(self._at, LABELS[word])
        self._at += 1
        return f"{self._at}: {word}" if word in LABELS else ""

    def _show(self) -> None:
        number, count = self._at + 1, len(self._cards)
        if self._at == count:
            self._card.content = card_html(Card("That was the last one. Close this page.", {}), "")
            return
        verdict = self._reviewer.verdict(self._at)
        card = self._cards[self._at]
        self._card.content = card_html(card, f"{number} of {count}" + (verdict and f": {verdict}"))


def wide_page(title: str, host: str, port: int, token: str) -> tuple[viser.ViserServer, str]:
    """An empty page whose panel is as wide as pictures are, and the link to it with the token.
    Raises LinkError if nobody can listen there.
    """
    listener = listen(host, port)
    door = AuthProxy(host, listener.getsockname()[1], token)
    server = guarded_server(title, listener, door)
    server.gui.configure_theme(dark_mode=True, show_logo=False, show_share_button=False)
    server.gui.main_panel.dock_left()
    server.gui.main_panel.set_width(1000)
    return server, door.url


def card_html(card: Card, place: str) -> str:
    """A frame's pictures side by side, and what is said of it."""
    return (
        f'<div id="robot-rl-card" style="padding:4px 12px"><b>{html.escape(place)}</b>'
        f"{views_html(card.views)}"
        f"<div>{html.escape(card.text)}</div></div>"
    )


def views_html(views: Mapping[str, bytes], height: str = "50vh") -> str:
    """Pictures side by side, each a JPEG, all so high."""
    shown = "".join(
        f'<p style="margin:2px"><img alt="{html.escape(name)}" style="height:{height}"'
        f' src="data:image/jpeg;base64,{base64.b64encode(data).decode()}"></p>'
        for name, data in views.items()
    )
    return f'<div style="display:flex;flex-wrap:wrap">{shown}</div>'


def serve(stop: Callable[[], bool], *, look_every_s: float = 0.2) -> None:
    """Keep a page open, which works by itself, until `stop()`."""
    waiting = threading.Event()
    while not stop():
        waiting.wait(look_every_s)
