"""Waiting for deadlines, in real and in simulated time."""

import time

import pytest

from robot_rl.machine.clock import LockstepClock, RealClock


def test_real_clock_wakes_at_the_deadline_and_tells_who_comes_late() -> None:
    clock = RealClock(spin_s=0.001)
    deadline = clock.now() + 0.02
    assert clock.wait_until(deadline) == 0.0
    assert clock.now() >= deadline
    assert clock.wait_until(clock.now() - 0.5) == pytest.approx(0.5, abs=0.1)


def test_lockstep_time_passes_by_waiting_alone_and_never_backwards() -> None:
    clock, begun = LockstepClock(), time.monotonic()
    clock.wait_until(1000.0)
    assert clock.now() == 1000.0
    assert clock.wait_until(3.0) == 0.0
    assert clock.now() == 1000.0
    assert time.monotonic() - begun < 1.0
