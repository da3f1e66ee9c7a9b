"""Laws of the statistics: the numbers are those of the steps, and what looks wrong is said in
words.
"""

from dataclasses import replace

import numpy as np
import pytest

from robot_rl.dataset.assembly import Episode, EpisodeKey
from robot_rl.dataset.statistics import QUANTILES, Collector, Statistics, percent
from robot_rl.types import Provenance

T = 50


def make_episode(**changes) -> Episode:
    """An episode with nothing wrong, but for `changes`."""
    rng = np.random.default_rng(0)
    action = rng.uniform(-0.9, 0.9, (T, 3)).astype(np.float32)
    frames = rng.integers(0, 256, (T + 1, 8, 8, 3)).astype(np.uint8)
    times = 0.1 * np.arange(T + 1)
    ends = np.arange(T) == T - 1
    episode = Episode(
        key=EpisodeKey("arm", 1, 0),
        source="steps",
        end="terminated",
        success=True,
        observations={
            "image/front": frames,
            "state/q": rng.normal(size=(T + 1, 2)).astype(np.float32),
        },
        proposed=action,
        commanded=action,
        executed=action,
        reward=ends.astype(np.float64),
        terminated=ends,
        truncated=np.zeros(T, bool),
        provenance=np.full(T, Provenance.POLICY, np.uint8),
        weights_version=np.zeros(T, np.int64),
        t_monotonic=times,
        t_wall=times + 1e9,
    )
    return replace(episode, **changes)


def statistics(*episodes: Episode, rate_hz: float | None = 10.0) -> Statistics:
    collector = Collector(rate_hz)
    for episode in episodes:
        collector.add(episode)
    return collector.result()


def test_numbers_are_those_of_all_steps():
    found = statistics(make_episode(), make_episode())
    values = np.concatenate([make_episode().states["state/q"]] * 2)[:, 1].astype(np.float64)
    (entry,) = [entry for entry in found.observations if entry.name == "state/q[1]"]
    assert (entry.min, entry.max) == (values.min(), values.max())
    assert (entry.mean, entry.std) == pytest.approx((values.mean(), values.std()))
    assert entry.quantiles == pytest.approx(np.quantile(values, QUANTILES))
    assert (found.episodes, found.steps, found.successes, found.attempts) == (2, 2 * T, 2, 2)


def test_good_episodes_raise_no_warning():
    assert statistics(make_episode()).warnings == ()


def warned(**changes) -> str:
    (warning,) = statistics(make_episode(**changes)).warnings
    return warning


def test_a_dead_action_is_named():
    action = make_episode().executed.copy()
    action[:, 2] = 0.0
    assert warned(proposed=action, commanded=action, executed=action) == "action 2 never moves"


def test_an_action_at_its_limit_is_named():
    action = make_episode().executed.copy()
    action[: T // 2, 1] = 1.0
    found = statistics(make_episode(proposed=action, commanded=action, executed=action))
    assert found.clipped == pytest.approx((0.0, 0.5, 0.0))
    assert found.warnings == (
        "action 1 is at its limit in 50% of the steps: its scale may be too small",
    )


def test_a_hand_is_always_ordered_and_mostly_so_already():
    commanded = make_episode().executed.copy()
    commanded[:, 2] = -1.0
    collector = Collector(10.0, choices=(2,))
    collector.add(replace(make_episode(), commanded=commanded))
    found = collector.result()
    assert found.warnings == () and found.differs == 0.0 and found.clipped[2] == 0.0


def test_what_was_not_executed_is_counted():
    executed = make_episode().executed.copy()
    executed[:15] *= 0.5
    assert warned(executed=executed).startswith(
        "executed differs from commanded in 30% of the steps"
    )


def test_a_frozen_camera_is_named():
    frames = make_episode().observations["image/front"].copy()
    frames[10:17] = frames[10]
    episode = make_episode()
    observations = {**episode.observations, "image/front": frames}
    (camera,) = statistics(replace(episode, observations=observations)).cameras
    assert (camera.repeats, camera.longest_repeat, camera.frames) == pytest.approx((
        6 / T,
        6,
        T + 1,
    ))
    assert (
        warned(observations=observations)
        == "camera front repeats 12% of its frames, up to 6 in a row"
    )


def test_frames_of_two_episodes_are_not_compared():
    still = make_episode().observations["image/front"][:1]
    short = make_episode(
        observations={"image/front": still, "state/q": np.zeros((1, 2), np.float32)},
        **{name: np.zeros((0, 3), np.float32) for name in ("proposed", "commanded", "executed")},
        **{
            name: np.zeros(0, bool)
            for name in ("reward", "terminated", "truncated", "provenance", "weights_version")
        },
        t_monotonic=np.zeros(1),
        t_wall=np.zeros(1),
    )
    (camera,) = statistics(short, short).cameras
    assert (camera.frames, camera.repeats) == (2, 0.0)


def test_a_dark_camera_is_named():
    observations = {**make_episode().observations}
    observations["image/front"] = observations["image/front"] // 64
    assert warned(observations=observations).startswith("camera front is dark")


def test_late_steps_are_named():
    times = make_episode().t_monotonic.copy()
    times[20:] += 0.3
    found = statistics(make_episode(t_monotonic=times))
    assert found.timing is not None
    assert (found.timing.late, found.timing.max_s) == pytest.approx((1 / T, 0.4))
    assert found.warnings[0].startswith("2.0% of the steps are late: the period should be 100 ms")


def test_without_a_known_rate_the_median_is_the_measure():
    found = statistics(make_episode(), rate_hz=None)
    assert found.timing is not None and found.timing.nominal_s == pytest.approx(0.1)


def test_interventions_are_a_share_of_policy_and_operator():
    authors = np.full(T, Provenance.POLICY, np.uint8)
    authors[10:20] = authors[30:40] = Provenance.HUMAN
    demo = make_episode(provenance=np.full(T, Provenance.DEMO, np.uint8))
    found = statistics(demo, make_episode(provenance=authors))
    assert (found.corrections, found.intervention_share) == pytest.approx((2, 20 / T))


def test_a_script_is_no_attempt():
    found = statistics(
        make_episode(provenance=np.full(T, Provenance.SCRIPT, np.uint8), end="cut off")
    )
    assert (found.attempts, found.ends) == (0, {"cut off": 1})


def test_nothing_recorded_is_said_so():
    assert statistics().warnings == ("there is no step in it yet",)


@pytest.mark.parametrize(
    ("share", "said"),
    [(0.0, "0.0%"), (0.004, "0.4%"), (0.12, "12%"), (0.999, "99.9%"), (1, "100%")],
)
def test_shares_have_as_many_digits_as_they_need(share, said):
    assert percent(share) == said
