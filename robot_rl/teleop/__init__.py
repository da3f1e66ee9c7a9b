"""Operators' devices; one file is one kind."""
