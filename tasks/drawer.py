"""Open a drawer by 15 cm: lower a hook behind its bar handle, and pull."""

import math

from robot_rl.config import StartPose, Task
from robot_rl.types import Compliance, Use

FRONT = (0.60, 0.0)  # [m] in the base frame: the middle of the places of the drawer's front
DEGREES_5 = math.radians(5.0)

TASK = Task(
    name="drawer",
    description="open the drawer by its handle, all the way",
    # Before and above the bar, which is 40 mm before the front and 50 mm high
    start=(
        StartPose(
            pose_base_tool=(FRONT[0] - 0.07, FRONT[1], 0.125, 1.0, 0.0, 0.0, 0.0),
            translation=(0.020, 0.020, 0.015),
            rotation=(DEGREES_5, DEGREES_5, DEGREES_5),
        ),
    ),
    cameras=("wrist", "front"),
    # By the front camera without the empty half of the table: the wrist's moves with the drawer. Where
    # the hook pulls against the end of the slides: these take 7 N, and of the last centimetre
    # pictures show little
    reward=Use(
        "classifier",
        {
            "name": "drawer_open",
            "cameras": {"front": (128, 128)},
            "crops": {"front": (0.0, 0.25, 0.65, 0.6)},
            "force_above": 9.5,
        },
    ),
    near_misses=(
        "half open",
        "the hook behind the bar, the drawer closed",
        "the hook over the bar",
        "as far out as when it is open, beside the bar",
    ),
    scene=Use(
        "drawer",
        {
            "nominal": FRONT,
            "range_m": 0.020,
            "range_rad": math.radians(10.0),
            "success_m": 0.14,
            "friction_n": 6.0,
        },
    ),
    # The front camera stands still, and all of the way ends at the drawer's place
    observe_place=True,
    rate_hz=10.0,
    max_steps=120,  # twice what the scripted operator takes
    image_size=(128, 128),
    # 8 mm in 0.1 s: 15 cm take 19 steps
    action_translation=0.008,
    action_rotation=0.05,
    leash_translation=0.012,
    leash_rotation=0.1,
    # The hook's lowest point, 50 mm beyond the fingertips
    pose_tcp_tool=(0.0, 0.0, 0.050, 0.0, 0.0, 0.0, 1.0),
    # As peg_insert: 20 N on each axis, three times what the slides need
    compliance=Compliance(
        stiffness=(2000.0, 2000.0, 2000.0, 150.0, 150.0, 150.0),
        damping=(89.0, 89.0, 89.0, 7.0, 7.0, 7.0),
        error_clip=(0.01, 0.01, 0.01, 0.08, 0.08, 0.08),
        filter_time_s=0.05,
    ),
    defaults={
        "steps": 7_700,
        # With twenty scenes `auto` cannot tell yet, and later ones show it (docs/seeing.md)
        "learner.encoder": "goal",
        # Pictures that are moved a little are not learnt by heart
        "learner.pretrain.shift": 4,
        "learner.pretrain.epochs": 16,
        # Twenty demonstrations show twenty scenes: own episodes show more of them
        "learner.pretrain.renew_at": (1_500, 4_000),
    },
)
