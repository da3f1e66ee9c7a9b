"""The page: a viser server behind the door, its layout, what an operator does on it.

Its callbacks run in viser's threads; they leave what was done in `UiEvents`, for whoever passes it
on.
"""

import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import viser
from viser import uplot

from robot_rl.config import ArmConfig, CameraConfig
from robot_rl.console.auth_proxy import AuthProxy
from robot_rl.console.crop import CropTab
from robot_rl.console.history import History
from robot_rl.console.markup import (
    AMBER,
    BLUE,
    GREEN,
    GREY,
    event_html,
    history_html,
    lamp_html,
    list_html,
    note_html,
    question_html,
    status_html,
    style_html,
)
from robot_rl.console.model import Snapshot, Trace, event_between
from robot_rl.console.scene import ArmView, titled
from robot_rl.console.viser_server import guarded_server
from robot_rl.dataset.counts import WINDOW
from robot_rl.links.console_link import Question, View
from robot_rl.sim.shapes import Shape
from robot_rl.types import Array

EYE, LOOK_AT = (
    (1.25, -0.80, 0.65),
    (0.38, 0.0, 0.20),
)  # where the page looks from at first, in the arm's base [m]
LEFT, RIGHT = (
    1000,
    330,
)  # pixels of the two panels; viser narrows both where that leaves too little for the scene
LEFT_OF_GIZMO = 600  # the gizmo needs room in the scene
VALUE, PROBABLE = "critic's value: the last minute", "success probable: the last minute"
SAID_AGAIN_S = 0.7  # a key that is held down repeats itself sooner
STOP = ("halt", "STOP  (space)", "red", "HAND_STOP")
BUTTONS = (
    ("success", "Success / keep  (s)", "teal", "CHECK"),
    ("failure", "Failure  (f)", "orange", "X"),
    ("discard", "Discard  (d)", "orange", "TRASH"),
    ("undo", "Undo last episode  (u)", "gray", "ARROW_BACK_UP"),
    ("deny", "That was no success  (n)", "orange", "BAN"),
    ("start", "Start / done", "green", "PLAYER_PLAY"),
    ("pause", "Pause after this episode", "gray", "PLAYER_PAUSE"),
    ("acknowledge", "Acknowledge fault", "yellow", "ALERT_TRIANGLE"),
)
"""What each button says, its label, colour and icon."""
KEYS = {
    "space": "halt",
    "S": "success",
    "F": "failure",
    "D": "discard",
    "U": "undo",
    "N": "deny",
}
"""What a key says, while no field is being typed into."""
ANSWERS = (("yes", "It was  (y)", "teal", "CHECK"), ("no", "It was not  (x)", "orange", "X"))
ANSWER_KEYS = {"Y": "yes", "X": "no"}
"""The same for the judge's question; another key than that for a word on the whole episode."""
HAND_BUTTONS = (("close", "blue", "ARROWS_MINIMIZE"), ("open", "cyan", "ARROWS_MAXIMIZE"))
"""What each button of a hand wants, its colour and icon."""
HELD_HZ = 5.0  # a button of a hand that is held down says so
STALE_S = 0.5  # what nobody could be told for so long is not told later
LOOK_AT_IT_S = 0.5  # an answer so soon after a question came may be about the one before it


