"""A simulated FR3 behind the Franka Control Interface: the main job's scene, served over the real
arm's own protocol.

`layout.py` says what the bytes mean, `robot.py` is the robot's behaviour, `sim/hand.py` the
gripper's, `ports.py` the sockets, `server.py` the clock, `urdf.py` the model that is handed out;
`process.py` starts it all and talks to it.
"""
