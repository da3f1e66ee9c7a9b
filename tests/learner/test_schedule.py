"""Updates follow steps, within bounds either way."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_rl.learner.schedule import ScheduleConfig, UtdSchedule, linear_decay
from robot_rl.types import ConfigError


@given(
    utd=st.floats(0.0, 20.0),
    start=st.integers(0, 200),
    behind=st.integers(1, 500),
    arrivals=st.lists(st.tuples(st.integers(0, 300), st.integers(0, 400)), max_size=30),
)
def test_updates_never_exceed_the_ratio_and_debt_never_its_bound(
    utd: float, start: int, behind: int, arrivals: list[tuple[int, int]]
) -> None:
    governor, steps = UtdSchedule(ScheduleConfig(utd, start, behind)), 0
    for arrived, affordable in arrivals:
        steps += arrived
        due = governor.due(steps)
        assert 0 <= due <= behind
        governor.count(min(due, affordable))
        assert governor.updates <= utd * max(0, steps - start)
        assert governor.due(steps) == max(0, due - affordable)


def test_a_pause_of_the_robot_is_a_pause_of_the_learner() -> None:
    governor = UtdSchedule(ScheduleConfig(utd=4.0, start_steps=0))
    governor.count(governor.due(100))
    assert governor.updates == 400
    assert governor.due(100) == 0


def test_what_is_granted_is_due_besides() -> None:
    governor = UtdSchedule(ScheduleConfig(utd=4.0, start_steps=0))
    governor.count(governor.due(100))
    governor.grant(30)
    assert governor.due(101) == 34
    governor.count(34)
    assert governor.due(101) == 0


def test_weight_decays_linearly_to_zero_and_stays_there() -> None:
    assert [linear_decay(2.0, 100, step) for step in (0, 50, 100, 1000)] == [2.0, 1.0, 0.0, 0.0]
    assert linear_decay(2.0, 0, 0) == 0.0


def test_impossible_schedules_are_refused() -> None:
    with pytest.raises(ConfigError, match="utd"):
        ScheduleConfig(utd=-1.0)
