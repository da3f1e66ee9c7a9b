"""The learner: replay in, weights out."""
