"""The operator's desk: what the actor shows to a console, and what is said there. May lose; the
actor never waits.

The actor's loop leaves its newest step here and goes on; a console asks for it, and only then,
in the desk's own thread, are pictures made small. The other way come words on the episode, orders,
and where the gizmo is held.

The control loop shares the process: no request is larger than 16 kB, each takes less than a
millisecond but for new pictures, which are made once for all who ask, and answers take a fifth of
the time at most. Callers take turns, so a word of the operator is heard whatever others send.
"""

import math
import secrets
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from robot_rl.links.calls import CallClient, CallServer
from robot_rl.links.events import EventQueue, Moment
from robot_rl.links.hand_buttons import HandButtons
from robot_rl.links.jpeg import from_jpeg, to_jpeg
from robot_rl.links.sockets import ANY_PORT
from robot_rl.machine.small_files import finite
from robot_rl.machine.validation import nearest
from robot_rl.types import WORDS, ArmState, Array, DataError, OperatorCommand, Step

TELEOP_ADDRESS = "local://teleop"  # where a browser's device listens that is tried without a run
WHOLE_PIXELS = 640  # the same, of a camera's whole picture
NEEDS_HUMAN = "needs a human"  # the phase in which the arm holds until a person has put things back
MOST_CHARACTERS = 100  # of a word or a camera's name
SHARE = 0.2  # of the time of the desk's thread: the control loop runs in the same process
PICTURE_EVERY_S = 0.1  # a camera's whole picture is made small no more often, for all consoles
FAR = 1e6  # [m]; no arm reaches there
SILENCE_S = 0.3  # without a word from the console the gizmo's clutch is open
# a page that is silent for longer holds the gizmo no more, though it has not said so
LET_GO_S = 5.0


@dataclass(frozen=True)
class Shown:
    """The newest step, as the actor left it; how sure of success the judge was, whether it was in
    doubt, and which version of it; whether the operator had hold.
    """

    step: Step
    arms: Sequence[ArmState]
    late_s: float
    probability: float | None
    held: bool
    doubtful: bool = False
    version: int = 0


@dataclass(frozen=True)
class View:
    """What a console was told: `facts` of the run, `step` (episode, index, author ...) or None
    before the first one.

    `images` are new ones, by camera, `(H, W, 3)` uint8 RGB; none if the step is the one that was
    seen before.
    """

    number: int
    facts: Mapping[str, Any]
    step: Mapping[str, Any] | None
    images: Mapping[str, Array]


@dataclass(frozen=True)
class Picture:
    """One camera's newest picture, `(H, W, 3)` uint8 RGB, made smaller if it was large.

    `size` is the width and height that it has at the camera. It is the `whole` one, before crop and
    resizing, or what the policy sees, where the camera has no other.
    """

    camera: str
    image: Array
    size: tuple[int, int]
    whole: bool


@dataclass(frozen=True)
class Question:
    """A moment in which the judge was in doubt: the question's own number, the step, how
    probable success was, and what was seen, by camera as the bytes of a JPEG.
    """

    number: int
    episode: int
    index: int
    probability: float | None
    version: int
    views: Mapping[str, bytes]


