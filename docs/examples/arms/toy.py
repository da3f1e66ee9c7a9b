"""Six joints, its own controller follows poses at 125 Hz, a tenth of a second late."""

from collections import deque

import numpy as np

from robot_rl.interfaces import ArmReading


class Arm:
    joints = 6
    mode = "pose"  # it follows poses; without this line it takes torques
    tick_s = 0.008  # its own period: 125 Hz

    def __init__(self, options, given):
        self.reading = ArmReading(self.joints)  # connect here: RTDEReceiveInterface(options.ip)
        self.reading.q[:], self.reading.twist = given.arm.home, np.zeros(6)
        self.sent = deque([np.array([0.4, 0.0, 0.3, 1.0, 0.0, 0.0, 0.0])] * 13, maxlen=13)

    def set_tool(self, pose_flange_tool):
        """From now on poses are those of this point, seen from the flange."""  # setTcp(...)

    def read(self):
        pose, before = self.sent[0], self.reading.pose.copy()  # getActualTCPPose(), quaternion xyzw
        self.reading.pose[:] = pose  # and wrench: getActualTCPForce(), of the world on the tool
        self.reading.twist[:3] = (pose[:3] - before[:3]) / self.tick_s * before.any()
        return self.reading

    def follow(self, pose_base_tcp):
        self.sent.append(pose_base_tcp.copy())  # servoL(...): near the last one, never a jump

    def close(self):
        """The robot holds by itself."""  # servoStop()
