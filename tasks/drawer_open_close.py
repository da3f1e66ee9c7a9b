"""Open a drawer and close it, in turn, with nobody beside: the cabinet stays where it stands."""

from dataclasses import replace

from robot_rl.config import Backward, load_task
from robot_rl.types import Use

OPEN = load_task("drawer")
assert OPEN.scene is not None
(START,) = OPEN.start
X, Y, Z = START.pose_base_tool[:3]

TASK = replace(
    OPEN,
    name="drawer_open_close",
    description="open the drawer by its handle",
    scene=Use("drawer", {**OPEN.scene.options, "range_m": 0.0, "range_rad": 0.0}),
    # Off the bar, whose underside the hook's toe would catch on its way up
    retreat=(0.018, 0.0, 0.0),
    backward=Backward(
        description="close the drawer",
        # The bar has come 14 cm nearer
        start=(replace(START, pose_base_tool=(X - 0.14, Y, Z, 1.0, 0.0, 0.0, 0.0)),),
        reward=Use("classifier", {"name": "drawer_closed"}),
        near_misses=(
            "half closed",
            "the hook behind the bar, the drawer open",
            "closed but for a finger's breadth",
            "as far in as when it is closed, beside the bar",
        ),
        retreat=(-0.006, 0.0, 0.0),
        manual_reset="see that nothing is in the drawer's way, and close it",
    ),
)
