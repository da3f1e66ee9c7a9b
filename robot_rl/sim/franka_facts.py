"""What Franka says of its arms: kinematics, ranges, speeds, torques. No device and no simulation is
needed to know it.

Sources: Franka Control Interface documentation, "Robot and interface specifications" (DH table,
which Panda and FR3 share; limits of both; the FR3's position-dependent velocity limits, whose
offsets and decelerations its URDF holds). Of the FR3's joint ranges and offsets Franka has
published two sets, with the same decelerations. The first, narrower one stands here. The later one
has wider ranges (joint 4 ends at -0.1169, joint 6 begins at 0.4398) and larger offsets (joint 1:
0.6599): what the first allows up to 2.0 rad/s (joints 1 to 4) and 2.5 rad/s (5 to 7), the later one
does too. The guarded bodies are our own outlines of the links: capsules a little larger than the
shells. The outline for other arms is made of the capsules of `franka_description`
(franka_arm.xacro, franka_hand.xacro), with larger radii: the simulated links, the Panda's own
shells and fingers that are wide open are inside.
"""

import math

from robot_rl.types import ArmFacts, Capsule

DH = (
    (0.0, 0.333, 0.0),
    (0.0, 0.0, -math.pi / 2),
    (0.0, 0.316, math.pi / 2),
    (0.0825, 0.0, math.pi / 2),
    (-0.0825, 0.384, -math.pi / 2),
    (0.0, 0.0, math.pi / 2),
    (0.088, 0.0, math.pi / 2),
)
"""Per joint: a [m], d [m], alpha [rad], in Craig's convention."""

FLANGE_M = 0.107
"""From frame 7 to the flange, along z [m]."""

FLANGE = 8

BODIES = (
    Capsule("elbow", 4, (-0.0825, 0.0, -0.06), (-0.0825, 0.0, 0.06), 0.075),
    Capsule("forearm", 5, (0.0, 0.0, -0.26), (0.0, 0.06, -0.04), 0.075),
    Capsule("wrist", 6, (0.0, 0.0, -0.06), (0.088, 0.0, 0.02), 0.07),
    # across the fingers; turned by -45 degrees about the flange's z, as the hand is mounted. The
    # fingers are free
    Capsule("hand", FLANGE, (0.0495, 0.0495, 0.035), (-0.0495, -0.0495, 0.035), 0.04),
)

OUTLINE = (
    Capsule("base", 1, (0.0, 0.0, -0.3), (0.0, 0.0, -0.22), 0.15),
    Capsule("column", 1, (0.0, 0.0, -0.2), (0.0, 0.0, 0.0), 0.075),
    Capsule("shoulder", 2, (0.0, 0.0, -0.06), (0.0, 0.0, 0.06), 0.075),
    Capsule("upper arm", 3, (0.0, 0.0, -0.3), (0.0, 0.0, -0.05), 0.075),
    Capsule("elbow", 3, (0.0825, 0.0, -0.06), (0.0825, 0.0, 0.06), 0.075),
    Capsule("elbow", 4, (0.0, 0.0, -0.06), (0.0, 0.0, 0.06), 0.075),
    Capsule("elbow", 4, (-0.0825, 0.03, 0.0), (-0.0825, 0.1, 0.0), 0.075),
    Capsule("forearm", 5, (0.0, 0.0, -0.32), (0.0, 0.02, -0.19), 0.075),
    Capsule("forearm", 5, (0.0, 0.075, -0.2), (0.0, 0.07, -0.03), 0.05),
    Capsule("wrist", 6, (0.0, 0.0, -0.07), (0.0, 0.0, 0.05), 0.06),
    Capsule("wrist", 6, (0.088, 0.0, -0.035), (0.088, 0.0, 0.035), 0.06),
    Capsule("flange", 7, (0.0, 0.0, -0.03), (0.0, 0.0, 0.107), 0.056),
    Capsule("flange", 7, (0.0, 0.0, 0.082), (0.046, 0.046, 0.082), 0.035),
    Capsule("hand", FLANGE, (0.0637, 0.0637, 0.04), (-0.0637, -0.0637, 0.04), 0.0432),
    Capsule("fingers", FLANGE, (0.0354, 0.0354, 0.075), (-0.0354, -0.0354, 0.075), 0.022),
    Capsule("fingers", FLANGE, (0.0354, 0.0354, 0.097), (-0.0354, -0.0354, 0.097), 0.022),
)
"""For other arms: all of the arm, and its open fingers (`panda.py` has where they are)."""

JOINT_STIFFNESS = (600.0, 600.0, 600.0, 600.0, 250.0, 150.0, 50.0)
JOINT_DAMPING = (50.0, 50.0, 50.0, 50.0, 30.0, 25.0, 15.0)
"""[Nm/rad], [Nms/rad]: libfranka's example joint_impedance_control.cpp."""

PANDA = ArmFacts(
    joint_low=(-2.8973, -1.7628, -2.8973, -3.0718, -2.8973, -0.0175, -2.8973),
    joint_high=(2.8973, 1.7628, 2.8973, -0.0698, 2.8973, 3.7525, 2.8973),
    max_joint_speed=(2.1750, 2.1750, 2.1750, 2.1750, 2.6100, 2.6100, 2.6100),
    max_torque=(87.0, 87.0, 87.0, 87.0, 12.0, 12.0, 12.0),
    max_torque_rate=1000.0,
    max_tcp_speed=1.7,
    max_load_kg=3.0,
    dh=DH,
    flange_m=FLANGE_M,
    bodies=BODIES,
    outline=OUTLINE,
    joint_stiffness=JOINT_STIFFNESS,
    joint_damping=JOINT_DAMPING,
)

FR3 = ArmFacts(
    joint_low=(-2.7437, -1.7837, -2.9007, -3.0421, -2.8065, 0.5445, -3.0159),
    joint_high=(2.7437, 1.7837, 2.9007, -0.1518, 2.8065, 4.5169, 3.0159),
    max_joint_speed=(2.62, 2.62, 2.62, 2.62, 5.26, 4.18, 5.26),
    max_torque=(87.0, 87.0, 87.0, 87.0, 12.0, 12.0, 12.0),
    max_torque_rate=1000.0,
    max_tcp_speed=3.0,
    max_load_kg=3.0,
    speed_offset=(0.30, 0.20, 0.20, 0.30, 0.35, 0.35, 0.35),
    deceleration=(6.0, 2.585, 3.50, 4.0, 17.0, 5.5, 17.0),
    dh=DH,
    flange_m=FLANGE_M,
    bodies=BODIES,
    outline=OUTLINE,
    joint_stiffness=JOINT_STIFFNESS,
    joint_damping=JOINT_DAMPING,
)
