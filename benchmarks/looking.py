"""A console beside a measurement, and somebody who looks at its page: `python -m benchmarks.looking
URL WHO`.

`viewer` receives all that a browser would, and draws nothing: the browser is on another machine, as
it should be. `chromium` draws the page in software, on the cores that are measured.
"""

import http.client
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import tyro

Who = Literal["viewer", "chromium"]
READY = "looks at it"
SETTLE_MS = 3_000.0  # a page has come up


def look(url: tyro.conf.Positional[str], who: tyro.conf.Positional[Who]) -> None:
    """Look at a console's page until somebody ends this process."""
    (_receive if who == "viewer" else _draw)(url)


def _receive(url: str) -> None:
    import viser
    from websockets import Subprotocol
    from websockets.sync.client import connect

    spoken, (address, cookie) = Subprotocol(f"viser-v{viser.__version__}"), _come_in(url)
    with connect(
        address, subprotocols=[spoken], additional_headers={"Cookie": cookie}, max_size=None
    ) as page:
        page.recv()
        print(READY, flush=True)
        for _ in page:
            pass


def _come_in(url: str) -> tuple[str, str]:
    """The address of the page's websocket, and the cookie for it, from the link with the token."""
    door = http.client.HTTPConnection(urlsplit(url).netloc)
    door.request("GET", f"/?{urlsplit(url).query}")
    fields = door.getresponse().headers
    door.close()
    return f"ws://{urlsplit(url).netloc}{fields['Location']}", fields["Set-Cookie"].partition(";")[
        0
    ]


def _draw(url: str) -> None:
    from playwright.sync_api import sync_playwright

    flags = ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
    with sync_playwright() as playwright:
        page = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=flags
        ).new_page()
        page.goto(url)
        page.locator("#robot-rl-status").wait_for()
        page.wait_for_timeout(SETTLE_MS)
        print(READY, flush=True)
        page.wait_for_timeout(1e9)


@contextmanager
def console_beside(run: Path, who: Who) -> Iterator[int]:
    """The console of a run, and somebody who looks; yields the console's process id. Neither has
    real-time priority.
    """
    console = _started(["robot_rl", "console", str(run), "--port", "0"])
    try:
        url = re.search(r"http://\S+", _line(console))
        assert url is not None, "the console has not said where it is"
        looking = _started(["benchmarks.looking", url[0], who])
        try:
            assert READY in _line(looking), "nobody looks"
            yield console.pid
        finally:
            _end(looking)
    finally:
        _end(console)


def cpu_s(pid: int) -> float:
    """The processor time [s] that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _started(module: Sequence[str]) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", *module],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0)),
    )


def _line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def _end(process: "subprocess.Popen[str]") -> None:
    os.killpg(process.pid, 15)
    process.wait(20)


if __name__ == "__main__":
    tyro.cli(look)
