"""A training whose cameras fail: it waits, says so, goes on by itself, and has every step that was
seen, once.
"""

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from robot_rl import config
from robot_rl.actor.episodes import OVER
from robot_rl.cameras import lines_for_file
from robot_rl.config.run_folder import RunFolder
from robot_rl.links.status import StatusReader
from robot_rl.types import Mark, MarkKind, Step
from tests.cameras.bench import Mjpeg
from tests.system.main_job import entries_of, lines, require_every_step_once, start

pytestmark = pytest.mark.real_clock

STEPS = 220  # a demonstration takes up to 110 of them, on a busy machine
OPTIONS = ["--obs", "pixels", "--clock", "real", "--demos", "1", "--wander-steps", "10", "--steps", str(STEPS),
           "--eval-episodes", "0", "--learner.no-compile", "--learner.pretrain.epochs", "2",
           "--learner.agent.batch-size", "16", "--learner.agent.critics", "2",
           "--learner.agent.bc-initial-updates", "0"]  # fmt: skip


@pytest.fixture
def cameras():
    made = {name: Mjpeg() for name in ("wrist", "front")}
    patient = made[
        "wrist"
    ].config  # not late by itself on a busy machine: it is the front one that fails
    made["wrist"].config = replace(patient, options={**patient.options, "max_age_s": 5.0})
    yield made
    for camera in made.values():
        camera.close()


def write_bench(place: Path, cameras: dict[str, Mjpeg]) -> None:
    """The simulated bench, with network cameras in place of the drawn ones."""
    (place / "hardware_configs").mkdir()
    arms, rest = (
        (config.PACKAGE.parent / "hardware_configs" / "sim_panda.yaml")
        .read_text()
        .split("cameras:")
    )
    listed = ["cameras:"]
    for name, camera in cameras.items():
        listed += lines_for_file(replace(camera.config, name=name)).splitlines()[1:]
    teleop = rest[rest.index("teleop:") :]
    (place / "hardware_configs" / "bench.yaml").write_text("\n".join([arms, *listed, teleop]))


def is_within_an_episode(run: Path) -> bool:
    *_, (_, last) = entries_of(run)
    return (
        isinstance(last, Step)
        and last.index in range(2, 8)
        and not (last.terminated or last.truncated)
    )


@pytest.mark.timeout(600)
def test_training_waits_for_a_camera_and_goes_on_by_itself(tmp_path, cameras, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_bench(tmp_path, cameras)
    job = start(tmp_path, "train", "peg_insert", "--hardware", "bench", "--name", "seen", *OPTIONS)
    run = tmp_path / "runs" / "seen"
    job.wait_for(lambda: lines(run / "episodes.jsonl") >= 1)
    status = StatusReader({"actor": RunFolder(run).settings.actor_status_address})

    def waits() -> bool:
        latest = status.latest().get("actor")
        return latest is not None and latest.phase == "waiting"

    job.wait_for(lambda: is_within_an_episode(run))
    cameras["front"].unplug()
    job.wait_for(waits)
    reason = status.latest()["actor"].reason
    assert "camera 'front'" in reason and "s old" in reason
    episodes = lines(run / "episodes.jsonl")
    time.sleep(1.0)
    assert waits() and lines(run / "episodes.jsonl") == episodes
    cameras["front"].plug()
    code, said = job.finish(150.0)
    status.close()
    assert code == 0, said
    assert "the arm holds, and training waits: camera 'front'" in said

    require_every_step_once(run, STEPS)
    entries = [entry for _, entry in entries_of(run)]
    marks = [entry for entry in entries if isinstance(entry, Mark)]
    assert "camera 'front'" in marks[0].reason
    for mark in marks:  # on a busy machine there may be more than the one that was made
        of_it = [
            entry for entry in entries if isinstance(entry, Step) and entry.episode == mark.episode
        ]
        assert mark.kind == MarkKind.TRUNCATED and entries[entries.index(mark) - 1] is of_it[-1]
        assert not of_it[-1].terminated and not of_it[-1].truncated
    rows = [json.loads(line) for line in (run / "episodes.jsonl").read_text().splitlines()]
    assert [row["episode"] for row in rows if row["broken_off"]] == [mark.episode for mark in marks]
    assert all((row["reason"] not in ("", OVER)) == row["broken_off"] for row in rows)
