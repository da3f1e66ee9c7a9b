"""A simulated FR3 behind the Franka Control Interface: the main job's scene, served over the real arm's own protocol.

`layout.py` says what the bytes mean, `robot.py` is the robot's behaviour, `hand.py` the gripper's, `server.py` the
sockets and the clock, `urdf.py` the model that the robot hands out, `process.py` starts it all and talks to it.
"""
