"""What fires: frame by frame and over a whole episode it is one law."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_rl.classifier.score import Firing, Predicates, Rule, episode_score, first_success
from robot_rl.types import ConfigError, DataError

FRAME = st.tuples(
    st.sampled_from([0.0, 0.3, 0.5, 0.6, 0.9, 1.0, float("nan")]), st.booleans(), st.booleans()
)
RULES = st.builds(
    Rule, st.sampled_from([0.6, 0.9]), st.sampled_from([0.3, 0.5, 0.6]), st.integers(1, 4)
)


@given(st.lists(FRAME, max_size=30), RULES)
def test_an_episode_fires_where_the_judge_fires_step_by_step(frames, rule):
    firing = Firing(rule)
    said = [firing.see(p, fresh, allowed) for p, fresh, allowed in frames]
    live = next((i for i, word in enumerate(said) if word == "success"), None)
    fresh = [i for i, frame in enumerate(frames) if frame[1]]
    p = np.array([frames[i][0] for i in fresh])
    allowed = np.array([frames[i][2] for i in fresh], bool)
    fires = first_success(p, allowed, rule)
    assert (None if fires is None else fresh[fires]) == live
    assert (episode_score(p, allowed, rule.frames) >= rule.threshold) == (live is not None)


def test_frames_of_an_episode_before_are_none_in_a_row():
    firing = Firing(Rule(0.9, 0.5, 3))
    assert [firing.see(0.95), firing.see(0.95)] == ["no", "no"]
    firing.begin()
    assert [firing.see(p) for p in (0.95, 0.95, 0.6, 0.95)] == ["no", "no", "doubtful", "doubtful"]
    assert [firing.see(p) for p in (0.95, 0.95)] == ["doubtful", "success"]


@pytest.mark.parametrize("rule", [(0.5, 0.6, 3), (0.0, 0.0, 3), (1.1, 0.5, 3), (0.9, 0.5, 0)])
def test_a_rule_that_cannot_be_kept_is_refused(rule):
    with pytest.raises(ConfigError, match="no rule"):
        Rule(*rule)


def test_predicates_hold_for_every_arm_and_name_what_is_missing():
    low = Predicates(height_below=0.004, width_between=(0.01, 0.03))
    seen = {"judge/height": np.array([0.003, 0.001]), "judge/width": np.array([0.02])}
    assert low.allow(seen) and set(low.bounds) == {"height", "width"}
    assert not low.allow(seen | {"judge/height": np.array([0.003, 0.005])})
    assert not low.allow(seen | {"judge/height": np.array([np.nan])})
    assert Predicates().allow({})
    with pytest.raises(DataError, match="judge/force"):
        Predicates(force_above=3.0).allow(seen)
