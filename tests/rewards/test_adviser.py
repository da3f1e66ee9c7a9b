"""An adviser that sees and reads: what it makes of a server's answers, and of a server that gives
none. The server here speaks the protocol, and looks at the pictures.
"""

import base64
import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from robot_rl import cli
from robot_rl.config.run_folder import RunFolder
from robot_rl.config.run_settings import RunSettings
from robot_rl.rewards import _vlm
from robot_rl.rewards._adviser_options import AdviserOptions
from robot_rl.rewards._vlm import Adviser, Unanswered, word_of
from robot_rl.stream.log import StepLog
from robot_rl.types import Array, ConfigError, LinkError, Mark, MarkKind, Provenance, RecordId
from tests.helpers import SPACE, make_step

KEY = "sk-a-key-that-nobody-may-see"
BRIGHT = 200


def reply(text: Any, **usage: Any) -> dict[str, Any]:
    usage = usage or {"prompt_tokens": 100, "completion_tokens": 2}
    return {"choices": [{"message": {"role": "assistant", "content": text}}], "usage": usage}


def pictures(asked: dict[str, Any]) -> list[Any]:
    content = asked["messages"][0]["content"]
    addresses = [each["image_url"]["url"] for each in content if each["type"] == "image_url"]
    raw = [base64.b64decode(a.removeprefix("data:image/png;base64,")) for a in addresses]
    return [cv2.imdecode(np.frombuffer(png, np.uint8), cv2.IMREAD_COLOR) for png in raw]


def sees(asked: dict[str, Any]) -> dict[str, Any]:
    """A model with eyes: bright is done, and the brighter one is further."""
    shown = [float(picture.mean()) for picture in pictures(asked)]
    if "first or second" in asked["messages"][0]["content"][0]["text"]:
        return reply("first" if shown[0] > shown[1] else "second")
    return reply("Yes." if shown[-1] > BRIGHT else "No.")


