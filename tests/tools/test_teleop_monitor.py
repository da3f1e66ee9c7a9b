"""The dry run: what the operator does stands in the terminal, and no arm is connected."""

import os
import pty
import re
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from robot_rl import config
from robot_rl.links.console_link import ConsoleLinkClient
from robot_rl.tools.check import check
from robot_rl.tools.teleop_monitor import DryRun, bar, picture, watch
from robot_rl.types import DeviceError, OperatorCommand, Use
from tests.helpers import wait_until
from tests.teleop.benches import Display, SpaceMouseBench
from tests.teleop.conftest import start_display as start_display

HARDWARE = replace(config.load_hardware("sim_panda"), teleop=Use("spacemouse", {"release_s": 0.0}))


@pytest.fixture
def bench(monkeypatch):
    return SpaceMouseBench(monkeypatch)


@pytest.fixture
def dry(bench):
    dry = DryRun(HARDWARE)
    yield dry
    dry.operator.close()


def text_of(dry: DryRun) -> str:
    console = Console(file=StringIO(), width=120, record=True)
    console.print(picture(dry))
    return console.export_text()


def test_the_picture_shows_axes_clutch_word_and_loss(bench, dry):
    dry.look()
    assert "policy acts" in text_of(dry) and "held: nothing" in text_of(dry)
    bench.hold()
    bench.press_success()
    until_says_so(dry, lambda: dry.word == OperatorCommand.SUCCESS and dry.reading.engaged)
    shown = text_of(dry)
    assert re.search(r"^ *x .*━{20} +\+1\.00 .*━{20} +\+1\.00", shown, re.MULTILINE)
    assert "operator acts" in shown and "held: button 0" in shown and "said: success" in shown
    bench.let_go()
    until_says_so(dry, lambda: not dry.reading.engaged)
    bench.hold()
    until_says_so(dry, lambda: dry.reading.engaged)
    assert dry.takeovers == 2 and dry.rate_hz > 0.0
    bench.unplug()
    until_says_so(dry, lambda: dry.said.problem)
    assert "SpaceMouse Compact (256f:c635) at /dev/hidraw0 is gone" in " ".join(
        text_of(dry).split()
    )


def until_says_so(dry, true):
    wait_until(lambda: dry.look() or true())


def test_without_a_terminal_each_change_is_a_line(bench):
    said = StringIO()
    hand = threading.Timer(0.1, bench.hold)
    hand.start()
    watch(HARDWARE, 0.6, Console(file=said, width=200))
    hand.join()
    found, legend, first, then, summary = said.getvalue().splitlines()
    assert found == "SpaceMouse Compact (256f:c635) at /dev/hidraw0"
    assert legend == "button 0: success, button 1: failure"
    assert first.startswith("policy ") and then.startswith("operator") and "x +1.00" in then
    assert summary == "1 takeovers, 1 reports"


def test_an_absent_device_is_an_error(bench):
    bench.unplug()
    with pytest.raises(DeviceError, match="no SpaceMouse is plugged in"):
        DryRun(HARDWARE)


def test_robot_rl_check_looks_for_the_device(bench):
    bare = replace(HARDWARE, arms=(), cameras=())

    def finding():
        (finding,) = [finding for finding in check(bare) if finding.part == "teleop"]
        return finding

    assert finding().right and finding().found == "SpaceMouse Compact (256f:c635) at /dev/hidraw0"
    bench.unplug()
    assert not finding().right and "no SpaceMouse is plugged in" in finding().advice


@pytest.mark.parametrize("share", [-1.0, -0.5, 0.0, 0.26, 1.0])
def test_a_bar_has_its_middle_where_nothing_is_deflected(share):
    text = bar(share).plain
    assert len(text) == 41 and text[20] == "│"
    assert text.count("━") == round(20 * abs(share)) and (share >= 0.0 or text[19] == "━")


def test_the_verb_draws_in_a_real_terminal_what_is_typed_on_a_real_display(start_display, tmp_path):
    """`robot-rl teleop` as a person starts it: its own process, a terminal, the keyboard."""
    display: Display = start_display()
    (tmp_path / "hardware_configs").mkdir()
    bench = Path(config.PACKAGE.parent / "hardware_configs/sim_panda.yaml").read_text()
    (tmp_path / "hardware_configs/desk.yaml").write_text(
        bench.replace("name: scripted", "name: keyboard")
    )
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "robot_rl", "teleop", "desk", "--seconds", "20"]
    process = subprocess.Popen(
        command,
        cwd=tmp_path,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm"},
    )
    os.close(theirs)
    screen = b""

    def read_until(words: bytes) -> None:
        nonlocal screen
        while words not in screen:
            screen += os.read(ours, 65536)

    read_until(b"policy acts")
    display.press("space")
    display.press("w")
    read_until(b"operator acts")
    display.tap("F9")
    read_until(b"said: discard")
    process.send_signal(2)
    with suppress(OSError):
        while chunk := os.read(ours, 65536):
            screen += chunk
    assert process.wait(10) == 0
    os.close(ours)
    assert b"keyboard at display" in screen and b"1 takeovers" in screen


def test_the_buttons_of_the_page_for_hands_are_tried_as_any_device_s():
    bench = replace(
        config.load_hardware("sim_hand"),
        teleop=Use("browser", {"address": "local://tried-buttons"}),
    )
    dry = DryRun(bench)
    page = ConsoleLinkClient("local://tried-buttons")
    for button, choice in (("close", -1.0), ("open", 1.0)):
        page.press("hand", button)
        until_says_so(dry, lambda choice=choice: dry.said.gripper == choice)
        until_says_so(dry, lambda: dry.said.gripper == 0.0)
    page.close()
    dry.operator.close()
