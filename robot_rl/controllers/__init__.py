"""The arm process: control law, limits, the 1 kHz loop and its network side. Neither torch nor
gymnasium.
"""