class ConsoleLink:
    """The actor's side.

    ```
    desk.tell(phase="acting", wanted=20)       # facts, until they are told otherwise
    desk.show(step, arms, late_s)              # once per step: leaves a reference, no more
    events, grip = desk.events.take(), desk.grip
    ```
    `events` is the queue of all that an operator says: devices put their share into it, too.
    `cameras`, by name, may be looked through as well, for their whole pictures. `hands` are those
    that the task moves (`env/hands.py`); `hand_buttons` are the page's for them. `acknowledged`:
    somebody has looked at a hand's fault; the gate obeys, and takes it back.

    Where it `asks`, each beginning of a doubt of the judge's is a question. The newest alone is
    open; its answer is an event about the moment that was shown.
    """

    def __init__(self, address: str = ANY_PORT):
        """Raises LinkError if nobody can listen there."""
        self._server = CallServer(address)
        self.address = self._server.address
        self.cameras: Mapping[str, Any] = {}
        self.hands: Any = None
        self.hand_buttons = HandButtons()
        self.acknowledged = False
        self._lock = threading.Lock()
        self._facts: dict[str, Any] = {}
        self._shown: Shown | None = None
        self._number = 0
        self._times: deque[float] = deque(maxlen=20)
        self._jpegs: tuple[Shown | None, dict[str, Array]] = (None, {})
        # by camera: when, and the answer
        self._whole: dict[str, tuple[float, dict[str, Any], dict[str, Array]]] = {}
        self.events = EventQueue()
        self.asks = False
        # no question of an actor before this one has its number
        self._asked = self._never_asked = secrets.randbits(40) + 1
        self._question: tuple[int, Shown] | None = None
        self._question_jpegs: tuple[int, dict[str, Array]] = (0, {})
        self._grip: Array | None = None
        self._grip_t = -math.inf
        self._server.register("view", self._view)
        self._server.register("picture", self._picture)
        self._server.register("say", self._say)
        self._server.register("question", self._tell_question)
        self._server.register("answer", self._take_answer)
        self._server.register("grip", self._take_grip)
        self._server.register("hand", self._take_press)
        self._server.register("acknowledge", self._acknowledge)
        self._server.start(SHARE)

    def tell(self, **facts: Any) -> None:
        """Facts as JSON has them: `phase`, `reason`, counts. What is not named stays as it was."""
        with self._lock:
            self._facts.update(facts)
            self._number += 1

    def show(
        self,
        step: Step,
        arms: Sequence[ArmState],
        late_s: float = 0.0,
        probability: float | None = None,
        held: bool = False,
        doubtful: bool = False,
        version: int = 0,
    ) -> None:
        """The step that was just made; nothing of it is written into afterwards. `held`: the clutch
        was closed. `doubtful`: this `version` of the judge abstained.
        """
        before = self._shown
        self._shown = Shown(step, tuple(arms), late_s, probability, held, doubtful, version)
        goes_on = before and before.doubtful and before.step.episode == step.episode
        if self.asks and doubtful and not goes_on:
            self._asked += 1
            self._question = self._asked, self._shown
        self._times.append(step.t_monotonic)
        self._number += 1

    @property
    def grip(self) -> Array | None:
        """The pose `(7,)` in the base where the operator holds the gizmo; None if nobody does, or
        nobody is heard.
        """
        return self._grip if time.monotonic() - self._grip_t < SILENCE_S else None

    @property
    def is_held(self) -> bool:
        """Whether nobody has let go of the gizmo: a page that is silent for a moment has not."""
        return self._grip is not None and time.monotonic() - self._grip_t < LET_GO_S

    def close(self) -> None:
        """Listen no more."""
        self._server.close()

    # --------------------------------------------------------------------- in the desk's own thread

    def _view(
        self, body: dict[str, Any], _: dict[str, Array]
    ) -> tuple[dict[str, Any], dict[str, Array]]:
        number, shown = self._number, self._shown
        with self._lock:
            facts = dict(self._facts)
        facts["rate_hz"] = self._rate_hz()
        question = self._question
        facts |= {
            "doubts": self._asked - self._never_asked,
            "question": question[0] if question else 0,
            "hands": self.hands.told() if self.hands is not None else [],
        }
        step = None if shown is None else described(shown)
        fresh = shown is not None and body.get("seen") != number
        return {"number": number, "facts": finite(facts), "step": step}, (
            self._pictures(shown) if fresh and shown else {}
        )

    def _pictures(self, shown: Shown) -> dict[str, Array]:
        """Each camera's view as JPEG; made once for all consoles."""
        if self._jpegs[0] is not shown:
            self._jpegs = shown, jpegs_of(shown.step)
        return self._jpegs[1]

    def _picture(
        self, body: dict[str, Any], _: dict[str, Array]
    ) -> tuple[dict[str, Any], dict[str, Array]]:
        """The whole picture of one camera, or what the policy sees of it; nothing if there is
        neither.
        """
        name, shown = str(body.get("camera"))[:MOST_CHARACTERS], self._shown
        made_t, *answer = self._whole.get(name, (-math.inf, {}, {}))
        if time.monotonic() - made_t < PICTURE_EVERY_S:
            return answer[0], answer[1]
        camera = self.cameras.get(name)
        whole = camera.whole if camera else None
        image = (
            whole
            if whole is not None or shown is None
            else shown.step.observation.get(f"image/{name}")
        )
        if image is None:
            return {}, {}
        facts = {"size": [image.shape[1], image.shape[0]], "whole": whole is not None}
        pictures = {"picture": to_jpeg(image, WHOLE_PIXELS)}
        self._whole[name] = time.monotonic(), facts, pictures
        return facts, pictures

    def _say(self, body: dict[str, Any], _: dict[str, Array]) -> None:
        word = str(body.get("word"))[:MOST_CHARACTERS]
        if word not in WORDS:
            raise DataError(f"{word!r} is nothing to say; allowed: {nearest(word, WORDS)}")
        self.events.put(WORDS[word], "console")

    def _tell_question(
        self, body: dict[str, Any], _: dict[str, Array]
    ) -> tuple[dict[str, Any], dict[str, Array]]:
        """The question that is open, with its pictures; nothing if there is none."""
        if (question := self._question) is None:
            return {}, {}
        number, shown = question
        if self._question_jpegs[0] != number:
            self._question_jpegs = number, jpegs_of(shown.step)
        facts = {
            "number": number,
            "episode": shown.step.episode,
            "index": shown.step.index,
            "probability": shown.probability,
            "version": shown.version,
        }
        return finite(facts), self._question_jpegs[1]

    def _take_answer(self, body: dict[str, Any], _: dict[str, Array]) -> None:
        """It counts once, and for the question that it names."""
        question, success = self._question, body.get("success")
        if question is None or body.get("number") != question[0] or not isinstance(success, bool):
            raise DataError("this question is no longer open: a newer one came, or it was answered")
        step = question[1].step
        moment = Moment(step.episode, step.index, step.t_wall)
        word = OperatorCommand.SUCCESS if success else OperatorCommand.DENY
        self.events.put(word, "console", moment)
        if self._question is question:
            self._question = None

    def _take_grip(self, body: dict[str, Any], _: dict[str, Array]) -> None:
        pose = body.get("pose")
        if pose is None:
            self._grip = None
            return
        if (
            not isinstance(pose, list)
            or len(pose) != 7
            or not all(type(x) in (int, float) for x in pose)
        ):
            raise DataError(f"a gizmo is held at a pose of 7 numbers, not at {pose!r:.80}")
        held = np.array([math.inf if abs(x) > FAR else x for x in pose], np.float64)
        if not np.isfinite(held).all() or not 0.99 < np.linalg.norm(held[3:]) < 1.01:
            raise DataError(f"a gizmo is held at a pose [m], [xyzw], not at {pose!r:.80}")
        self._grip, self._grip_t = held, time.monotonic()

    def _take_press(self, body: dict[str, Any], _: dict[str, Array]) -> None:
        self.hand_buttons.press(body.get("hand"), body.get("button"))

    def _acknowledge(self, _: dict[str, Any], __: dict[str, Array]) -> None:
        """It counts for the faults that there are to be seen, and for no later one."""
        hands = self.hands.told() if self.hands is not None else []
        self.acknowledged = any(hand["reason"] for hand in hands)

    def _rate_hz(self) -> float:
        times = [*self._times]
        if len(times) > 1 and times[-1] > times[0]:
            return (len(times) - 1) / (times[-1] - times[0])
        return 0.0