class UiEvents:
    """What was done on the page, said by viser's threads and taken by one other: words, and where
    the gizmo is held.
    """

    def __init__(self) -> None:
        self.waiting = threading.Event()
        self._words: deque[str] = deque(maxlen=100)
        self._keys: dict[str, float] = {}
        self._presses: dict[tuple[str, str], float] = {}
        self._grip: Array | None = None
        self._dragging = False

    def word(self, word: str) -> None:
        """A button was pressed."""
        self._words.append(word)
        self.waiting.set()

    def key(self, word: str) -> None:
        """A key was pressed; one that is held down says its word once, and nothing of the next
        episode.
        """
        if not self.repeats(word):
            self.word(word)

    def repeats(self, word: str) -> bool:
        """Whether the key that says this was pressed, and is held down since."""
        now, before = time.monotonic(), self._keys.get(word, -SAID_AGAIN_S)
        self._keys[word] = now
        return now - before <= SAID_AGAIN_S

    def take_words(self) -> list[str]:
        """Those that were not taken yet."""
        self.waiting.clear()
        return [self._words.popleft() for _ in range(len(self._words))]

    @property
    def has_words(self) -> bool:
        """Whether there are some that were not taken yet."""
        return bool(self._words)

    def press(self, hand: str, button: str) -> None:
        """A hand's button is down."""
        self._presses[hand, button] = time.monotonic()
        self.waiting.set()

    def take_presses(self) -> list[tuple[str, str]]:
        """Hands and their buttons that were pressed since the last time, and just now."""
        now, pressed = time.monotonic(), list(self._presses)
        return [each for each in pressed if now - self._presses.pop(each) < STALE_S]

    @property
    def grip(self) -> Array | None:
        """The pose `(7,)` in the base where the gizmo is held, or None."""
        return self._grip if self._dragging else None

    def hold(self, dragging: bool, pose: Array | None = None) -> None:
        """The gizmo was taken, moved or let go."""
        self._dragging = dragging
        self._grip = pose if pose is not None else self._grip
        self.waiting.set()


