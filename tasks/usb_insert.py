"""Pick up a USB-A plug that lies on the table at any yaw up to a quarter turn, and insert it: 0.3 mm
of air in the narrow axis.

For a hand that moves: `--hardware sim_hand`.
"""

import math

from robot_rl.config import StartPose, Task, Wander
from robot_rl.types import Compliance, Use

PLUG, RECEPTACLE = (0.53, 0.0), (0.37, 0.0)  # [m] in the base frame: the middles of their places

TASK = Task(
    name="usb_insert",
    description="pick up the plug and insert it, fully",
    # Above the middle of where the plug may lie
    start=(
        StartPose(
            pose_base_tool=(PLUG[0] - 0.02, PLUG[1], 0.15, 1.0, 0.0, 0.0, 0.0),
            translation=(0.03, 0.03, 0.02),
            rotation=(0.0, 0.0, 0.2),
        ),
    ),
    cameras=("wrist", "side", "front"),
    # By the pictures of all cameras and these two numbers, where the hand is as low as with a plug
    # that is in, and its fingers as far apart as with a plug between them
    reward=Use(
        "classifier",
        {
            "name": "usb_in",
            "numbers": ("height", "width"),
            "height_below": 0.035,
            "width_between": (0.013, 0.019),
        },
    ),
    near_misses=(
        "in front of the opening, in line with it",
        "the tip in the mouth of the opening",
        "half in",
        "beside the opening",
        "above the opening",
        "the empty hand at the opening, the plug on the table",
    ),
    scene=Use(
        "usb_insert",
        {
            "nominal": PLUG,
            "range_m": 0.08,
            "range_rad": math.pi / 2,
            "receptacle_nominal": RECEPTACLE,
            "receptacle_range_m": 0.02,
            "receptacle_range_rad": math.radians(10.0),
            "success_depth_m": 0.010,
        },
    ),
    # With the plug in the hand, out of the receptacle and about before it, above it and beside it;
    # not so low that the plug would touch the table
    wander=Wander(
        way_out=(0.014, 0.0, 0.0), height=0.06, aside=0.025, rotation=(0.0, 0.0, 0.2), lowest=0.014
    ),
    # Over where the plug may lie, high enough for a hand that holds nothing, and turned as far as a
    # policy may have turned it
    look_around=(
        StartPose(
            pose_base_tool=(*PLUG, 0.10, 1.0, 0.0, 0.0, 0.0),
            translation=(0.08, 0.08, 0.05),
            rotation=(0.0, 0.0, 1.5),
        ),
    ),
    rate_hz=10.0,
    max_steps=200,  # twice what the scripted operator takes
    image_size=(128, 128),
    # 8 mm in 0.1 s: 25 cm aside take 31 steps
    action_translation=0.008,
    action_rotation=0.05,
    # Two cameras stand still, and plug and receptacle lie far apart
    observe_place=True,
    # How high the plug sits in the hand, no picture tells as well
    observe_grasp=True,
    # The tool keeps pointing down
    axes=("x", "y", "z", "rz"),
    grippers=("moved",),
    # The fingers take 0.7 s to close
    hold_while_gripping=True,
    leash_translation=0.012,
    leash_rotation=0.1,
    # As peg_insert: 20 N on each axis, and a plug goes in with 13
    compliance=Compliance(
        stiffness=(2000.0, 2000.0, 2000.0, 150.0, 150.0, 150.0),
        damping=(89.0, 89.0, 89.0, 7.0, 7.0, 7.0),
        error_clip=(0.01, 0.01, 0.01, 0.08, 0.08, 0.08),
        filter_time_s=0.05,
    ),
    defaults={
        "hardware": "sim_hand",
        "steps": 17_500,
        "wander_steps": 60,
        # While it cannot do it alone it forgets what it no longer imitates
        "learner.agent.bc_decay_steps": 30_000,
        # Where the plug goes in a millimetre is too much, in scenes that were never seen as well
        "learner.encoder": "goal_points",
        # Pictures that are moved a little are not learnt by heart; near by they tell millimetres
        "learner.pretrain.shift": 4,
        "learner.pretrain.shift_beyond": 0.04,
        "learner.pretrain.epochs": 32,
        # Twenty demonstrations show twenty scenes: own episodes show more of them
        "learner.pretrain.renew_at": (1_000, 2_500, 5_000, 8_000),
    },
)
