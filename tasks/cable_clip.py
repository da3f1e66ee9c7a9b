"""Press a flexible cable into two clips: pull its end taut over both, then down."""

import math

from robot_rl.config import StartPose, Task, Wander
from robot_rl.types import Compliance, Use

BLOCK = (0.46, 0.0)  # [m] in the base frame: the middle of the places between the clips
DEGREES_5 = math.radians(5.0)

TASK = Task(
    name="cable_clip",
    description="lay the cable into both clips",
    # The end of the cable beyond the clips and above them; 20 cm reach from the post to there
    start=(
        StartPose(
            pose_base_tool=(BLOCK[0] + 0.060, BLOCK[1], 0.070, 1.0, 0.0, 0.0, 0.0),
            translation=(0.015, 0.020, 0.015),
            rotation=(DEGREES_5, DEGREES_5, DEGREES_5),
        ),
    ),
    cameras=("wrist", "front"),
    # By the block alone, seen finer than the policy sees it: 4 mm between lying on the lips and in
    # the clips are two pixels there; from above it is seen whether the cable is over them at all
    reward=Use(
        "classifier",
        {
            "name": "cable_in",
            "cameras": {"front": (256, 256), "wrist": (256, 256)},
            "crops": {"front": (0.33, 0.36, 0.45, 0.3), "wrist": (0.2, 0.2, 0.6, 0.75)},
            "size": 128,
        },
    ),
    near_misses=(
        "in one clip only",
        "on the lips of both clips",
        "taut, beside the clips",
        "the hand low, the cable slack",
    ),
    # A cable 4 mm thick; each jaw opens at 2 N
    scene=Use(
        "cable_clip",
        {
            "nominal": BLOCK,
            "range_m": 0.010,
            "range_rad": math.radians(5.0),
            "bending_nm2": 3e-4,
            "jaw_n": 2.0,
        },
    ),
    # Up, out of the clips, and about above them
    wander=Wander(way_out=(0.0, 0.0, -0.05), height=0.05, aside=0.025, rotation=(0.05, 0.05, 0.1)),
    rate_hz=10.0,
    max_steps=120,
    image_size=(128, 128),
    action_translation=0.008,
    action_rotation=0.05,
    leash_translation=0.012,
    leash_rotation=0.1,
    # The end of the rod that holds the cable, 30 mm beyond the fingertips
    pose_tcp_tool=(0.0, 0.0, 0.030, 0.0, 0.0, 0.0, 1.0),
    # As peg_insert: 20 N on each axis, which pulls the cable taut and breaks nothing
    compliance=Compliance(
        stiffness=(2000.0, 2000.0, 2000.0, 150.0, 150.0, 150.0),
        damping=(89.0, 89.0, 89.0, 7.0, 7.0, 7.0),
        error_clip=(0.01, 0.01, 0.01, 0.08, 0.08, 0.08),
        filter_time_s=0.05,
    ),
    defaults={
        # 3,400 to 3,700 are shown; behind them half of these are its own (docs/tasks.md)
        "steps": 5_000,
        # The successes that are shown for the judge are learnt from as well
        "demos": 10,
        "learner.pretrain.epochs": 16,
        # What was shown are thirty scenes: own episodes show more of them
        "learner.pretrain.renew_at": (1_500, 4_000),
    },
)
