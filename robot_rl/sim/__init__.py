"""The simulated hardware: the arm's model, scenes, and the client of the `world` channel."""
