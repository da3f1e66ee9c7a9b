"""What must not be lost, and what is sampled: the step's bytes, the log, the replay."""
