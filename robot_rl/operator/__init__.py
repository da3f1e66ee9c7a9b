"""What an operator says and does, and what follows from it: actions, marks, pauses."""
