"""The page: a viser server behind the door, its layout, what an operator does on it. The only file that knows viser.

Its callbacks run in viser's threads; they leave what was done in `Said`, for whoever passes it on.
"""

import html
import io
import logging
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from functools import partial
from http import HTTPStatus
from typing import Any

import cv2
import numpy as np
import trimesh
import viser
import websockets.asyncio.server
from viser import uplot
from websockets import Headers
from websockets.asyncio.server import ServerConnection
from websockets.http11 import Request, Response

from robot_rl.config import ArmConfig, CameraConfig
from robot_rl.console.crop import CropTab
from robot_rl.console.door import KEEP_QUIET, Answer, Door
from robot_rl.console.watch import WINDOW, History, Sight
from robot_rl.data.pictures import in_rows
from robot_rl.data.stats import wilson_interval
from robot_rl.sim.shapes import Shape
from robot_rl.transport.desk import NEEDS_HUMAN
from robot_rl.types import ArmState, Array, Fault

CELL = 320  # pixels of a camera's view on the page
EYE, LOOK_AT = (1.25, -0.80, 0.65), (0.38, 0.0, 0.20)  # where the page looks from at first, in the arm's base [m]
FULL_RED, GREEN, AMBER = "#e5484d", "#30a46c", "#f5a623"
GREEDY, SAMPLED = "greedy policy", "sampled policy"  # how an evaluated policy acts
PLAIN = {"cast_shadow": False, "receive_shadow": False}  # a laptop without a GPU draws it, too
BUTTONS = (
    ("start", "Start / done", "green", "PLAYER_PLAY"),
    ("pause", "Pause after this episode", "gray", "PLAYER_PAUSE"),
    ("halt", "Stop (a soft stop)", "red", "HAND_STOP"),
    ("success", "Success / keep", "teal", "CHECK"),
    ("failure", "Failure", "orange", "X"),
    ("discard", "Discard", "orange", "TRASH"),
    ("undo", "Undo last episode", "gray", "ARROW_BACK_UP"),
    ("acknowledge", "Acknowledge fault", "red", "ALERT_TRIANGLE"),
)
"""What each button says, its label, colour and icon."""


class Said:
    """What was done on the page, said by viser's threads and taken by one other: words, and where the gizmo is held."""

    def __init__(self) -> None:
        self.waiting = threading.Event()
        self._words: deque[str] = deque(maxlen=100)
        self._grip: Array | None = None
        self._dragging = False

    def word(self, word: str) -> None:
        """A button was pressed."""
        self._words.append(word)
        self.waiting.set()

    def take_words(self) -> list[str]:
        """Those that were not taken yet."""
        self.waiting.clear()
        return [self._words.popleft() for _ in range(len(self._words))]

    @property
    def grip(self) -> Array | None:
        """The pose `(7,)` in the base where the gizmo is held, or None."""
        return self._grip if self._dragging else None

    def hold(self, dragging: bool, pose: Array | None = None) -> None:
        """The gizmo was taken, moved or let go."""
        self._dragging = dragging
        self._grip = pose if pose is not None else self._grip
        self.waiting.set()


@contextmanager
def _behind(door: Door, listener: socket.socket) -> Iterator[None]:
    """A viser server that is made meanwhile listens at this socket alone, and whoever comes is asked at the door.

    viser takes a host and a port, and lets everybody in. What it calls to listen also takes a socket, and somebody who
    looks at each request, of a page or of a websocket, before anything else does.
    """
    listen, used = websockets.asyncio.server.serve, threading.Event()

    def serve(handler: Any, *_: Any, process_request: Any, **options: Any) -> Any:
        used.set()
        return listen(handler, sock=listener, process_request=_asking(door, process_request), logger=QUIET, **options)

    websockets.asyncio.server.serve = serve  # type: ignore[assignment, misc]
    try:
        yield
    finally:
        websockets.asyncio.server.serve = listen  # type: ignore[misc]
    if not used.is_set():
        raise RuntimeError(
            f"viser {viser.__version__} listens in another way than this file knows: the page has no door"
        )


def _asking(door: Door, page: Callable[[ServerConnection, Request], Response | None]) -> Any:
    """Whoever looks at a request: the door first, then the page, which sees the path without what the door needs."""

    def process_request(connection: ServerConnection, request: Request) -> Response | None:
        peer = connection.remote_address
        said = door.ask(request.path, list(request.headers.raw_items()), (peer[0], peer[1]))
        if isinstance(said, Answer):
            fields = Headers([*said.fields, ("Content-Type", "text/plain; charset=utf-8")])
            response: Response | None = Response(
                said.status, HTTPStatus(said.status).phrase, fields, said.body.encode()
            )
        else:
            request.path = said
            response = page(connection, request)
        if response is not None:
            response.headers["Content-Length"] = str(len(response.body))
            for name, value in KEEP_QUIET:
                response.headers[name] = value
        return response

    return process_request


