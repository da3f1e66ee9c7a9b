"""A run from its creation to its end: recording, training, evaluation, its processes and its
report.
"""
