"""The easier sibling of `peg_insert`: the peg's tip has to be in the mouth of the socket, 2 mm deep;
judged by the simulator's truth.
"""

from dataclasses import replace

from robot_rl.config import load_task
from robot_rl.types import Use

EASY = load_task("peg_insert")
assert EASY.scene is not None

TASK = replace(
    EASY,
    name="peg_enter",
    description="put the tip of the peg into the socket",
    reward=Use("simulator"),
    near_misses=(),
    scene=Use("peg_insert", {**EASY.scene.options, "success_depth_m": 0.002}),
)
