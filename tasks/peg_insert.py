"""Insert a 20 mm square peg into a socket 25 mm deep without chamfer, 0.5 mm clearance on each
side.
"""

import math

from robot_rl.config import StartPose, Task, Wander
from robot_rl.types import Compliance, Use

# [m] in the base frame: the middle of what a Panda reaches with its tool pointing down
SOCKET = (0.5, 0.0)
RIM_Z = 0.025  # [m] in the base frame: the socket is 25 mm deep and stands on the table (z = 0)
HEIGHT_LOW, HEIGHT_HIGH = 0.030, 0.060  # [m] of the peg's tip above the rim at the start
DEGREES_5 = math.radians(5.0)

TASK = Task(
    name="peg_insert",
    description="insert the peg into the socket, fully",
    # Above the middle of where the socket may be, the tool pointing down
    start=(
        StartPose(
            pose_base_tool=(*SOCKET, RIM_Z + 0.5 * (HEIGHT_LOW + HEIGHT_HIGH), 1.0, 0.0, 0.0, 0.0),
            translation=(0.020, 0.020, 0.5 * (HEIGHT_HIGH - HEIGHT_LOW)),
            rotation=(DEGREES_5, DEGREES_5, DEGREES_5),
        ),
    ),
    cameras=("wrist", "front"),
    # By the pictures of both cameras, where the tip is as deep as the scene below calls "in"; beside
    # the socket it is as deep, and that the pictures tell
    reward=Use("classifier", {"name": "peg_in", "height_below": 0.001}),
    near_misses=(
        "on the socket's rim",
        "beside the socket, on the table",
        "half in",
        "tilted, in the mouth of the hole",
        "far away",
        "just above the hole",
    ),
    # Socket anywhere within 20 mm and 10 degrees; 0.5 mm of air on each side of the peg, 24 of the
    # 25 mm is "in"
    scene=Use(
        "peg_insert",
        {
            "clearance_m": 0.0005,
            "depth_m": RIM_Z,
            "success_depth_m": 0.024,
            "socket_nominal": SOCKET,
            "socket_range_m": 0.020,
            "socket_range_rad": math.radians(10.0),
        },
    ),
    rate_hz=10.0,  # SERL and HIL-SERL
    max_steps=100,  # SERL's peg task
    image_size=(128, 128),  # SERL and HIL-SERL
    # 8 mm in 0.1 s is 0.08 m/s: 20 mm aside and 85 mm down take 11 steps of the 100
    action_translation=0.008,
    action_rotation=0.05,  # [rad], 3 degrees: 10 + 5 degrees of yaw take 6 steps
    grippers=("held",),  # a person has put the peg between its fingers
    # A little beyond the clip of the error: the target can press with all the force allowed and
    # lead a fast move, yet a target that ran ahead is back in a step or two (with 20 mm the arm
    # stood still while it unwound)
    leash_translation=0.012,
    leash_rotation=0.1,
    # After a demonstration: straight out of the hole, then as far aside and turned as the start may
    # be from the socket, 20 + 20 mm and 5 + 10 degrees; tilted a little further than that
    wander=Wander(
        way_out=(0.0, 0.0, -RIM_Z),
        height=0.065,
        aside=0.040,
        rotation=(1.2 * DEGREES_5, 1.2 * DEGREES_5, DEGREES_5 + math.radians(10.0)),
    ),
    # The peg's tip, 42 mm beyond the fingertips
    pose_tcp_tool=(0.0, 0.0, 0.042, 0.0, 0.0, 0.0, 1.0),
    compliance=Compliance(
        # SERL's franka controller: 2000 N/m and 150 Nm/rad, damped with 89 Ns/m (critical for 1 kg)
        # and 7 Nms/rad
        stiffness=(2000.0, 2000.0, 2000.0, 150.0, 150.0, 150.0),
        damping=(89.0, 89.0, 89.0, 7.0, 7.0, 7.0),
        # HIL-SERL's clip: 20 N at most on each axis. Rotation: 12 Nm at most, the limit of the
        # wrist's joints
        error_clip=(0.01, 0.01, 0.01, 0.08, 0.08, 0.08),
        filter_time_s=0.05,  # half a control period: smooth, yet arrived before the next target
    ),
    defaults={
        "steps": 6_500,
        "wander_steps": 60,
        # An insertion takes 15 to 20 steps: a horizon of 20 (SERL's peg task: 0.96) tells "stuck for
        # a second" from "on its way" more sharply than one of 33, 97 against 81 of 100 with `rlpd`
        # from state after 3,000 steps
        "learner.agent.discount": 0.95,
        "learner.agent.n_step": 1,
        # The camera at the hand shows the socket from the tool, 0.2 mm off near it; the one in front
        # 0.8 mm
        "learner.encoder": "goal",
        "learner.cameras": ("wrist",),
        # Own episodes show more scenes than twenty demonstrations
        "learner.pretrain.renew_at": (400, 1_000),
    },
)
