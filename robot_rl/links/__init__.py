"""Sockets, keys, and what is said over them: calls, weights, status, the console's link."""
