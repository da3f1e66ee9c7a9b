"""The actor's process: its loop, episodes, demonstrations, evaluations."""
