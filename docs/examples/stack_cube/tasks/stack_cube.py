"""Stack a cube of 40 mm on a block."""

from robot_rl.config import StartPose, Task
from robot_rl.types import Use

TASK = Task(
    name="stack_cube",
    description="pick up the cube and put it down on the block",
    start=(
        StartPose(
            (0.5, 0.0, 0.2, 1.0, 0.0, 0.0, 0.0),
            translation=(0.05, 0.05, 0.03),
            rotation=(0.0, 0.0, 0.3),
        ),
    ),
    cameras=("wrist", "front"),
    reward=Use("classifier", {"name": "cube_stacked"}),
    near_misses=(
        "the cube held over the block, not put down",
        "the cube on the block, the fingers still around it",
        "the cube on the table beside the block, the hand open",
    ),
    scene=Use("stack_cube"),
    max_steps=200,
    action_translation=0.008,
    action_rotation=0.05,
    observe_place=True,
    axes=("x", "y", "z", "rz"),
    grippers=("moved",),
    leash_translation=0.012,
    leash_rotation=0.1,
    defaults={"hardware": "sim_hand"},
)