QUIET = logging.getLogger(f"{__name__}.websockets")
QUIET.addFilter(lambda record: not record.getMessage().startswith(("opening handshake failed", "connection rejected")))
"""It says nothing of strangers: they could fill a disk with what they send."""


class Page:
    """One page; whoever opens it sees and does the same."""

    def __init__(
        self,
        title: str,
        arms: Sequence[tuple[ArmConfig, Sequence[Shape]]],
        *,
        listener: socket.socket,
        door: Door,
        gizmo: str | None,
        cameras: Sequence[CameraConfig] = (),
    ):
        """It listens at `listener` and nowhere else, and asks the door. `gizmo` names the arm that it drives."""
        self.said = Said()
        with redirect_stdout(io.StringIO()), _behind(door, listener):  # it prints an address without the token
            self._server = viser.ViserServer(label=f"robot_rl: {title}", verbose=False)
        gui, scene = self._server.gui, self._server.scene
        gui.configure_theme(dark_mode=True, show_logo=False, show_share_button=False, brand_color=(48, 164, 108))
        self._shown: dict[str, Any] = {}
        with gui.add_folder(title):
            self._status = gui.add_html("")
        for word, label, colour, icon in BUTTONS:
            button = gui.add_button(label, color=colour, icon=getattr(viser.Icon, icon))  # type: ignore[arg-type]
            button.on_click(partial(self._press, word))
        gui.add_html(
            '<div style="padding:2px 12px;font-size:12px;opacity:.6">Stop is a soft stop: it ends the episode and '
            "begins no other one. Keep the robot's own stop in reach.</div>"
        )
        self._note = gui.add_html("")
        gui.main_panel.dock_right()
        gui.main_panel.set_width(330)
        self._views = gui.add_panel()
        with self._views.add_tab("Cameras and curves"):
            self._image = gui.add_image(np.zeros((CELL, CELL, 3), np.uint8), format="jpeg", jpeg_quality=80)
            self._curves = gui.add_html("no episode yet"), self._add_plot(gui)
        with self._views.add_tab("Crop"):
            self._crop = CropTab(gui, cameras)
        self._views.dock_left()
        self._views.set_width(430)

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

    def show(self, sight: Sight, poses: Sequence[Array | None]) -> None:
        """Everything anew; `poses (n, 7)`: of each arm's shapes in its base. What has not changed is not sent."""
        with self._server.atomic():
            self._set("status", self._status, status_html(sight))
            if sight.view is not None and sight.view.images:
                self._image.image = montage(sight.view.images)
            self._crop.show(sight.picture)
            self._show_history(sight.history)
            for view, arm, of_shapes in zip(self._arms, sight.arms, poses, strict=True):
                if arm is not None:
                    view.show(arm, of_shapes, held=self.said.grip is not None)

    @property
    def marked(self) -> str:
        """The camera whose crop is being marked, "" if none is."""
        return self._crop.camera

    def note(self, text: str, problem: bool = False) -> None:
        """The answer to the last button."""
        colour = FULL_RED if problem else GREEN
        self._note.content = f'<div style="padding:6px 12px;color:{colour}">{html.escape(text)}</div>'

    def stop(self) -> None:
        """Close the page."""
        self._server.stop()

    def _press(self, word: str, _: Any) -> None:
        self.said.word(word)

    async def _take(self, event: Any) -> None:
        """The gizmo was taken, moved or let go. A coroutine: only those are told in the order in which it happened."""
        w, x, y, z = event.target.wxyz
        self.said.hold(event.phase != "end", np.array([*event.target.position, x, y, z, w], float))

    def _show_history(self, history: History) -> None:
        if self._shown.get("episodes") == history.episodes:
            return
        self._shown["episodes"] = history.episodes
        text, plot = self._curves
        text.content = history_html(history)
        x = np.array(history.numbers, float)
        plot.data = (x, np.array(history.success_curve, float), np.array(history.operator_curve, float))

    def _set(self, key: str, handle: Any, content: str) -> None:
        if self._shown.get(key) != content:
            self._shown[key] = content
            handle.content = content

    @staticmethod
    def _add_plot(gui: Any) -> Any:
        line = {"width": 2}
        return gui.add_uplot(
            data=(np.zeros(1), np.zeros(1), np.zeros(1)),
            series=(
                uplot.Series(label="episode"),
                uplot.Series(label="success", stroke=GREEN, **line),  # type: ignore[typeddict-item]
                uplot.Series(label="operator's share", stroke=AMBER, **line),  # type: ignore[typeddict-item]
            ),
            scales={"x": uplot.Scale(time=False, auto=True), "y": uplot.Scale(range=(-0.02, 1.02))},
            title=f"mean over {WINDOW} episodes",
            height=210,
        )


