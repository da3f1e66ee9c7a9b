"""Pick up a cube of 40 mm that lies anywhere within 40 x 40 cm, at any yaw: lift it by 10 cm.

For a hand that moves: `--hardware sim_hand`.
"""

from robot_rl.config import StartPose, Task
from robot_rl.types import Compliance, Use

MIDDLE = (0.5, 0.0)  # [m] in the base frame
LIFT_M = 0.10

TASK = Task(
    name="pick_cube",
    description="pick up the cube and lift it by 10 cm",
    # Above the middle of where the cube may be: from there the wrist's camera sees most of it
    start=(
        StartPose(
            pose_base_tool=(*MIDDLE, 0.20, 1.0, 0.0, 0.0, 0.0),
            translation=(0.05, 0.05, 0.03),
            rotation=(0.0, 0.0, 0.3),
        ),
    ),
    cameras=("wrist", "front"),
    # By what the wrist's camera sees between the fingers, which looks alike wherever the cube has lain,
    # and these two numbers, where the fingers are as far apart as with a cube between them, and high
    # enough for it however it is held: they take hold 20 to 23 mm above the table
    reward=Use(
        "classifier",
        {
            "name": "cube_lifted",
            "cameras": {"wrist": (128, 128)},
            "crops": {"wrist": (0.25, 0.0, 0.6, 0.65)},
            "numbers": ("height", "width"),
            "height_above": LIFT_M + 0.025,
            "width_between": (0.037, 0.043),
        },
    ),
    near_misses=(
        "the empty hand as high as with the cube, the cube below it",
        "the hand high, its fingers shut, without the cube",
        "the cube held, half as high",
        "the fingers around the cube, on the table",
        "the cube beside the fingers",
    ),
    scene=Use("pick_cube", {"cube_m": 0.04, "nominal": MIDDLE, "range_m": 0.2, "lift_m": LIFT_M}),
    rate_hz=10.0,
    max_steps=140,  # twice what the scripted operator takes
    image_size=(128, 128),
    # 8 mm in 0.1 s: 25 cm aside take 31 steps
    action_translation=0.008,
    action_rotation=0.05,
    # The front camera stands still, and the cube lies far from where the arm begins
    observe_place=True,
    # The tool keeps pointing down
    axes=("x", "y", "z", "rz"),
    grippers=("moved",),
    leash_translation=0.012,
    leash_rotation=0.1,
    # As peg_insert: 20 N on each axis
    compliance=Compliance(
        stiffness=(2000.0, 2000.0, 2000.0, 150.0, 150.0, 150.0),
        damping=(89.0, 89.0, 89.0, 7.0, 7.0, 7.0),
        error_clip=(0.01, 0.01, 0.01, 0.08, 0.08, 0.08),
        filter_time_s=0.05,
    ),
    defaults={
        "hardware": "sim_hand",
        "steps": 9_200,
        # The successes that are shown for the judge are learnt from as well
        "demos": 10,
        # Pictures that are moved a little are not learnt by heart
        "learner.pretrain.shift": 4,
        "learner.pretrain.epochs": 16,
        # What was shown are thirty scenes: own episodes show more of them
        "learner.pretrain.renew_at": (1_000, 2_500, 5_000, 8_000),
    },
)
