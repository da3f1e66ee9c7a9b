"""A judge of success that is learnt from frames: what fires, what it is worth, how it is trained."""