class ConsoleLinkClient:
    """The console's side, for one thread. LinkError if nobody answers in time."""

    def __init__(self, address: str, timeout_s: float = 1.0):
        self._calls = CallClient(address, "the actor")
        self._timeout_s = timeout_s
        self._seen = -1

    def look(self) -> View:
        """What there is to see now."""
        reply = self._calls.call("view", {"seen": self._seen}, timeout_s=self._timeout_s)
        self._seen = reply.body["number"]
        images = {name: from_jpeg(data) for name, data in reply.arrays.items()}
        return View(self._seen, reply.body["facts"], reply.body["step"], images)

    def picture(self, camera: str) -> Picture | None:
        """What a camera sees now, all of it; None if it has shown nothing yet, or nobody acts with
        it.
        """
        reply = self._calls.call("picture", {"camera": camera}, timeout_s=self._timeout_s)
        if "picture" not in reply.arrays:
            return None
        width, height = reply.body["size"]
        return Picture(
            camera, from_jpeg(reply.arrays["picture"]), (width, height), reply.body["whole"]
        )

    def question(self) -> Question | None:
        """The question that is open now; None if there is none."""
        reply = self._calls.call("question", {}, timeout_s=self._timeout_s)
        if "number" not in reply.body:
            return None
        views = {name: data.tobytes() for name, data in reply.arrays.items()}
        return Question(**reply.body, views=views)

    def answer(self, number: int, *, success: bool) -> None:
        """What the moment of this question showed. LinkError if it is no longer open."""
        body = {"number": number, "success": success}
        self._calls.call("answer", body, timeout_s=self._timeout_s)

    def say(self, word: str) -> None:
        """A command: `success`, `undo`, `pause`... It is heard, or LinkError."""
        self._calls.call("say", {"word": word}, timeout_s=self._timeout_s)

    def hold(self, pose: Array | None) -> None:
        """The gizmo is held at this pose `(7,)` in the base, or let go."""
        self._calls.call(
            "grip",
            {"pose": None if pose is None else [float(x) for x in pose]},
            timeout_s=self._timeout_s,
        )

    def press(self, hand: str, button: str) -> None:
        """A hand's button, "open" or "close", is down. LinkError if no operator moves that hand."""
        body = {"hand": hand, "button": button}
        self._calls.call("hand", body, timeout_s=self._timeout_s)

    def acknowledge(self) -> None:
        """Somebody has looked at the hands, and clears their faults."""
        self._calls.call("acknowledge", {}, timeout_s=self._timeout_s)

    def close(self) -> None:
        self._calls.close()


def described(shown: Shown) -> dict[str, Any]:
    """A step in words and numbers, as JSON has them."""
    step = shown.step
    return finite({
        "episode": step.episode,
        "index": step.index,
        "author": step.provenance.name.lower(),
        "reward": step.reward,
        "probability": shown.probability,
        "doubtful": shown.doubtful,
        "version": shown.version,
        "held": shown.held,
        "terminated": step.terminated,
        "success": step.success,
        "truncated": step.truncated,
        "weights_version": step.weights_version,
        "late_s": shown.late_s,
        "t_wall": step.t_wall,
        "arms": [
            {"q": arm.q, "pose": arm.pose_base_tcp, "target": arm.target_base_tcp, "holding": arm.holding,
             "fault": arm.fault.name, "reason": arm.reason, "limited": arm.verdict.reasons}
            for arm in shown.arms
        ],
    })  # fmt: skip


def jpegs_of(step: Step) -> dict[str, Array]:
    """What the policy sees through each camera, and the judge through others, as JPEG."""
    images: dict[str, Array] = {}
    for name, value in step.observation.items():
        room, _, camera = name.partition("/")
        if room == "image" or (room == "judge" and value.ndim == 3):
            images.setdefault(camera, to_jpeg(value))
    return images
