"""A vision-language model as an adviser: asked about an episode that is over, whether its last
frames show success, and which of two frames is further.

It labels and asks. It is no kind of reward: what it says is a vote beside those of judge and
operator, and no episode ends by it. Such models are poor judges of contact (docs/rewards.md).
"""

import base64
import http.client
import json
import queue
import re
import threading
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import monotonic, sleep
from typing import Any, Literal, TypeVar

import cv2
import numpy as np

from robot_rl.rewards._adviser_options import AdviserOptions
from robot_rl.types import Array, ConfigError, LinkError

T = TypeVar("T")
Vote = Literal["success", "failure", "unsure"]
BUSY = (408, 409, 429, 500, 502, 503, 504, 529)
"""A server that says so may answer when it is asked again."""
LOST = ("late", "busy", "broken off")
"""Why a question has no answer, where the server is at fault; of a model's own: "unclear" and
"refused"."""
FIRST_WAIT_S = 0.5  # between two attempts; each time twice as long, or as the server says
MOST_BYTES = 1 << 20  # of an answer
MOST_TOKENS = 1_024  # of an answer: a model that thinks first needs some
TEMPERATURE = 0.7  # so that votes are not one answer, k times
SIDE = 448  # pixels of a picture's longer side: cameras of 128 are shown larger
DONE = """The pictures show the end of a robot's attempt, the oldest first. The task: {task}.
Look at the last one closely: nearly done is not done. Is the task done, completely, in the last
picture? Answer with one word, yes or no."""
FURTHER = """Two pictures of one attempt of a robot, in any order. The task: {task}.
In which of them has the robot come further with it? Answer with one word, first or second."""


@dataclass
class Advice:
    """What came of one episode. `confidence` is the vote's share of all votes that were asked,
    `further` the later frame's share of the pairs that were answered (None: none was).

    `unanswered` says how many questions have no answer, by the reason.
    """

    vote: Vote = "unsure"
    confidence: float = 0.0
    further: float | None = None
    asked: int = 0
    unanswered: Counter[str] = field(default_factory=Counter)
    tokens_in: int = 0
    tokens_out: int = 0
    seconds: float = 0.0


class Unanswered(Exception):
    """A question has no answer; the text is the reason in a word."""


