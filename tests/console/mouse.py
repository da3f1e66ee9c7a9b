"""A hand at the mouse: a button of the page pressed, the gizmo taken by one of its arrows and
pulled along.
"""

import time
from collections.abc import Callable

import numpy as np

from robot_rl import geometry
from robot_rl.console.page import EYE, LOOK_AT

SIZE = {"width": 1366, "height": 768}
ARROW_M = 0.22  # the gizmo's size on the page
SHARES = (0.9, 0.95, 0.85, 0.7, 0.6, 0.5)
"""Where along an arrow to take it: its head is a few pixels wide, and rings cross its shaft."""


def press(page, label: str) -> None:
    page.get_by_role("button", name=label).click()


def client_of(console):
    """The page's connection, as soon as it has told where it looks from: its texts stand there before."""
    assert comes_true(lambda: len(console.page._server.get_clients()) == 1, timeout_s=60.0)
    (client,) = console.page._server.get_clients().values()
    return client


def pixel_of(console, page, point) -> tuple[float, float]:
    """Where a point of the arm's base frame is on the page, by what the page says of its own
    camera.
    """
    camera = client_of(console).camera
    w, *xyz = camera.wxyz
    x, y, z = geometry.quat_to_matrix(np.array([*xyz, w])).T @ (np.asarray(point) - camera.position)
    box = page.locator("canvas").first.bounding_box()
    focal = box["height"] / 2.0 / np.tan(camera.fov / 2.0)
    return box["x"] + box["width"] / 2.0 + focal * x / z, box["y"] + box[
        "height"
    ] / 2.0 + focal * y / z


def along_arrow(pose, axis: int, by_m: float):
    """The point `(3,)` so far along the arrow `axis` of a gizmo at a pose `(7,)`."""
    return pose[:3] + by_m * geometry.quat_to_matrix(pose[3:])[:, axis]


def drag(console, page, start, end) -> None:
    """Move the mouse from over one point of the arm's base frame to over another."""
    start, end = (np.array(pixel_of(console, page, point)) for point in (start, end))
    for part in (0.1, 0.3, 0.6, 1.0):
        page.mouse.move(*(start + part * (end - start)))
        drawn(page)


def drawn(page) -> None:
    """Wait until the page has drawn what the mouse did."""
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def pull(console, page, arm, axis: int, by_m: float, share: float) -> bool:
    """Take the gizmo at a share of its arrow `axis` and pull it so far along; the button stays
    down.

    Returns whether it moved along the arrow; if it did not, it is let go, and a view that was
    turned is turned back.
    """
    client = client_of(console)
    eye = client.camera.position.copy()
    target = arm.refresh().target_base_tcp
    start, end = (along_arrow(target, axis, share * ARROW_M + further) for further in (0.0, by_m))
    page.mouse.move(*pixel_of(console, page, start))
    drawn(page)
    page.mouse.down()
    drawn(page)
    drag(console, page, start, end)

    def follows() -> bool:
        grip = console.page.said.grip
        return grip is not None and (grip - target)[:3] @ (end - start) > 0.5 * by_m**2

    def turned() -> bool:
        return not np.allclose(client.camera.position, eye, atol=1e-3)

    comes_true(lambda: follows() or turned(), timeout_s=30.0)
    if follows():
        return True
    page.mouse.up()
    comes_true(lambda: console.page.said.grip is None, timeout_s=10.0)
    client.camera.position, client.camera.look_at = EYE, LOOK_AT
    comes_true(lambda: not turned(), timeout_s=10.0)
    return False


def pull_gizmo(console, page, arm, axis: int, by_m: float) -> float:
    """Pull it, wherever on its arrow it may be taken; returns at which share of it that was."""
    for share in SHARES:
        if pull(console, page, arm, axis, by_m, share):
            return share
    raise AssertionError("nothing took hold of the gizmo")


def pull_on(console, page, axis: int, by_m: float, share: float) -> None:
    """Pull the gizmo, which is held at a share of its arrow, further along."""
    grip = console.page.said.grip
    start, end = (along_arrow(grip, axis, share * ARROW_M + further) for further in (0.0, by_m))
    drag(console, page, start, end)


def comes_true(true: Callable[[], object], timeout_s: float) -> bool:
    """Whether it does so soon. It is asked rarely, for a browser that draws in software needs the
    processor.
    """
    until = time.monotonic() + timeout_s
    while not (said := true()) and time.monotonic() < until:
        time.sleep(0.1)
    return bool(said)
