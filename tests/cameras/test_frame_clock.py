"""A frame's age follows neither the system's clock nor the drift of the camera's; only how late the
frame came.
"""

import numpy as np
import pytest

from robot_rl.cameras._frame_clock import IN_FLIGHT_S, WRAP_S, FrameClock

PERIOD_S, WAY_S = 1 / 30, 0.03


def ages(
    count,
    *,
    late=lambda n: 0.0,
    steps=(),
    drift=0.0,
    begins=0.0,
    device=True,
    system_error=lambda n: 0.0,
):
    """What a clock says of frames that come `late(n)` [s] later than the quickest: (true age, said
    age) of each.

    `steps` are pairs of frame and seconds: the system's clock is set by so much just before that
    frame is taken.
    """
    clock, rng, said = FrameClock(), np.random.default_rng(1), []
    for n in range(count):
        taken = 1000.0 + PERIOD_S * n
        true = WAY_S + late(n) + 0.002 * rng.random()
        ahead = 1.7e9 + sum(step for frame, step in steps if n >= frame)
        own = (begins + taken * (1.0 + drift)) % WRAP_S if device else None
        told = clock.taken(taken + true, ahead, taken + ahead + system_error(n), own)
        said.append((true, taken + true - told))
    return np.array(said)


@pytest.mark.parametrize("device", [False, True])
@pytest.mark.parametrize("step", [0.05, -0.3, 0.7, 3600.0, -3600.0, 4e8])
def test_a_step_of_the_systems_clock_changes_no_age(device, step):
    true, said = ages(300, device=device, steps=[(150, step)]).T
    np.testing.assert_allclose(said, true, atol=0.004)


def test_global_time_that_is_wrong_for_a_while_after_a_step_changes_no_age():
    true, said = ages(
        900,
        steps=[(150, 900.0)],
        system_error=lambda n: -900.0 * 0.99 ** max(0, n - 150) * (n >= 150),
    ).T
    np.testing.assert_allclose(said, true, atol=0.004)


@pytest.mark.parametrize("device", [False, True])
def test_a_frame_that_comes_late_is_as_old_as_that_also_when_the_clock_is_set(device):
    def late(n):
        return 0.6 if 200 <= n < 210 else 0.0

    for step in (0.0, 5.0, -5.0):
        true, said = ages(400, device=device, late=late, steps=[(205, step)]).T
        np.testing.assert_allclose(said, true, atol=0.004)


def test_the_cameras_clock_may_drift_and_overflow():
    frames = 3 * 60 * 60 * 30
    true, said = ages(frames // 10, drift=50e-6, begins=WRAP_S - 1200.0).T
    np.testing.assert_allclose(said, true, atol=0.006)


def test_a_camera_that_begins_to_count_anew_is_believed_from_then_on():
    clock = FrameClock()
    for n in range(100):
        clock.taken(PERIOD_S * n, 0.0, None, 500.0 + PERIOD_S * n)
    assert clock.taken(100 * PERIOD_S, 0.0, None, 3.0) == pytest.approx(100 * PERIOD_S)


def test_a_frame_in_flight_when_the_clock_was_set_has_the_time_from_before():
    for step in (7.0, -7.0):
        clock = FrameClock()
        clock.taken(10.0, 50.0, 59.97, None)
        assert clock.taken(10.1, 50.0 + step, 60.04, None) == pytest.approx(10.04)
        assert clock.taken(10.2, 50.0 + step, 60.16 + step, None) == pytest.approx(10.16)
        later = 10.2 + 2 * IN_FLIGHT_S
        assert clock.taken(later, 50.0 + step, later + 50.0 + step - 1.5, None) == pytest.approx(
            later - 1.5
        )