class Adviser:
    """Asks one model, question after question.

    ```
    adviser = Adviser(options, os.environ.get(options.key_variable, ""))
    advice = adviser.advise(frames, "insert the peg", seed=7)      # frames (T, H, W, 3) uint8 RGB
    ```
    The key goes into the header of each question and nowhere else. Raises LinkError where nobody
    answers, ConfigError where the server refuses what it is asked.
    """

    def __init__(self, options: AdviserOptions, key: str = ""):
        self._options, self._key = options, key
        self._opener = urllib.request.build_opener(_NoRedirect)

    def advise(self, frames: Array, task: str, seed: int) -> Advice:
        """Ask about an episode. The order in each pair, and which frames it is of, follow from the
        seed."""
        options, advice = self._options, Advice()
        begun, rng = monotonic(), np.random.default_rng(seed)
        votes = Counter[str]()
        last = [_picture(frame, options.crop) for frame in frames[-options.frames :]]
        for _ in range(options.votes):
            votes[self._ask(advice, begun, DONE.format(task=task), last, ("yes", "no"))] += 1
        later = Counter[bool | None]()
        for _ in range(options.pairs if len(frames) > 1 else 0):
            later[self._compare(advice, begun, frames, task, rng)] += 1
        # a vote needs more than half of all that were asked; of pairs those that were answered
        for word, vote in (("yes", "success"), ("no", "failure")):
            if votes[word] > options.votes / 2:
                advice.vote, advice.confidence = vote, votes[word] / options.votes  # type: ignore
        if answered := later[True] + later[False]:
            advice.further = later[True] / answered
        advice.seconds = monotonic() - begun
        if advice.asked and sum(advice.unanswered[reason] for reason in LOST) == advice.asked:
            reasons = ", ".join(f"{count} {why}" for why, count in advice.unanswered.items())
            raise LinkError(
                f"{options.address} has answered none of {advice.asked} questions ({reasons})"
            )
        return advice

    def cost(self, advice: Advice) -> float:
        """What an advice has cost, by the prices in the options."""
        prices = self._options.price_in, self._options.price_out
        return 1e-6 * (advice.tokens_in * prices[0] + advice.tokens_out * prices[1])

    def _compare(
        self, advice: Advice, begun: float, frames: Array, task: str, rng: np.random.Generator
    ) -> bool | None:
        """Whether the later of two frames, a quarter of the episode apart or more, is said to be
        further; None without an answer."""
        apart = max(1, len(frames) // 4)
        early = int(rng.integers(0, len(frames) - apart))
        late = int(rng.integers(early + apart, len(frames)))
        later_first = bool(rng.integers(2))
        shown = [late, early] if later_first else [early, late]
        pictures = [_picture(frames[i], self._options.crop) for i in shown]
        said = self._ask(advice, begun, FURTHER.format(task=task), pictures, ("first", "second"))
        return None if said == "" else (said == "first") == later_first

    def _ask(
        self, advice: Advice, begun: float, text: str, pictures: list[bytes], words: Sequence[str]
    ) -> str:
        """The one of these words that the answer holds; "" without an answer."""
        options = self._options
        advice.asked += 1
        left = min(options.question_s, begun + options.episode_s - monotonic())
        try:
            if left <= 0.0:
                raise Unanswered("late")
            answer = _within(left, lambda: self._chat(text, pictures, monotonic() + left))
            self._count(advice, answer)
            return word_of(_text_of(answer), words)
        except Unanswered as error:
            advice.unanswered[str(error)] += 1
            return ""

    def _chat(self, text: str, pictures: list[bytes], until: float) -> dict[str, Any]:
        """The server's answer. One that is busy is asked again, as long as there is time."""
        wait = FIRST_WAIT_S
        while True:
            try:
                return self._post(_body(self._options.model, text, pictures), until)
            except urllib.error.HTTPError as error:
                said = self._said(error)
                if error.code not in BUSY:
                    raise ConfigError(
                        f"{self._options.address} refuses (HTTP {error.code}): {said}"
                    ) from None
                wait = max(wait, _retry_after(error))
            if monotonic() + wait >= until:
                raise Unanswered("busy")
            sleep(wait)
            wait *= 2.0

    def _post(self, body: bytes, until: float) -> dict[str, Any]:
        headers = {"Content-Type": "application/json"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        address = self._options.address.rstrip("/").removesuffix("/chat/completions")
        address += "/chat/completions"
        request = urllib.request.Request(address, body, headers)
        try:
            with self._opener.open(request, timeout=max(0.01, until - monotonic())) as reply:
                raw = reply.read(MOST_BYTES)
                if reply.length:  # announced, and not come
                    raise Unanswered("broken off")
                answer = json.loads(raw)
        except urllib.error.HTTPError:
            raise
        except TimeoutError:
            raise Unanswered("late") from None
        except urllib.error.URLError as error:
            if isinstance(error.reason, TimeoutError):
                raise Unanswered("late") from None
            if isinstance(error.reason, ConnectionResetError | BrokenPipeError):
                raise Unanswered("broken off") from None
            raise LinkError(f"nobody answers at {self._options.address}: {error.reason}") from None
        except (http.client.HTTPException, ConnectionError):
            raise Unanswered("broken off") from None
        except (ValueError, RecursionError):
            raise Unanswered("unclear") from None
        return answer if isinstance(answer, dict) else {}

    def _count(self, advice: Advice, answer: dict[str, Any]) -> None:
        usage = answer.get("usage")
        usage = usage if isinstance(usage, dict) else {}
        advice.tokens_in += _whole(usage.get("prompt_tokens"))
        advice.tokens_out += _whole(usage.get("completion_tokens"))

    def _said(self, error: urllib.error.HTTPError) -> str:
        """What a refusal says, shortly; a server may repeat the key in it, and nobody else does."""
        try:
            text = error.read(4_096).decode(errors="replace")
        except (OSError, http.client.HTTPException):
            text = ""
        text = " ".join(text.split()) or str(error.reason)
        return (text.replace(self._key, "***") if self._key else text)[:200]


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A server that sends elsewhere is not followed: the key was meant for this one."""

    def redirect_request(self, *_: Any) -> None:
        return None


def word_of(answer: str, words: Sequence[str]) -> str:
    """The one of these words that an answer holds, in prose or alone. Raises Unanswered where it
    holds none, or several; what a model thinks aloud before it is no answer."""
    said = re.sub(r"<think>.*?(</think>|$)", "", answer, flags=re.DOTALL)
    found = {word for word in re.findall(r"[a-z]+", said.lower()) if word in words}
    if len(found) != 1:
        raise Unanswered("unclear")
    return found.pop()


def _text_of(answer: dict[str, Any]) -> str:
    try:
        message = answer["choices"][0]["message"]
        if message.get("refusal"):
            raise Unanswered("refused")
        text = message["content"]
    except (KeyError, IndexError, TypeError, AttributeError):
        raise Unanswered("unclear") from None
    return text if isinstance(text, str) else ""


def _body(model: str, text: str, pictures: Sequence[bytes]) -> bytes:
    addresses = [f"data:image/png;base64,{base64.b64encode(png).decode()}" for png in pictures]
    shown = [{"type": "image_url", "image_url": {"url": address}} for address in addresses]
    message = {"role": "user", "content": [{"type": "text", "text": text}, *shown]}
    body = {"model": model, "messages": [message]}
    return json.dumps(body | {"max_tokens": MOST_TOKENS, "temperature": TEMPERATURE}).encode()


def _picture(frame: Array, crop: tuple[float, float, float, float]) -> bytes:
    """The part of a frame `(H, W, 3)` uint8 RGB that is shown, enlarged, as PNG."""
    height, width = frame.shape[:2]
    left, top = round(crop[0] * width), round(crop[1] * height)
    right, bottom = round((crop[0] + crop[2]) * width), round((crop[1] + crop[3]) * height)
    shown = frame[
        min(top, height - 1) : max(bottom, top + 1), min(left, width - 1) : max(right, left + 1)
    ]
    scale = SIDE / max(shown.shape[:2])
    if scale > 1.0:
        shown = cv2.resize(shown, None, fx=scale, fy=scale, interpolation=cv2.INTER_CUBIC)
    _, png = cv2.imencode(".png", cv2.cvtColor(shown, cv2.COLOR_RGB2BGR))
    return png.tobytes()


def _retry_after(error: urllib.error.HTTPError) -> float:
    """How long [s] the server asks to be left alone; 0 if it does not say, or not in seconds."""
    said = error.headers.get("Retry-After", "")
    return float(said) if re.fullmatch(r"\d{1,6}(\.\d+)?", said) else 0.0


def _whole(value: Any) -> int:
    return value if type(value) is int and 0 <= value < 1 << 40 else 0


def _within(limit_s: float, call: Callable[[], T]) -> T:
    """What `call` returns or raises; Unanswered behind so many seconds, whatever keeps it: a
    server may send a letter now and then for ever. Its thread is left to itself then."""
    done: queue.SimpleQueue[tuple[T | None, Exception | None]] = queue.SimpleQueue()

    def run() -> None:
        try:
            done.put((call(), None))
        except Exception as error:  # noqa: BLE001 it is raised where somebody waits
            done.put((None, error))

    threading.Thread(target=run, name="adviser", daemon=True).start()
    try:
        value, error = done.get(timeout=limit_s)
    except queue.Empty:
        raise Unanswered("late") from None
    if error is not None:
        raise error
    return value  # type: ignore[return-value]
