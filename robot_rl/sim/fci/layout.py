"""What the bytes of the Franka Control Interface mean: protocol version 10 (FR3, system 5.9 and
later), little endian.

Facts from libfranka-common, `research_interface/{robot,gripper}` (Apache-2.0): commands, states,
codes. Packed.
"""

import struct
from enum import IntEnum

import numpy as np

VERSION = 10
ARM_PORT, HAND_PORT = 1337, 1338
TICK_S = 0.001

ARM_HEADER = struct.Struct("<III")
"""command, command id, size of the whole message."""

CONNECT = struct.Struct("<HH")
"""version of the client's library, the UDP port at which it wants states."""

CONNECTED = struct.Struct("<BH")
"""status, version of the server."""


class Command(IntEnum):
    """Requests to the arm."""

    CONNECT = 0
    MOVE = 1
    STOP_MOVE = 2
    SET_COLLISION_BEHAVIOR = 3
    SET_JOINT_IMPEDANCE = 4
    SET_CARTESIAN_IMPEDANCE = 5
    SET_GUIDING_MODE = 6
    SET_EE_TO_K = 7
    SET_NE_TO_EE = 8
    SET_LOAD = 9
    AUTOMATIC_ERROR_RECOVERY = 10
    GET_ROBOT_MODEL = 11


PAYLOAD = {
    Command.CONNECT: np.dtype([("version", "<u2"), ("udp_port", "<u2")]),
    Command.MOVE: np.dtype([
        ("controller", "<u4"), ("generator", "<u4"), ("deviations", "<f8", 6), ("asynchronous", "u1"),
        ("max_velocity", "<f8", 7),
    ]),
    Command.STOP_MOVE: np.dtype([]),
    Command.SET_COLLISION_BEHAVIOR: np.dtype([
        ("torque_acceleration", "<f8", (2, 7)), ("torque", "<f8", (2, 7)),
        ("force_acceleration", "<f8", (2, 6)), ("force", "<f8", (2, 6)),
    ]),
    Command.SET_JOINT_IMPEDANCE: np.dtype([("stiffness", "<f8", 7)]),
    Command.SET_CARTESIAN_IMPEDANCE: np.dtype([("stiffness", "<f8", 6)]),
    Command.SET_GUIDING_MODE: np.dtype([("axes", "?", 6), ("elbow", "?")]),
    Command.SET_EE_TO_K: np.dtype([("pose", "<f8", 16)]),
    Command.SET_NE_TO_EE: np.dtype([("pose", "<f8", 16)]),
    Command.SET_LOAD: np.dtype([("mass", "<f8"), ("com", "<f8", 3), ("inertia", "<f8", 9)]),
    Command.AUTOMATIC_ERROR_RECOVERY: np.dtype([]),
    Command.GET_ROBOT_MODEL: np.dtype([]),
}  # fmt: skip
"""What follows the header of a request. Thresholds are (lower, upper)."""

OK, NOT_POSSIBLE, INVALID = 0, 1, 2
"""Status of a setter's answer, and of a recovery's."""

EXTERNAL_CONTROLLER, NO_GENERATOR = 2, 4
"""What torque control asks for in a MOVE."""


class MoveStatus(IntEnum):
    """Answers to a MOVE: one when it starts, one when it ends."""

    SUCCESS = 0
    STARTED = 1
    PREEMPTED = 2
    NOT_POSSIBLE = 5
    INVALID = 7
    REFLEX = 8
    EMERGENCY = 9


class Mode(IntEnum):
    """The robot's operating mode."""

    OTHER = 0
    IDLE = 1
    MOVE = 2
    GUIDING = 3
    REFLEX = 4
    USER_STOPPED = 5
    RECOVERY = 6


GENERATOR_IDLE, GENERATOR_NONE = 0, 5
CONTROLLER_EXTERNAL, CONTROLLER_OTHER = 2, 3
"""Modes of motion generator and controller, as a state shows them."""

ERRORS = 41


