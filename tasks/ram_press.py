"""Press a memory module into its socket until the latches at both ends snap in."""

import math

from robot_rl.config import StartPose, Task
from robot_rl.types import Compliance, Use

SOCKET = (0.5, 0.0)  # [m] in the base frame: the middle of the places of the slot
RIM_Z = 0.024  # [m]: the upper edge of the slot
DEGREES_5 = math.radians(5.0)

TASK = Task(
    name="ram_press",
    description="press the memory module into its socket until both latches are shut",
    # The module's lower edge 25 to 45 mm above the slot
    start=(
        StartPose(
            pose_base_tool=(*SOCKET, RIM_Z + 0.035, 1.0, 0.0, 0.0, 0.0),
            translation=(0.015, 0.015, 0.010),
            rotation=(DEGREES_5, DEGREES_5, DEGREES_5),
        ),
    ),
    # A module that is seated stays there: nothing wanders behind a demonstration. What the slot looks
    # like from aside is seen before it, above the open latches, which reach 21 mm higher than the rim
    look_around=(
        StartPose(
            pose_base_tool=(*SOCKET, RIM_Z + 0.037, 1.0, 0.0, 0.0, 0.0),
            translation=(0.030, 0.020, 0.015),
            rotation=(DEGREES_5, DEGREES_5, 2 * DEGREES_5),
        ),
    ),
    cameras=("wrist", "front"),
    # By the pictures, where the edge is as deep as a seated module's
    reward=Use("classifier", {"name": "ram_seated", "height_below": 0.0186}),
    near_misses=(
        "in the slot, not pressed",
        "pressed, the latches still open",
        "on the socket's rim",
        "just above the slot",
        "beside the socket, on the table",
    ),
    # 0.2 mm of air on each side; some 40 N in all, half of it the contacts', half the latches'
    scene=Use(
        "ram_press",
        {
            "nominal": SOCKET,
            "range_m": 0.015,
            "range_rad": math.radians(8.0),
            "clearance_m": 0.0002,
            "contacts_n": 20.0,
            "latches_n": 20.0,
        },
    ),
    rate_hz=10.0,
    max_steps=100,
    image_size=(128, 128),
    # 5 mm in 0.1 s: coming down faster, a module that hits the board stops the arm
    action_translation=0.005,
    limits={"max_reference_speed": 0.05},
    action_rotation=0.05,
    # The target leads by as much as the press needs
    leash_translation=0.020,
    leash_rotation=0.1,
    # The middle of the module's lower edge, 21.25 mm beyond the fingertips
    pose_tcp_tool=(0.0, 0.0, 0.02125, 0.0, 0.0, 0.0, 1.0),
    compliance=Compliance(
        # Downwards 3000 N/m times 16 mm: 48 N at most, more than the 40 N of contacts and latches
        # and less than what stops the arm. 250 Ns/m: a module that slips off the rim comes down on
        # the board with 0.19 m/s; with the 0.44 of 109 Ns/m the blow stopped the arm
        stiffness=(2000.0, 2000.0, 3000.0, 150.0, 150.0, 150.0),
        damping=(89.0, 89.0, 250.0, 7.0, 7.0, 7.0),
        error_clip=(0.01, 0.01, 0.016, 0.08, 0.08, 0.08),
        filter_time_s=0.05,
    ),
    defaults={
        "steps": 8_600,
        "wander_steps": 30,
        # The camera at the hand shows the slot from the module
        "learner.encoder": "goal",
        "learner.cameras": ("wrist",),
        # Twenty demonstrations show little of how it looks from aside: own successes show more
        "learner.pretrain.renew_at": (500, 1_500, 3_000, 5_000),
    },
)
