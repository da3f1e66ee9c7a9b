"""Judges of success; one file is one kind."""
