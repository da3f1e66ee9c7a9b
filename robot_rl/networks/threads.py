"""Threads of a computation."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute on one core meanwhile, also as a decorator: more threads do not help on one
    observation, and where others want the cores they wait for one another (an action by the
    pictures of one camera, beside two trainings on two cores: 70 ms with two threads, 6 with one).
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
