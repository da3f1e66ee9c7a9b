"""One file = one learning algorithm, with `class Agent`."""