class ArmView:
    """One arm in the scene, standing where its hardware file says; perhaps with the gizmo at its target."""

    def __init__(self, scene: Any, arm: ArmConfig, shapes: Sequence[Shape], *, gizmo: bool):
        x, y, z, w = arm.pose_bench_base[3:]
        foot = f"/arms/{arm.name}"
        scene.add_frame(foot, show_axes=False, position=arm.pose_bench_base[:3], wxyz=(w, x, y, z))
        self._shapes = [_add_shape(scene, f"{foot}/shapes/{i}", shape) for i, shape in enumerate(shapes)]
        self._target = scene.add_frame(f"{foot}/target", axes_length=0.06, axes_radius=0.002, visible=False)
        self._tool = scene.add_frame(f"{foot}/tool", axes_length=0.04, axes_radius=0.004, visible=False)
        self.gizmo = (
            scene.add_transform_controls(f"{foot}/gizmo", scale=0.22, depth_test=False, visible=False)
            if gizmo
            else None
        )
        self._placed: dict[str, tuple[float, ...]] = {}

    def show(self, arm: ArmState, poses: Array | None, *, held: bool) -> None:
        """The arm as it is now; a gizmo that is `held` stays where the hand has it."""
        for handle, pose in zip(self._shapes, poses if poses is not None else (), strict=False):
            self._place(handle, pose)
        for handle, pose in ((self._tool, arm.pose_base_tcp), (self._target, arm.target_base_tcp)):
            handle.visible = True
            self._place(handle, pose)
        if self.gizmo is not None and not held:
            self.gizmo.visible = True
            self._place(self.gizmo, arm.target_base_tcp)

    def _place(self, handle: Any, pose: Array) -> None:
        now = tuple(np.round(pose, 5))
        if self._placed.get(handle.name) != now:
            self._placed[handle.name] = now
            handle.position = pose[:3]
            handle.wxyz = (pose[6], *pose[3:6])


def montage(images: Any) -> Array:
    """The views side by side, two in a row, each with its name; enlarged without smoothing."""
    cells = []
    for name, image in images.items():
        height, width = image.shape[:2]
        scale = CELL / max(height, width)
        size = (max(1, round(width * scale)), max(1, round(height * scale)))
        view = np.zeros((CELL, CELL, 3), np.uint8)
        view[: size[1], : size[0]] = cv2.resize(image, size, interpolation=cv2.INTER_NEAREST)
        for colour, thickness in (((0, 0, 0), 5), ((255, 255, 255), 2)):
            cv2.putText(view, name, (8, 26), cv2.FONT_HERSHEY_SIMPLEX, 0.8, colour, thickness, cv2.LINE_AA)
        cells.append(view)
    return in_rows(cells, columns=1 if len(cells) == 1 else 2)


