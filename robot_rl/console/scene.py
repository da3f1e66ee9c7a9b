"""What is drawn on the page: an arm in its scene, as viser's handles, and a camera's view with its
name.
"""

from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np
import trimesh

from robot_rl.config import ArmConfig
from robot_rl.sim.shapes import Shape
from robot_rl.types import ArmState, Array

# pixels of a view's longer side as it is sent; the browser makes it as large as there is room
CELL = 384
PLAIN = {"cast_shadow": False, "receive_shadow": False}  # a laptop without a GPU draws it, too


class ArmView:
    """One arm in the scene, standing where its hardware file says; perhaps with the gizmo at its
    target.
    """

    def __init__(self, scene: Any, arm: ArmConfig, shapes: Sequence[Shape], *, gizmo: bool):
        x, y, z, w = arm.pose_bench_base[3:]
        foot = f"/arms/{arm.name}"
        self.foot = scene.add_frame(
            foot, show_axes=False, position=arm.pose_bench_base[:3], wxyz=(w, x, y, z)
        )
        self._shapes = [
            _add_shape(scene, f"{foot}/shapes/{i}", shape) for i, shape in enumerate(shapes)
        ]
        low, high = (
            np.array(corner) for corner in (arm.limits.workspace_low, arm.limits.workspace_high)
        )
        scene.add_box(
            f"{foot}/workspace", dimensions=high - low, position=(low + high) / 2, color=(245, 166, 35), wireframe=True,
            **PLAIN,
        )  # fmt: skip
        self._target = scene.add_frame(
            f"{foot}/target", axes_length=0.06, axes_radius=0.002, visible=False
        )
        self._tool = scene.add_frame(
            f"{foot}/tool", axes_length=0.04, axes_radius=0.004, visible=False
        )
        self.gizmo = (
            scene.add_transform_controls(
                f"{foot}/gizmo", scale=0.22, depth_test=False, visible=False
            )
            if gizmo
            else None
        )
        self._placed: dict[str, tuple[float, ...]] = {}

    def show(self, arm: ArmState, poses: Array | None, *, held: bool) -> None:
        """The arm as it is now; a gizmo that is `held` stays where the hand has it."""
        for handle, pose in zip(self._shapes, poses if poses is not None else (), strict=False):
            self._place(handle, pose)
        for handle, pose in ((self._tool, arm.pose_base_tcp), (self._target, arm.target_base_tcp)):
            handle.visible = True
            self._place(handle, pose)
        if self.gizmo is not None and not held:
            self.gizmo.visible = True
            self._place(self.gizmo, arm.target_base_tcp)

    def _place(self, handle: Any, pose: Array) -> None:
        """Put it there; what is at a pose of NaN, nobody knows where, is not shown."""
        now = tuple(np.round(np.nan_to_num(pose, nan=np.inf), 5))
        if self._placed.get(handle.name) != now:
            self._placed[handle.name] = now
            handle.visible = known = bool(np.isfinite(pose).all())
            if not known:
                return
            handle.position = pose[:3]
            handle.wxyz = (pose[6], *pose[3:6])


def titled(image: Array, name: str) -> Array:
    """A camera's view with its name in it."""
    height, width = image.shape[:2]
    scale = CELL / max(height, width)
    size = max(1, round(width * scale)), max(1, round(height * scale))
    view = cv2.resize(image, size, interpolation=cv2.INTER_LINEAR)
    (width, _), _ = cv2.getTextSize(name, cv2.FONT_HERSHEY_SIMPLEX, 0.5, 1)
    view[:24, : width + 16] = 30
    cv2.putText(view, name, (8, 17), cv2.FONT_HERSHEY_SIMPLEX, 0.5, (255, 255, 255), 1, cv2.LINE_AA)
    return view


def _add_shape(scene: Any, name: str, shape: Shape) -> Any:
    a, b, c = shape.size
    if shape.kind == "box":
        return scene.add_box(name, color=shape.colour, dimensions=(2 * a, 2 * b, 2 * c), **PLAIN)
    if shape.kind == "cylinder":
        return scene.add_cylinder(
            name, radius=a, height=2 * b, color=shape.colour, radial_segments=20, **PLAIN
        )
    if shape.kind == "sphere":
        return scene.add_icosphere(name, radius=a, color=shape.colour, **PLAIN)
    mesh = trimesh.creation.capsule(height=2 * b, radius=a, count=[10, 16])
    vertices = mesh.vertices - mesh.bounds.mean(axis=0)
    return scene.add_mesh_simple(name, vertices, mesh.faces, color=shape.colour, **PLAIN)
