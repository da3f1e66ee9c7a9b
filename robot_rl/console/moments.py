"""`robot-rl guide`: a page with a slider over a demonstration, on which two moments of it are
marked.
"""

import html
import threading
from collections.abc import Mapping
from functools import partial
from typing import Any, Literal, Protocol

import viser

from robot_rl.console.markup import note_html
from robot_rl.console.review import Card, views_html, wide_page
from robot_rl.types import ConfigError, DataError

Moment = Literal["free space", "firm contact"]
BUTTONS: Mapping[Moment, tuple[str, Any, str]] = {
    "free space": ("Free space: here", "teal", "FLAG"),
    "firm contact": ("Firm contact: here", "orange", "FLAG_2"),
}
"""Each moment's button: its label, colour and icon."""


class Marker(Protocol):
    """Who keeps the marks. `count` steps the demonstration has, two or more."""

    count: int

    def card(self, step: int) -> Card: ...

    def mark(self, moment: Moment, step: int) -> None:
        """Raises ConfigError if the moments do not fit then, DataError if it cannot be kept."""
        ...

    def forget(self) -> None:
        """Take both marks back. Raises DataError if that cannot be kept."""
        ...

    def in_force(self) -> Mapping[Moment, tuple[int, str]]:
        """The step of each moment, and who says so."""
        ...

    def warning(self) -> str:
        """Why marks that there are do not count; "": they do."""
        ...


class MomentsPage:
    """One page; whoever opens it sees and does the same. `url` is the link with the token."""

    def __init__(
        self, title: str, marker: Marker, *, host: str = "127.0.0.1", port: int = 0, token: str
    ):
        """Raises LinkError if nobody can listen there."""
        self._server, self.url = wide_page(title, host, port, token)
        self._marker, self._lock = marker, threading.Lock()
        gui = self._server.gui
        self._last = marker.count - 1
        first, _ = marker.in_force()["free space"]
        self._slider = gui.add_slider("Step", 0, self._last, 1, first)
        self._slider.on_update(lambda _: self._look())
        self._numbers = gui.add_html("")
        self._moments = gui.add_html("")
        self._note = gui.add_html(note_html(marker.warning(), True))
        for moment, (label, colour, icon) in BUTTONS.items():
            button = gui.add_button(label, color=colour, icon=getattr(viser.Icon, icon))
            button.on_click(partial(self._press, moment))
        button = gui.add_button("As found", color="gray", icon=viser.Icon.ARROW_BACK_UP)
        button.on_click(partial(self._press, None))
        self._views = gui.add_html("")  # below the buttons, so that these stay where they are
        self._look()
        self._show_moments()

    def close(self) -> None:
        """Close the page."""
        self._server.stop()

    def _press(self, moment: Moment | None, _: Any = None) -> None:
        """In one of viser's threads: mark a moment where the slider is; None: take both back."""
        with self._lock:
            step = self._slider.value
            try:
                if moment is None:
                    self._marker.forget()
                else:
                    self._marker.mark(moment, step)
                self._show_moments()
            except (ConfigError, DataError) as error:
                self._note.content = note_html(str(error), True)
                return
            said = "taken back" if moment is None else f"{moment}: step {step}"
            self._note.content = note_html(said)

    def _look(self) -> None:
        with self._lock:
            step = self._slider.value
            card = self._marker.card(step)
            self._numbers.content = numbers_html(card, f"step {step} of {self._last}")
            self._views.content = f'<div id="robot-rl-views">{views_html(card.views, "45vh")}</div>'

    def _show_moments(self) -> None:
        self._moments.content = moments_html(self._marker.in_force())


def numbers_html(card: Card, place: str) -> str:
    """Which step is shown, and what is said of it."""
    return (
        f'<div id="robot-rl-card" style="padding:4px 12px"><b>{html.escape(place)}</b>'
        f"<div>{html.escape(card.text)}</div></div>"
    )


def moments_html(moments: Mapping[Moment, tuple[int, str]]) -> str:
    """A line for each moment: its step, and who says so."""
    lines = "".join(
        f"<div>{moment}: step {step}, {html.escape(origin)}</div>"
        for moment, (step, origin) in moments.items()
    )
    return f'<div id="robot-rl-moments" style="padding:4px 12px">{lines}</div>'
