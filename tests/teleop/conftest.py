"""Devices to test with: real drivers and libraries, and below them what the test can pull out and
plug in again.
"""

from collections.abc import Callable, Iterator

import pytest

from tests.teleop import benches
from tests.teleop.benches import Bench, Display


@pytest.fixture
def start_display(monkeypatch) -> Iterator[Callable[..., Display]]:
    """`start_display()` starts a display that nobody sees and makes it this process's."""
    benches.require_display()
    started: list[Display] = []

    def start(name: str = "") -> Display:
        started.append(Display(name))
        monkeypatch.setenv("DISPLAY", started[-1].name)
        return started[-1]

    yield start
    for display in started:
        display.stop()


@pytest.fixture(params=["spacemouse", "keyboard", "gamepad"])
def bench(request, monkeypatch, tmp_path) -> Iterator[Bench]:
    """One of the devices, plugged in."""
    if request.param == "spacemouse":
        yield benches.SpaceMouseBench(monkeypatch)
    elif request.param == "keyboard":
        yield benches.KeyboardBench(request.getfixturevalue("start_display"))
    else:
        yield from benches.GamepadBench.on(monkeypatch, tmp_path)