class Error(IntEnum):
    """Places in the error lists of a state: those that this robot can show."""

    JOINT_POSITION_LIMITS = 0
    JOINT_VELOCITY = 3
    JOINT_REFLEX = 6
    CARTESIAN_REFLEX = 7
    COMMUNICATION_CONSTRAINTS = 25
    TORQUE_DISCONTINUITY = 32
    TORQUE_RANGE = 34


STATE = np.dtype([
    ("message_id", "<u8"),
    ("O_T_EE", "<f4", 16), ("O_T_EE_d", "<f4", 16), ("F_T_EE", "<f4", 16), ("EE_T_K", "<f4", 16),
    ("F_T_NE", "<f4", 16), ("NE_T_EE", "<f4", 16),
    ("m_ee", "<f4"), ("I_ee", "<f4", 9), ("F_x_Cee", "<f4", 3),
    ("m_load", "<f4"), ("I_load", "<f4", 9), ("F_x_Cload", "<f4", 3),
    ("elbow", "<f4", 2), ("elbow_d", "<f4", 2),
    ("tau_J", "<f4", 7), ("tau_J_d", "<f4", 7), ("dtau_J", "<f4", 7),
    ("q", "<f4", 7), ("q_d", "<f4", 7), ("dq", "<f4", 7), ("dq_d", "<f4", 7), ("ddq_d", "<f4", 7),
    ("joint_contact", "<f4", 7), ("cartesian_contact", "<f4", 6),
    ("joint_collision", "<f4", 7), ("cartesian_collision", "<f4", 6),
    ("tau_ext_hat_filtered", "<f4", 7), ("O_F_ext_hat_K", "<f4", 6), ("K_F_ext_hat_K", "<f4", 6),
    ("O_dP_EE_d", "<f4", 6), ("O_ddP_O", "<f4", 3),
    ("elbow_c", "<f4", 2), ("delbow_c", "<f4", 2), ("ddelbow_c", "<f4", 2),
    ("O_T_EE_c", "<f4", 16), ("O_dP_EE_c", "<f4", 6), ("O_ddP_EE_c", "<f4", 6),
    ("theta", "<f4", 7), ("dtheta", "<f4", 7),
    ("accelerometer_top", "<f4", (6, 3)), ("accelerometer_bottom", "<f4", (6, 3)),
    ("generator_mode", "u1"), ("controller_mode", "u1"),
    ("errors", "?", ERRORS), ("reflex_reason", "?", ERRORS),
    ("robot_mode", "u1"), ("control_command_success_rate", "<f4"),
])  # fmt: skip
"""What the arm sends by UDP each millisecond, 1377 bytes. Matrices are column-major; frames as in
libfranka.
"""

TORQUES = np.dtype([
    ("message_id", "<u8"),
    ("q_c", "<f8", 7), ("dq_c", "<f8", 7), ("O_T_EE_c", "<f8", 16), ("O_dP_EE_c", "<f8", 6), ("elbow_c", "<f8", 2),
    ("valid_elbow", "?"), ("generator_finished", "?"),
    ("tau_J_d", "<f8", 7), ("finished", "?"),
])  # fmt: skip
"""What the client answers to a state by UDP, 371 bytes."""

HAND_VERSION = 3
HAND_HEADER = struct.Struct("<HII")
HAND_ANSWER = struct.Struct("<H")
HAND_CONNECTED = struct.Struct("<HH")
HAND_STATE = struct.Struct("<Idd?H")
"""message id, width [m], largest width [m], whether something is grasped, temperature [deg C]."""


class HandCommand(IntEnum):
    """Requests to the hand."""

    CONNECT = 0
    HOMING = 1
    GRASP = 2
    MOVE = 3
    STOP = 4


HAND_PAYLOAD = {
    HandCommand.CONNECT: CONNECT,
    HandCommand.HOMING: struct.Struct(""),
    HandCommand.GRASP: struct.Struct("<5d"),  # width, epsilon inner, epsilon outer, speed, force
    HandCommand.MOVE: struct.Struct("<2d"),  # width, speed
    HandCommand.STOP: struct.Struct(""),
}
