"""Watching a long run costs what is new in its tables, however long it is."""

from typing import Any

from benchmarks.tables import LOOKS_PER_S, write_tables
from robot_rl.dataset.counts import EPISODES, Progress
from robot_rl.machine.small_files import Tail, row_of
from robot_rl.runs.progress import Newest
from robot_rl.runs.report import METRICS
from robot_rl.runs.train import AT_ONCE


def test_a_look_reads_what_is_new_however_long_the_run_is(tmp_path, monkeypatch):
    parsed = [0, 0]

    def counted(line):
        parsed[0] += 1
        parsed[1] += len(line)
        return row_of(line)

    monkeypatch.setattr("robot_rl.machine.small_files.row_of", counted)
    paths = write_tables(tmp_path, 500_000)
    assert sum(path.stat().st_size for path in paths) > 40 * AT_ONCE
    tails: list[Tail[Any]] = [Tail(paths[0], Newest, METRICS, at_most=AT_ONCE, newest=AT_ONCE),
             Tail(paths[1], Progress, EPISODES, at_most=AT_ONCE, newest=AT_ONCE)]  # fmt: skip
    assert [tail.read().env_steps for tail in tails] == [500_000, 500_000]
    assert parsed[1] <= 2 * AT_ONCE + 2_000, "the first look is bounded"
    parsed[:] = [0, 0]
    for look in range(100):
        for path in paths:
            with path.open("a") as file:
                file.write(
                    paths[0].open().readline().replace('"env_steps": 50', f'"env_steps": {look}')
                )
        assert tails[0].read().env_steps == look
    assert parsed[0] == 100, "each line is read once"
    assert tails[1].read().recent.episodes == 20 and LOOKS_PER_S > 0