def status_html(sight: Sight) -> str:
    """Who acts and where the run stands, faults and whoever is silent in red."""
    rows: list[tuple[str, str]] = []
    alarms = [f"{who} does not answer" for who in sight.problems]
    named = sight.named_arms()
    alarms += [f"{name}FAULT {Fault(arm.fault).name}: {arm.reason}" for name, arm in named if arm.fault]
    author = phase = ""
    if sight.view is not None:
        facts, step = sight.view.facts, sight.view.step
        phase = str(facts.get("phase", ""))
        if facts.get("reason"):
            alarms.append(str(facts["reason"])) if phase in ("waiting", NEEDS_HUMAN) else rows.append((
                "",
                str(facts["reason"]),
            ))
        if "demos" in facts:
            rows.append(("demonstrations", f"{facts['demos']} of {facts['wanted']}, {facts['attempts']} attempts"))
        if "positives" in facts:
            rows += [(kind, f"{facts[kind]} of {facts['wanted_' + kind]}") for kind in ("positives", "negatives")]
        if "evaluated" in facts:
            rows.append(("evaluation", evaluation_text(facts["evaluated"], facts["wanted"], facts["succeeded"])))
        if facts.get("missed_resets"):
            rows.append(("missed resets", str(facts["missed_resets"])))
        if facts.get("total_steps"):
            rows.append(("steps", f"{facts.get('env_steps', 0)} of {facts['total_steps']}"))
        if step is not None:
            author = str(step["author"])
            if "evaluated" in facts:
                author = SAMPLED if facts.get("sampled") else GREEDY
            rows += [
                ("episode, step", f"{step['episode']}, {step['index']}"),
                ("reward", reward_text(step)),
                ("rate, late by", f"{number(facts['rate_hz']):.1f} Hz, {1e3 * number(step['late_s']):.0f} ms"),
            ]
    for name, arm in named:
        x, y, z = arm.pose_base_tcp[:3]
        rows.append((f"{name}tool", f"{x:.3f} {y:.3f} {z:.3f} m" + (", holds" if arm.holding else "")))
        rows.append((f"{name}force", f"{np.linalg.norm(arm.wrench_base_tcp[:3]):.1f} N"))
        rows.append((f"{name}limits", arm.verdict.reasons))
        if arm.command_success < 1.0:
            rows.append((f"{name}commands", f"{100.0 * arm.command_success:.0f} % reach the robot"))
    learner = sight.learner
    if learner.get("phase"):
        rows.append(("learner", f"{learner['phase']} {learner.get('done', 0)} of {learner.get('total', 0)}"))
    if learner.get("q") is not None:
        rows.append(("critic's value", f"{learner['q']:.3f}"))
    if learner.get("updates_per_s") is not None:
        rows.append(("updates", f"{learner['updates_per_s']:.0f} /s"))
    acting = {"human": AMBER, "demo": AMBER, "policy": GREEN, GREEDY: GREEN, SAMPLED: GREEN}.get(author, "#888")
    acting = AMBER if phase == NEEDS_HUMAN else acting
    who = {"human": "operator", "demo": "operator"}.get(author, author) if phase == "acting" else phase
    parts = [f'<div style="font-size:1.5em;font-weight:700;color:{acting}">{html.escape(who or "-")}</div>']
    parts += [f'<div style="color:{FULL_RED};font-weight:700">{html.escape(alarm)}</div>' for alarm in alarms]
    parts += [
        f'<div><span style="opacity:.6">{html.escape(name)}</span> {html.escape(value)}</div>' for name, value in rows
    ]
    return f'<div id="robot-rl-status" style="padding:4px 12px;font-size:13px">{"".join(parts)}</div>'


def reward_text(step: Mapping[str, Any]) -> str:
    """What the judge said of the newest step, and how sure of success it was, if it weighs."""
    done = ", done" if step["terminated"] else ""
    weighed = "" if step.get("probability") is None else f", success {step['probability']:.0%} probable"
    return f"{number(step['reward']):g}{done}{weighed}"


def evaluation_text(done: int, wanted: int, succeeded: int) -> str:
    """How far an evaluation is, and what it has come to."""
    low, high = wilson_interval(succeeded, done)
    rate = f": {succeeded / done:.0%} succeeded (95 % interval {low:.0%} to {high:.0%})" if done else ""
    return f"{done} of {wanted} episodes{rate}"


def number(value: Any) -> float:
    """What JSON has no number for, as one."""
    return float("nan") if value is None else float(value)


def history_html(history: History) -> str:
    """The success rate with its interval."""
    if not history.episodes:
        return '<div style="padding:4px 12px">no episode yet</div>'
    low, high = history.interval
    rate = history.successes_alone / max(1, history.episodes_alone)
    return (
        f'<div style="padding:4px 12px;font-size:13px"><b>{rate:.0%}</b> of {history.episodes_alone} episodes without '
        f"help succeeded (95 % interval {low:.0%} to {high:.0%}); {history.successes} of all {history.episodes}</div>"
    )


def _add_shape(scene: Any, name: str, shape: Shape) -> Any:
    a, b, c = shape.size
    if shape.kind == "box":
        return scene.add_box(name, color=shape.colour, dimensions=(2 * a, 2 * b, 2 * c), **PLAIN)
    if shape.kind == "cylinder":
        return scene.add_cylinder(name, radius=a, height=2 * b, color=shape.colour, radial_segments=20, **PLAIN)
    if shape.kind == "sphere":
        return scene.add_icosphere(name, radius=a, color=shape.colour, **PLAIN)
    mesh = trimesh.creation.capsule(height=2 * b, radius=a, count=[10, 16])
    vertices = mesh.vertices - mesh.bounds.mean(axis=0)
    return scene.add_mesh_simple(name, vertices, mesh.faces, color=shape.colour, **PLAIN)
