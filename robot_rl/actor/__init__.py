"""The actor: drives the arm at the control rate, decides who acts, and hands every step on."""