class Page:
    """One page; whoever opens it sees and does the same."""

    def __init__(
        self,
        title: str,
        arms: Sequence[tuple[ArmConfig, Sequence[Shape]]],
        *,
        listener: socket.socket,
        door: AuthProxy,
        gizmo: str | None,
        cameras: Sequence[CameraConfig] = (),
        hands: Sequence[str] = (),
    ):
        """It listens at `listener` and nowhere else, and asks the door. `gizmo` names the arm that
        it drives; each of the `hands` gets its buttons.
        """
        self.said = UiEvents()
        self._server = guarded_server(title, listener, door)
        self._server.on_client_disconnect(self._let_go)  # nor does a page that is closed
        gui, scene = self._server.gui, self._server.scene
        gui.configure_theme(
            dark_mode=True, show_logo=False, show_share_button=False, brand_color=(48, 164, 108)
        )
        self._shown: dict[str, Any] = {}
        self._sight = Snapshot()
        self._heard: View | None = None
        self._events = 0
        self._gui = gui
        self._views: dict[str, Any] = {}
        self._lamp = gui.add_html("")
        self._asked: Question | None = None
        self._asked_t = -LOOK_AT_IT_S
        self._question = gui.add_html("", visible=False)
        self._answers = [self._make_button(gui, self._answer, *button) for button in ANSWERS]
        others = [str(button._impl.uuid) for button in self._answers]
        self._show_question(None)
        grips = [self._add_hand_button(gui, hand, *each) for hand in hands for each in HAND_BUTTONS]
        others += [self._add_button(gui, *button) for button in BUTTONS]
        self._sound = gui.add_checkbox(
            "Sound", True, hint="at takeover, success, failure, fault; when a person is needed"
        )
        self._note = gui.add_html(note_html(""))
        stop = self._add_button(gui, *STOP)
        self._style_of = partial(style_html, stop, others, grips, gizmo is None)
        self._event = gui.add_html("")
        self._style = gui.add_html(self._style_of(1))
        for key, word in KEYS.items():
            command = gui.add_command(f"Say: {word}", hotkey=key)  # type: ignore[arg-type]
            command.on_trigger(partial(self._press_key, word))
        for key, word in ANSWER_KEYS.items():
            command = gui.add_command(f"Answer: {word}", hotkey=key)  # type: ignore[arg-type]
            command.on_trigger(partial(self._answer_by_key, word))
        gui.main_panel.dock_left()
        gui.main_panel.set_width(LEFT if gizmo is None else LEFT_OF_GIZMO)
        figures = gui.add_panel(order=1.0)
        with figures.add_tab("Run"):
            self._status = gui.add_html("")
            self._rate = gui.add_html("")
            self._curve = self._add_curve(gui)
            self._trace = self._add_trace(gui)
            self._list = gui.add_html("")
        with figures.add_tab("Crop"):
            self._crop = CropTab(gui, cameras)
        figures.dock_right()
        figures.set_width(RIGHT)
        figures.expand()

        scene.set_up_direction("+z")
        scene.configure_default_lights(cast_shadow=False)
        scene.configure_environment_map(hdri=None)
        scene.add_light_ambient("/light", intensity=1.2)
        scene.add_grid(
            "/floor", width=4.0, height=4.0, cell_size=0.1, section_size=0.5, position=(0.0, 0.0, -0.041),
            cell_color=(45, 45, 45), section_color=(70, 70, 70),
        )  # fmt: skip
        self._server.initial_camera.position, self._server.initial_camera.look_at = EYE, LOOK_AT
        self._arms = [ArmView(scene, arm, shapes, gizmo=arm.name == gizmo) for arm, shapes in arms]
        for view in self._arms:
            if view.gizmo is not None:
                view.gizmo.on_update(self._take)

    def show(self, sight: Snapshot, poses: Sequence[Array | None]) -> None:
        """Everything anew; `poses (n, 7)`: of each arm's shapes in its base. What has not changed
        is not sent.
        """
        with self._server.atomic():
            self._set("status", self._status, status_html(sight))
            self._set("lamp", self._lamp, lamp_html(sight))
            self._show_event(sight)
            self._show_question(sight.question)
            if sight.is_at_rest:
                self._show_views({})
                self._let_go()  # a gizmo that goes while it is held does not say so
            elif sight.view is not None and sight.view.images:
                self._show_views(sight.view.images)
            self._crop.show(sight.picture)
            self._show_history(sight.history)
            self._show_trace(sight.trace)
            for view, arm, of_shapes in zip(self._arms, sight.arms, poses, strict=True):
                if arm is not None:
                    view.show(arm, of_shapes, held=self.said.grip is not None)
                view.foot.visible = arm is not None or not sight.is_at_rest
        self._sight = sight

    def _let_go(self, _: object = None) -> None:
        """Nobody holds the gizmo any more."""
        if self.said.grip is not None:
            self.said.hold(False)

    @property
    def sight(self) -> Snapshot:
        """What was shown last."""
        return self._sight

    @property
    def marked(self) -> str:
        """The camera whose crop is being marked, "" if none is."""
        return self._crop.camera

    def note(self, text: str, problem: bool = False) -> None:
        """The answer to the last button."""
        self._set("note", self._note, note_html(text, problem))

    def stop(self) -> None:
        """Close the page."""
        self._server.stop()

    def _press(self, word: str, _: Any) -> None:
        self.said.word(word)

    def _press_hand(self, pressed: tuple[str, str], _: Any) -> None:
        self.said.press(*pressed)

    def _press_key(self, word: str, _: Any) -> None:
        self.said.key(word)

    def _answer_by_key(self, word: str, _: Any) -> None:
        if not self.said.repeats(word):
            self._answer(word)

    def _answer(self, word: str, _: Any = None) -> None:
        """Yes or no to the question that is shown, if it has been for long enough to be meant."""
        if self._asked is None:
            self.note("nothing is asked now", problem=True)
        elif time.monotonic() - self._asked_t < LOOK_AT_IT_S:
            self.note("the question has just changed: look at it, then answer", problem=True)
        else:
            self.said.word(f"{word} {self._asked.number}")

    def _add_button(self, gui: Any, word: str, label: str, colour: str, icon: str) -> str:
        """A button that says a word; returns its id on the page."""
        return str(self._make_button(gui, self._press, word, label, colour, icon)._impl.uuid)

    def _add_hand_button(self, gui: Any, hand: str, choice: str, colour: str, icon: str) -> str:
        """A button of a hand, which counts as long as it is held down; returns its id."""
        label = f"{choice.capitalize()} {hand}"
        button = self._make_button(gui, self._press_hand, (hand, choice), label, colour, icon)
        button.on_hold(partial(self._press_hand, (hand, choice)), callback_hz=HELD_HZ)
        return str(button._impl.uuid)

    @staticmethod
    def _make_button(
        gui: Any, press: Callable[..., None], word: Any, label: str, colour: str, icon: str
    ) -> Any:
        button = gui.add_button(label, color=colour, icon=getattr(viser.Icon, icon))
        button.on_click(partial(press, word))
        return button

    async def _take(self, event: Any) -> None:
        """The gizmo was taken, moved or let go. A coroutine: only those are told in the order in
        which it happened.
        """
        w, x, y, z = event.target.wxyz
        self.said.hold(event.phase != "end", np.array([*event.target.position, x, y, z, w], float))

    def _show_question(self, question: Question | None) -> None:
        """What the judge asks, with its buttons, while it does."""
        before, self._asked = self._asked, question
        if question is not None and (before is None or before.number != question.number):
            self._asked_t = time.monotonic()
        if question is not None:
            self._set("question", self._question, question_html(question))
        for handle in (self._question, *self._answers):
            if handle.visible != (question is not None):
                handle.visible = question is not None

    def _show_history(self, history: History) -> None:
        if self._shown.get("episodes") == history.episodes:
            return
        self._shown["episodes"] = history.episodes
        self._rate.content = history_html(history)
        self._list.content = list_html(history)
        curve = [(n, f.without_help, f.success, f.operator) for n, _, f in history.curve]
        self._curve.data = tuple(np.array(curve, float).reshape(-1, 4).T.copy())

    def _show_trace(self, trace: Trace) -> None:
        self._set(
            "trace",
            self._trace,
            bool(np.isfinite([*trace.values, *trace.probabilities]).any()),
            "visible",
        )
        if self._trace.visible:
            weighs = bool(np.isfinite(trace.probabilities).any())
            column = np.array(trace.probabilities if weighs else trace.values, float)
            there = np.isfinite(column)  # a NaN leaves the plot without a scale
            self._set("trace title", self._trace, PROBABLE if weighs else VALUE, "title")
            self._trace.data = (np.array(trace.times, float)[there], column[there])

    def _show_views(self, images: Mapping[str, Array]) -> None:
        """Each camera's picture before everything else; those of other cameras go."""
        if self._views.keys() != images.keys():
            for handle in self._views.values():
                handle.remove()
            self._views = {
                name: self._gui.add_image(
                    image, format="jpeg", jpeg_quality=80, order=i - len(images)
                )
                for i, (name, image) in enumerate(images.items())
            }
            self._style.content = self._style_of(max(1, len(images)))
        for name, image in images.items():
            self._views[name].image = titled(image, name)

    def _show_event(self, sight: Snapshot) -> None:
        """A flash, and a sound unless it is off, when something has happened that a person should
        notice; also while the actor did not answer.
        """
        if event := event_between(replace(self._sight, view=self._heard), sight):
            self._events += 1
            self._event.content = event_html(event, self._events, sound=self._sound.value)
        self._heard = sight.view or self._heard

    def _set(self, key: str, handle: Any, value: Any, name: str = "content") -> None:
        if self._shown.get(key) != value:
            self._shown[key] = value
            setattr(handle, name, value)

    @staticmethod
    def _add_curve(gui: Any) -> Any:
        return gui.add_uplot(
            data=(np.zeros(1),) * 4,
            series=(
                uplot.Series(label="episode"),
                uplot.Series(label="without help", stroke=GREEN, width=3),
                uplot.Series(label="all", stroke=BLUE, width=1),
                uplot.Series(label="operator", stroke=AMBER, width=1),
            ),
            scales={"x": uplot.Scale(time=False, auto=True), "y": uplot.Scale(range=(-0.02, 1.1))},
            title=f"success, mean over {WINDOW} episodes",
            height=190,
        )

    @staticmethod
    def _add_trace(gui: Any) -> Any:
        return gui.add_uplot(
            data=(np.zeros(1),) * 2,
            series=(uplot.Series(label="s"), uplot.Series(label="", stroke=GREY, width=2)),
            scales={"x": uplot.Scale(time=False, auto=True), "y": uplot.Scale(auto=True)},
            title=VALUE,
            height=150,
            visible=False,
        )
