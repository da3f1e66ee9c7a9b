"""Hand over a bar of 20 cm from arm to arm: the left one picks it up, the right one lays it down on a
mark.

For two arms that face each other: `--hardware sim_two_pandas`.
"""

import math

from robot_rl.config import StartPose, Task, Wander
from robot_rl.types import Compliance, Use

BAR, MARK = (0.41, 0.08), (0.60, -0.13)  # [m] in the left arm's base: the middles of their places
BAR_WIDTH_M = 0.024

TASK = Task(
    name="handover",
    description="pick up the bar, hand it over, and lay it down on the mark",
    # Left: above where it takes hold; right: where it has the end of the bar in front of its hand
    start=(
        StartPose(
            pose_base_tool=(BAR[0] - 0.065, BAR[1], 0.13, 1.0, 0.0, 0.0, 0.0),
            translation=(0.02, 0.03, 0.02),
            rotation=(0.0, 0.0, 0.2),
        ),
        StartPose(
            pose_base_tool=(0.33, 0.0, 0.13, 1.0, 0.0, 0.0, 0.0),
            translation=(0.02, 0.03, 0.02),
            rotation=(0.0, 0.0, 0.2),
        ),
    ),
    cameras=("wrist_left", "wrist_right", "front"),
    # By the pictures of all cameras, of the front one's where the mark may be; where both hands are
    # open wider than around the bar
    reward=Use(
        "classifier",
        {
            "name": "bar_laid_down",
            "crops": {"front": (0.32, 0.58, 0.62, 0.29)},
            "width_between": (BAR_WIDTH_M + 0.020, 0.085),
        },
    ),
    near_misses=(
        "the bar on the mark, still between the fingers",
        "the bar beside the mark, let go",
        "one end of the bar beyond the mark, let go",
        "the bar above the mark, held",
        "the bar between both hands in the middle",
        "both hands open, the bar where it lay",
    ),
    scene=Use(
        "handover",
        {
            "nominal": BAR,
            "range_m": (0.03, 0.08),
            "range_rad": math.pi / 4,
            "mark_nominal": MARK,
            "mark_range_m": 0.02,
        },
    ),
    # Left: over where the bar may lie; right: about where it is handed over. Both as high as empty
    # hands do not touch what stands there
    look_around=(
        StartPose(
            pose_base_tool=(BAR[0] - 0.03, BAR[1], 0.10, 1.0, 0.0, 0.0, 0.0),
            translation=(0.06, 0.09, 0.05),
            rotation=(0.0, 0.0, 0.8),
        ),
        StartPose(
            pose_base_tool=(0.36, 0.0, 0.13, 1.0, 0.0, 0.0, 0.0),
            translation=(0.06, 0.06, 0.03),
            rotation=(0.0, 0.0, 0.4),
        ),
    ),
    # With the bar that it has laid down: what lies, or hangs, beside the mark, nobody else shows
    wander=Wander(
        way_out=(0.0, 0.0, -0.002),
        height=0.03,
        aside=0.05,
        rotation=(0.0, 0.0, 0.3),
        near_aside=0.5,
        arm=1,
        carries=True,
        # Along the bar, nearer to its middle: so a policy holds it that has taken it by itself
        takes_from=(-0.006, 0.0, 0.0),
        takes_to=(0.030, 0.0, 0.0),
    ),
    rate_hz=10.0,
    max_steps=320,  # twice what the scripted operator takes
    image_size=(128, 128),
    # 8 mm in 0.1 s: 25 cm aside take 31 steps
    action_translation=0.008,
    action_rotation=0.05,
    # The front camera stands still, and where the bar is handed over is a place on the bench
    observe_place=True,
    # The tools keep pointing down
    axes=("x", "y", "z", "rz"),
    grippers=("moved", "moved"),
    reopen_empty=True,
    leash_translation=0.012,
    leash_rotation=0.1,
    # As peg_insert: 20 N on each axis
    compliance=Compliance(
        stiffness=(2000.0, 2000.0, 2000.0, 150.0, 150.0, 150.0),
        damping=(89.0, 89.0, 89.0, 7.0, 7.0, 7.0),
        error_clip=(0.01, 0.01, 0.01, 0.08, 0.08, 0.08),
        filter_time_s=0.05,
    ),
    # Clear of the bar that has been laid down
    retreat=(0.0, 0.0, -0.05),
    # 10 cm between the hands, and neither does alone what is the other's: the bar lies where the
    # right one does not get, the mark where the left one does not
    limits={"workspace_high": (0.45, 0.22, 0.25)},
    defaults={
        "hardware": "sim_two_pandas",
        "steps": 16_000,
        # Twenty more are shown for the judge, at 160 steps each
        "demos": 20,
        "wander_steps": 60,
        # Of 30 scenes a first look of 250 updates sees too little to be sure of it
        "learner.encoder": "goal",
        # 140 to 200 steps to the only reward there is
        "learner.agent.discount": 0.99,
        "learner.agent.n_step": 5,
        # Pictures that are moved a little are not learnt by heart; near by they tell millimetres
        "learner.pretrain.shift": 4,
        "learner.pretrain.shift_beyond": 0.04,
        "learner.pretrain.epochs": 8,
        # Twenty demonstrations show twenty scenes: own episodes show more of them
        "learner.pretrain.renew_at": (1_000, 2_500, 5_000),
        # It sees where the bar lies along x, which a head over all cameras does not
        "learner.still_cameras": ("front",),
        # A policy that trusts its sight as in what was shown trusts it too far
        "learner.sight_noise.features": 1.0,
        "learner.sight_noise.goal_m": 0.002,
        "learner.sight_noise.goal_per_m": 0.1,
        "learner.sight_noise.goal_rad": 0.05,
    },
)
