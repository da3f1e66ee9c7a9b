"""The page in a real browser: each button pressed, the gizmo dragged, and what became of it in arm and log."""

import threading
import time

import numpy as np
import pytest

from robot_rl import geometry
from robot_rl.controllers.client import ArmClient
from robot_rl.types import ArmTarget, MarkKind, Provenance
from tests.console.desk_task import TASK, Recording, hardware_at
from tests.teleop.benches import wait_until

PATIENCE_S = 60.0  # Chromium draws in software, perhaps beside a training
SIZE = {"width": 1000, "height": 640}
AXIS_M = 0.22  # the gizmo's size on the page

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def bench(browser, start_arm, tmp_path):
    from robot_rl.console.serve import Console
    from robot_rl.console.watch import Sources

    hardware = hardware_at(start_arm("lockstep").address)
    recording = Recording(hardware, tmp_path / "demos.log", wanted=3)
    console = Console(Sources("test", hardware, TASK.scene, desk=recording.desk.address), port=0)
    stop = threading.Event()
    looking = threading.Thread(target=lambda: console.run(stop.is_set))
    looking.start()
    page = browser.new_page(viewport=SIZE)
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


def press(page, label: str) -> None:
    page.get_by_role("button", name=label).click()


def pixel_of(console, page, point) -> tuple[float, float]:
    """Where a point of the arm's base frame is on the page, by what the page says of its own camera."""
    (client,) = console.page._server.get_clients().values()
    camera = client.camera
    w, *xyz = camera.wxyz
    x, y, z = geometry.quat_to_matrix(np.array([*xyz, w])).T @ (np.asarray(point) - camera.position)
    box = page.locator("canvas").first.bounding_box()
    focal = box["height"] / 2.0 / np.tan(camera.fov / 2.0)
    return box["x"] + box["width"] / 2.0 + focal * x / z, box["y"] + box["height"] / 2.0 + focal * y / z


def drag_gizmo(console, page, arm) -> None:
    """Take the gizmo by its x arrow and pull it along; the arrow is a few pixels wide, so try along its length."""
    target = arm.refresh().target_base_tcp
    along = geometry.quat_to_matrix(target[3:])[:, 0]
    for share in (0.7, 0.8, 0.6, 0.9, 0.5, 1.0):
        start = pixel_of(console, page, target[:3] + share * AXIS_M * along)
        end = pixel_of(console, page, target[:3] + (share * AXIS_M - 0.06) * along)
        page.mouse.move(*start)
        time.sleep(0.3)
        page.mouse.down()
        time.sleep(0.3)
        for part in np.linspace(0.1, 1.0, 8):
            page.mouse.move(*(np.array(start) + part * (np.array(end) - np.array(start))))
            time.sleep(0.1)
        if console.page.said.grip is not None:
            return
        page.mouse.up()
    raise AssertionError("no drag took hold of the gizmo")


def test_buttons_and_gizmo_do_what_they_say(bench):
    recording, console, page = bench
    arm = ArmClient(hardware_address(recording))
    tally = lambda: recording.recorder.tally  # noqa: E731
    wait(lambda: recording.acts_in(0))
    status = page.locator("#robot-rl-status")
    status.get_by_text("operator", exact=True).wait_for()
    wait(lambda: len(console.page._server.get_clients()) == 1)

    # the gizmo: the arm follows it, and stays where it is let go
    before = arm.refresh().pose_base_tcp
    drag_gizmo(console, page, arm)
    wait(lambda: np.linalg.norm(arm.refresh().pose_base_tcp[:3] - before[:3]) > 0.02)
    wait(lambda: np.linalg.norm(arm.refresh().pose_base_tcp[:3] - console.page.said.grip[:3]) < 0.004)
    page.mouse.up()
    wait(lambda: recording.desk.grip is None)
    press(page, "Success / keep")
    wait(lambda: tally().successes == 1)

    # words on an attempt
    wait(lambda: recording.acts_in(1))
    press(page, "Failure")
    wait(lambda: tally().attempts == 2)
    wait(lambda: recording.acts_in(2))
    press(page, "Discard")
    wait(lambda: tally().attempts == 3)

    # paused, the last demonstration is taken back; it goes on with start
    wait(lambda: recording.acts_in(3))
    press(page, "Pause after this episode")
    press(page, "Success / keep")
    wait(lambda: tally().successes == 2)
    status.get_by_text("paused by the operator").wait_for()
    press(page, "Undo last episode")
    press(page, "Start")
    wait(lambda: recording.acts_in(4))
    press(page, "Stop (a soft stop)")
    wait(lambda: tally().attempts == 5)
    assert tally().successes == 1
    status.get_by_text("paused by the operator").wait_for()
    press(page, "Start")

    # whoever leaves in the middle of a drag has let go
    wait(lambda: recording.acts_in(5))
    drag_gizmo(console, page, arm)
    page.reload()
    wait(lambda: recording.desk.grip is None and console.page.said.grip is None)

    # a fault is shown and acknowledged
    status.get_by_text("operator", exact=True).wait_for()
    arm.command(ArmTarget(np.full(7, np.nan), 0.1))
    status.get_by_text("FAULT TARGET_NOT_FINITE").first.wait_for()
    wait(lambda: recording.facts["phase"] == "waiting")
    press(page, "Acknowledge fault")
    wait(lambda: recording.acts_in(6))
    for episode, successes in ((6, 2), (7, 3)):
        wait(lambda episode=episode: recording.acts_in(episode))
        press(page, "Success / keep")
        wait(lambda successes=successes: tally().successes == successes)
    recording.finish()
    arm.close()
    assert recording.error is None
    status.get_by_text("3 of 3").wait_for()

    steps = recording.steps()
    assert {step.provenance for step in steps} == {Provenance.DEMO}
    first = [step for step in steps if step.episode == 0]
    assert sum(np.abs(step.commanded[0]) > 0.5 for step in first) >= 3, "the drag is in the log, along the x axis"
    assert max(np.abs(step.commanded).max() for step in steps) <= 1.0 + 1e-6
    ends = {step.episode: step for step in steps}
    assert [ends[e].terminated for e in range(8)] == [True, True, False, True, False, False, True, True]
    assert [ends[e].reward for e in range(8)] == [1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 1.0]
    assert all(ends[e].truncated for e in (2, 4, 5))
    assert {(mark.kind, mark.episode) for mark in recording.marks()} == {
        (MarkKind.DISCARD, episode) for episode in (1, 2, 3, 4, 5)
    }


def hardware_address(recording: Recording) -> str:
    return recording.hardware.arms[0].address
