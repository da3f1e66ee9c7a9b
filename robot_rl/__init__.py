"""robot_rl: sample-efficient reinforcement learning on real robot arms."""

__version__ = "0.1.0"