class Server:
    """Answers as `answer` says: with JSON, with bytes, with (status, headers, text), or by dying."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.answer: Callable[[dict[str, Any]], Any] = sees
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                server.asked.append(body | {"path": self.path})
                server.keys.append(self.headers["Authorization"])
                server.send(self, server.answer(body))

            def log_message(self, *_: Any) -> None: ...

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._http.server_port}/v1"
        threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True).start()

    @staticmethod
    def send(handler: BaseHTTPRequestHandler, said: Any) -> None:
        status, headers, text = said if isinstance(said, tuple) else (200, {}, said)
        if text is None:  # dies in the middle of its answer
            handler.send_response(200)
            handler.send_header("Content-Length", "1000")
            handler.end_headers()
            handler.wfile.write(b'{"choices": [')
            return
        raw = text if isinstance(text, bytes) else json.dumps(text).encode()
        handler.send_response(status)
        for name, value in {"Content-Length": str(len(raw)), **headers}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(raw)

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


def episode(last: int, length: int = 12) -> Array:
    """Frames that grow brighter up to `last`."""
    levels = np.linspace(10, last, length).astype(np.uint8)
    return np.tile(levels[:, None, None, None], (1, 8, 10, 3))


def ask(server: Server, frames: Array, key: str = "", **changes: Any) -> Any:
    options = AdviserOptions(server.address, "eyes", **changes)
    return Adviser(options, key).advise(frames, "fill the {cup}", seed=1)


def test_it_sees_success_and_progress_in_whatever_order_the_pair_is_shown(server: Server) -> None:
    advice = ask(server, episode(250), pairs=8)
    assert (advice.vote, advice.confidence, advice.further) == ("success", 1.0, 1.0)
    assert (advice.tokens_in, advice.tokens_out, advice.asked) == (1_100, 22, 11)
    assert ask(server, episode(250)[::-1], pairs=8).further == 0.0, "the pictures decide"
    assert ask(server, episode(150)).vote == "failure"
    pairs = [pictures(each) for each in server.asked if len(pictures(each)) == 2]
    assert {a.mean() > b.mean() for a, b in pairs[:8]} == {True, False}, "the order is shuffled"
    asked = server.asked[0]
    assert asked["model"] == "eyes" and asked["path"] == "/v1/chat/completions"
    assert "fill the {cup}" in asked["messages"][0]["content"][0]["text"]
    assert len(pictures(asked)) == 3 and pictures(asked)[0].shape[:2] == (358, 448)


def test_what_is_shown_is_the_crop(server: Server) -> None:
    frames = episode(100)
    frames[:, :4, 5:] = 255
    ask(server, frames, crop=(0.5, 0.0, 0.5, 0.5), pairs=0)
    assert pictures(server.asked[0])[-1].min() == 255
    ask(server, frames, crop=(0.999, 0.999, 0.001, 0.001), pairs=0)  # a pixel at least


def test_the_votes_that_were_asked_decide_and_silence_is_none(server: Server) -> None:
    said = iter(["yes", "hm", "yes", "no", "hm", "hm"])
    server.answer = lambda _: reply(next(said))
    advice = ask(server, episode(9), pairs=0)
    assert (advice.vote, advice.confidence) == ("success", pytest.approx(2 / 3))
    advice = ask(server, episode(9), pairs=0)
    assert (advice.vote, advice.confidence) == ("unsure", 0.0), "one of three is no majority"
    assert advice.unanswered == {"unclear": 2}


@pytest.mark.parametrize(
    ("answer", "word"),
    [
        ("Yes", "yes"),
        ("**NO**.", "no"),
        ("The peg stands beside the hole, so no.", "no"),
        ("<think>yes or no? yes</think> No", "no"),
        ("<think>It may be a yes", ""),
        ("Yes and no", ""),
        ("Nothing can be seen, yesterday perhaps", ""),
        ("", ""),
    ],
)
def test_an_answer_in_prose_holds_one_of_the_words_or_is_none(answer: str, word: str) -> None:
    if word:
        assert word_of(answer, ("yes", "no")) == word
        return
    with pytest.raises(Unanswered, match="unclear"):
        word_of(answer, ("yes", "no"))


MALFORMED = [
    b"<html>Bad gateway</html>",
    b'{"choices": [',
    b"[" * 100_000,
    {},
    [],
    {"choices": []},
    {"choices": [{"message": "yes"}]},
    {"choices": None},
    reply(None),
    reply([{"type": "text", "text": "yes"}]),
    reply(7, prompt_tokens="many"),
    {"choices": [{"message": {"content": "yes", "refusal": "I cannot help with that"}}]},
]


@pytest.mark.parametrize("answer", MALFORMED, ids=range(len(MALFORMED)))
def test_no_answer_of_a_server_breaks_it(answer: Any, server: Server) -> None:
    server.answer = lambda _: answer
    advice = ask(server, episode(9))
    assert advice.vote == "unsure" and sum(advice.unanswered.values()) == advice.asked == 6
    assert set(advice.unanswered) <= {"unclear", "refused"}


def test_a_server_that_dies_in_the_middle(server: Server) -> None:
    server.answer = lambda asked: None if len(server.asked) == 1 else sees(asked)
    advice = ask(server, episode(250), pairs=0)
    assert (advice.vote, dict(advice.unanswered)) == ("success", {"broken off": 1})
    server.answer = lambda _: None
    with pytest.raises(LinkError, match="none of 3 questions"):
        ask(server, episode(250), pairs=0)
    server.close()
    with pytest.raises(LinkError, match="nobody answers"):
        ask(server, episode(250), pairs=0)


def test_a_busy_server_is_asked_again_when_it_says(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(_vlm, "sleep", slept.append)
    busy = iter([(429, {"Retry-After": "3"}, b"slow down"), (503, {}, b"")])
    server.answer = lambda asked: next(busy, None) or sees(asked)
    assert ask(server, episode(250), votes=1, pairs=0).vote == "success"
    assert slept == [3.0, 6.0]
    server.answer = lambda _: (429, {"Retry-After": "3600"}, b"")
    with pytest.raises(LinkError, match="1 busy"):
        ask(server, episode(250), votes=1, pairs=0)
    assert len(slept) == 2, "it does not wait for longer than a question may take"


@pytest.mark.parametrize("how", ["silent", "letter by letter"])
def test_a_slow_answer_costs_no_more_than_its_time(how: str, server: Server) -> None:
    free = threading.Event()

    def dribble(handler: BaseHTTPRequestHandler, _: Any) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "100000")
        handler.end_headers()
        with contextlib.suppress(OSError):  # nobody reads it to its end
            while not free.wait(0.01 if how != "silent" else 60.0):
                handler.wfile.write(b" ")

    server.send = dribble  # type: ignore
    with pytest.raises(LinkError, match="3 late"):
        ask(server, episode(9), pairs=0, question_s=0.2, episode_s=0.3)
    assert len(server.asked) <= 2, "there was no time left for the third"
    free.set()


@pytest.mark.parametrize("status", [400, 401, 404, 302])
def test_a_refusal_ends_it_and_never_shows_the_key(status: int, server: Server) -> None:
    elsewhere = {"Location": server.address + "/elsewhere"}
    server.answer = lambda _: (status, elsewhere, f"wrong key {KEY}".encode())
    with pytest.raises(ConfigError) as refused:
        ask(server, episode(9), key=KEY)
    assert str(status) in str(refused.value) and "wrong key ***" in str(refused.value)
    assert refused.value.__cause__ is None and KEY not in repr(refused.value)
    assert server.keys == [f"Bearer {KEY}"], "it is not sent on"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"address": "file:///etc/passwd"}, "wanted http"),
        ({"address": "https://me:secret@host/v1"}, "no key or password"),
        ({"address": "http://far.away/v1", "key_variable": "KEY"}, "for all to read"),
        ({"model": ""}, "--model"),
        ({"votes": 0}, "at least 1"),
        ({"question_s": 0.0}, "more than 0"),
        ({"episode_s": float("nan")}, "more than 0"),
        ({"crop": (0.5, 0.0, 0.6, 1.0)}, "shares"),
        ({"crop": (0.0, 0.0, 0.0, 1.0)}, "shares"),
        ({"price_in": -1.0}, "prices"),
    ],
)
def test_options_that_make_no_sense(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        replace(AdviserOptions("https://host/v1", "eyes"), **changes)


# ------------------------------------------------------------------------------------------ the verb


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """A run of four episodes: two judged successes, of which one is none to be seen, and two
    failures, of which the operator has called one a success, as it looks; and one that is open.
    """
    monkeypatch.setenv("COLUMNS", "120")
    folder = RunFolder.create(tmp_path / "run", {"run": RunSettings("peg_insert", "sim_panda")})
    with StepLog(folder.steps_log, SPACE) as log:
        seq = 0
        for number, (success, bright) in enumerate([(1, 250), (1, 90), (0, 90), (0, 250)]):
            for index, level in enumerate(np.linspace(10, bright, 5).astype(np.uint8)):
                last = index == 4
                seen = make_step(index, episode=number).observation
                frame = np.full_like(seen["image/wrist"], level)
                step = make_step(
                    index, episode=number, observation={**seen, "image/wrist": frame},
                    reward=float(last and success), terminated=last and success == 1,
                    success=last and success == 1, truncated=last and not success,
                    provenance=Provenance.POLICY, t_wall=float(seq),
                )  # fmt: skip
                log.append_step(step, RecordId("actor", 2, seq))
                seq += 1
        log.append_mark(Mark(MarkKind.SUCCESS, 3, reward=1.0), RecordId("actor", 2, seq))
        log.append_step(make_step(0, episode=9, truncated=False), RecordId("actor", 2, seq + 1))
    return folder


def line(run: RunFolder, server: Server, *more: str) -> list[str]:
    where = ["reward", "advise", str(run.path), "--address", server.address, "--model", "eyes"]
    return [*where, *more]


def test_the_verb_asks_about_each_episode_once_and_says_where_it_agrees(
    run: RunFolder, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    before = run.steps_log.read_bytes()
    assert cli.main(line(run, server, "--episodes", "1", "--json")) == 0
    (first,) = json.loads(capsys.readouterr().out)["episodes"]
    assert first["episode"].endswith("/3"), "the newest that is over"
    assert cli.main(line(run, server, "--json", "--price-in", "2.0")) == 0
    said = json.loads(capsys.readouterr().out)
    assert [row["vote"] for row in said["episodes"]] == [
        "success", "success", "failure", "failure",
    ]  # fmt: skip
    judge, operator = said["agreement"]["judge"], said["agreement"]["operator"]
    assert (judge["successes_right"], judge["failures_right"], judge["balanced"]) == (0.5, 0.5, 0.5)
    assert (operator["episodes"], operator["balanced"]) == (1, None)
    doubts = {row["episode"][-1]: row["doubt"] for row in said["episodes"]}
    assert doubts == {"0": "", "1": "judge: success", "2": "", "3": ""}
    assert said["tokens_in"] == 4 * 6 * 100
    assert said["cost"] == pytest.approx(3 * 600 * 2e-6), "of those that were asked with a price"
    questions = len(server.asked)
    assert cli.main(line(run, server)) == 0
    assert len(server.asked) == questions, "nothing is asked twice"
    shown = capsys.readouterr().out
    assert "balanced" in shown and "2400 tokens in" in shown and "data show" in shown
    rows = [json.loads(row) for row in (run.path / "advice.jsonl").read_text().splitlines()]
    assert len(rows) == 4 and run.steps_log.read_bytes() == before


def test_what_was_said_stays_when_the_server_goes_away(
    run: RunFolder, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    server.answer = lambda asked: sees(asked) if len(server.asked) <= 8 else None
    assert cli.main(line(run, server)) != 0
    shown = capsys.readouterr().err
    assert "the same line again goes on" in shown and "Traceback" not in shown
    assert len((run.path / "advice.jsonl").read_text().splitlines()) == 2, "two answers were given"
    server.answer = sees
    assert cli.main(line(run, server, "--json")) == 0
    assert len(json.loads(capsys.readouterr().out)["episodes"]) == 4


def test_the_key_comes_from_the_environment_and_stays_there(
    run: RunFolder,
    server: Server,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    assert cli.main(line(run, server, "--key-variable", "MY_KEY", "--json")) == 0
    assert set(server.keys) == {f"Bearer {KEY}"}
    written = [path.read_bytes() for path in run.path.rglob("*") if path.is_file()]
    shown = capsys.readouterr()
    assert KEY not in shown.out + shown.err and all(KEY.encode() not in each for each in written)
    for value, said in (("", "not set"), ("sk\nHost: other", "no key")):
        monkeypatch.setenv("MY_KEY", value)
        assert cli.main(line(run, server, "--key-variable", "MY_KEY")) == 2
        assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "said"), [(["--camera", "front"], "one of wrist"), (["--votes", "0"], "at least 1")]
)
def test_mistakes_of_the_line_are_told(
    more: list[str],
    said: str,
    run: RunFolder,
    server: Server,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main(line(run, server, *more)) == 2
    assert said in " ".join(capsys.readouterr().err.split())
    assert not server.asked


def test_damaged_rows_are_passed_over(
    run: RunFolder, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = ['{"episode": 3, "model": "eyes"', '{"model": "eyes", "vote": "success"}', "[]"]
    (run.path / "advice.jsonl").write_text("\n".join(bad))
    assert cli.main(line(run, server, "--json")) == 0
    assert len(json.loads(capsys.readouterr().out)["episodes"]) == 4
