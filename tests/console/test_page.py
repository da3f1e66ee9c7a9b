"""The page in a real browser: each button pressed, the gizmo dragged, and what became of it in arm
and log.
"""

import threading

import numpy as np
import pytest

from robot_rl.controllers.client import ArmClient
from robot_rl.types import MarkKind, Provenance
from tests.console.desk_task import TASK, Recording, hardware_at
from tests.console.mouse import SIZE, press, pull_gizmo
from tests.teleop.benches import wait_until

PATIENCE_S = 60.0  # Chromium draws in software, perhaps beside a training
X = 0

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def bench(browser, lockstep_arm, tmp_path):
    from robot_rl.console.model import Sources
    from robot_rl.console.serve import Console

    hardware = hardware_at(lockstep_arm)
    recording = Recording(hardware, tmp_path / "demos.log", wanted=3)
    console = Console(Sources("test", hardware, TASK, desk=recording.desk.address), port=0)
    stop = threading.Event()
    looking = threading.Thread(target=lambda: console.run(stop.is_set))
    looking.start()
    page = browser.new_page(viewport=SIZE, device_scale_factor=0.5)
    page.set_default_timeout(1e3 * PATIENCE_S)
    page.goto(console.url)
    yield recording, console, page
    page.close()
    stop.set()
    looking.join(20.0)
    console.close()
    recording.close()


def wait(true) -> None:
    wait_until(true, timeout_s=PATIENCE_S)


def test_buttons_and_gizmo_do_what_they_say(bench):
    recording, console, page = bench
    arm = ArmClient(hardware_address(recording))
    tally = lambda: recording.recorder.tally  # noqa: E731
    wait(lambda: recording.acts_in(0))
    status = page.locator("#robot-rl-status")
    status.get_by_text("waits for the operator", exact=True).wait_for()
    wait(lambda: len(console.page._server.get_clients()) == 1)

    # the gizmo: the arm follows it, and stays where it is let go
    before = arm.refresh().pose_base_tcp
    pull_gizmo(console, page, arm, X, by_m=-0.06)
    wait(lambda: np.linalg.norm(arm.refresh().pose_base_tcp[:3] - before[:3]) > 0.02)
    wait(
        lambda: np.linalg.norm(arm.refresh().pose_base_tcp[:3] - console.page.said.grip[:3]) < 0.004
    )
    page.mouse.up()
    wait(lambda: recording.desk.grip is None)
    press(page, "Success / keep")
    wait(lambda: tally().successes == 1)

    # words on an attempt
    wait(lambda: recording.acts_in(1))
    page.keyboard.press("f")
    wait(lambda: recording.acts_in(2))
    page.keyboard.press("d")
    wait(lambda: recording.acts_in(3))

    # paused, the last demonstration is taken back; it goes on with start
    press(page, "Pause after this episode")
    press(page, "Success / keep")
    wait(lambda: tally().successes == 2)
    status.get_by_text("paused by the operator").wait_for()
    page.keyboard.press("u")
    page.locator("#robot-rl-note").get_by_text("undo: heard").wait_for()
    press(page, "Start")
    wait(lambda: recording.acts_in(4))
    page.keyboard.press("Space")  # Start has the focus: it is not pressed as well
    status.get_by_text("stopped by the operator").wait_for()
    assert (tally().successes, tally().attempts) == (1, 5)
    press(page, "Start")

    # whoever leaves in the middle of a drag has let go
    wait(lambda: recording.acts_in(5))
    pull_gizmo(console, page, arm, X, by_m=-0.06)
    page.reload()
    wait(lambda: recording.desk.grip is None and console.page.said.grip is None)

    # a fault is shown and acknowledged
    status.get_by_text("waits for the operator", exact=True).wait_for()
    recording.upset.set()
    status.get_by_text("FAULT TARGET_NOT_FINITE").first.wait_for()
    wait(lambda: recording.facts["phase"] == "waiting")
    press(page, "Acknowledge fault")
    wait(lambda: recording.acts_in(6))
    for episode, successes in ((6, 2), (7, 3)):
        wait(lambda episode=episode: recording.acts_in(episode))
        if episode == 7:
            page.keyboard.press("s")
        else:
            press(page, "Success / keep")
        wait(lambda successes=successes: tally().successes == successes)
    recording.finish()
    arm.close()
    assert recording.error is None
    status.get_by_text("3 of 3").wait_for()

    steps = recording.steps()
    assert {step.provenance for step in steps} == {Provenance.DEMO}
    first = [step for step in steps if step.episode == 0]
    assert sum(np.abs(step.commanded[0]) > 0.5 for step in first) >= 3, (
        "the drag is in the log, along the x axis"
    )
    assert max(np.abs(step.commanded).max() for step in steps) <= 1.0 + 1e-6
    ends = {step.episode: step for step in steps}
    assert [ends[e].terminated for e in range(8)] == [
        True,
        True,
        False,
        True,
        False,
        False,
        True,
        True,
    ]
    assert [ends[e].reward for e in range(8)] == [1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 1.0]
    assert all(ends[e].truncated for e in (2, 4, 5))
    assert {(mark.kind, mark.episode) for mark in recording.marks()} == {
        (MarkKind.DISCARD, episode) for episode in (1, 2, 3, 4, 5)
    }


def hardware_address(recording: Recording) -> str:
    return recording.hardware.arms[0].address
