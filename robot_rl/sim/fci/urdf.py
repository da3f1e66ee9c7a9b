"""The model that the simulated robot hands out: a URDF of the very numbers that the simulation is
built from.
"""

import math

from robot_rl.sim.franka_facts import FR3
from robot_rl.sim.panda import LINKS


def robot_urdf() -> str:
    """Seven revolute joints and a flange called `link8`, without shapes; what `Robot.load_model` of
    libfranka reads.
    """
    parts = ['<?xml version="1.0"?>', '<robot name="fr3">', '<link name="link0"/>']
    for index, ((a, d, alpha), link) in enumerate(zip(FR3.dh, LINKS, strict=True), start=1):
        xx, yy, zz, xy, xz, yz = link.inertia
        low, high = FR3.joint_low[index - 1], FR3.joint_high[index - 1]
        speed, torque = FR3.max_joint_speed[index - 1], FR3.max_torque[index - 1]
        offset, deceleration = FR3.speed_offset[index - 1], FR3.deceleration[index - 1]
        # Craig's convention: Rot_x(alpha) Trans_x(a) Trans_z(d), then the joint's turn about z
        where = f"{a!r} {-math.sin(alpha) * d!r} {math.cos(alpha) * d!r}"
        parts.append(
            f'<link name="link{index}"><inertial><origin xyz="{_text(link.com)}"/><mass'
            f' value="{link.mass!r}"/><inertia ixx="{xx!r}" iyy="{yy!r}" izz="{zz!r}" ixy="{xy!r}"'
            f' ixz="{xz!r}" iyz="{yz!r}"/></inertial></link><joint name="joint{index}"'
            f' type="revolute"><origin xyz="{where}" rpy="{alpha!r} 0 0"/><parent'
            f' link="link{index - 1}"/><child link="link{index}"/><axis xyz="0 0 1"/><limit'
            f' lower="{low!r}" upper="{high!r}" velocity="{speed!r}"'
            f' effort="{torque!r}"/><position_based_velocity_limits velocity_offset="{offset!r}"'
            f' deceleration_limit="{deceleration!r}"/></joint>'
        )
    parts.append(
        '<link name="link8"/><joint name="joint8" type="fixed"><origin xyz="0 0'
        f' {FR3.flange_m!r}"/><parent link="link7"/><child link="link8"/></joint></robot>'
    )
    return "\n".join(parts)


def _text(values: tuple[float, ...]) -> str:
    return " ".join(repr(float(value)) for value in values)
