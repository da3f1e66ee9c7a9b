"""A hand at the mouse: a button of the page pressed, the gizmo taken by one of its arrows and pulled along."""

import time

import numpy as np

from robot_rl import geometry

SIZE = {"width": 1366, "height": 768}
ARROW_M = 0.22  # the gizmo's size on the page
SHARES = (0.9, 0.95, 0.85, 0.7, 0.6, 0.5)
"""Where along an arrow to take it: its head is a few pixels wide, and rings cross its shaft."""


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


def pull(console, page, arm, axis: int, by_m: float, share: float) -> bool:
    """Take the gizmo at a share of its arrow `axis` and pull it so far along; the button stays down.

    Returns whether it moved along the arrow; if it did not, it is let go.
    """
    target = arm.refresh().target_base_tcp
    along = geometry.quat_to_matrix(target[3:])[:, axis]
    start = np.array(pixel_of(console, page, target[:3] + share * ARROW_M * along))
    end = np.array(pixel_of(console, page, target[:3] + (share * ARROW_M + by_m) * along))
    page.mouse.move(*start)
    time.sleep(0.2)
    page.mouse.down()
    time.sleep(0.2)
    for part in (0.1, 0.3, 0.6, 1.0):
        page.mouse.move(*(start + part * (end - start)))
        time.sleep(0.1)
    grip = console.page.said.grip
    if grip is not None and (grip - target)[:3] @ along / by_m > 0.5:
        return True
    page.mouse.up()
    return False


def pull_gizmo(console, page, arm, axis: int, by_m: float) -> None:
    """Pull it, wherever on its arrow it may be taken."""
    assert any(pull(console, page, arm, axis, by_m, share) for share in SHARES), "nothing took hold of the gizmo"
