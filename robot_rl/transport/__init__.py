"""The four links between actor, learner and whoever looks: steps, weights, calls, status. ZeroMQ, no pickle."""
