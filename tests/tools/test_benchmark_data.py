"""The benchmark of the data plane measures every part, and does without the replay buffers of
others.
"""

import json
from pathlib import Path

import pytest

from benchmarks import data

TINY = data.Sizes(
    replay_steps=120, batch=16, rounds=1, batches=2, burst_steps=64, burst_rounds=1, sustained_steps=64,
    spool_steps=4, fleet_s=0.2,
    megabytes=0.1, versions=2, slow_versions=10, slow_s=0.05, log_steps=100, pixel_log_steps=50,
)  # fmt: skip


@pytest.mark.slow
def test_every_part_is_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(data, "PEERS", tmp_path / "none")
    data.run(json=True, folder=tmp_path, sizes=TINY)
    values = json.loads(capsys.readouterr().out)
    assert values.pop("machine")["cores"] >= 1
    for name in data.OTHERS:
        assert values.pop(f"{name}_percent_of_memcpy") is None
    assert len(values) >= 19
    values.pop("weights_slow_oldest_ms")  # a machine that is slow enough never looks in time
    assert all(value > 0.0 for value in values.values())
    assert values["step_bytes"] < 98_500
    assert not list(tmp_path.iterdir())


def test_a_goal_that_is_missed_is_called_so() -> None:
    assert data.Figure("a", 9.0, "1/s", goal=10.0).verdict == ">= 10: MISSED"
    assert data.Figure("a", 9.0, "ms", goal=10.0, at_most=True).verdict == "<= 10: met"
    assert data.Figure("a", 9.0, "ms").verdict == ""
