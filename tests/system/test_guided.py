"""One demonstration, and nobody: the arm practises along it, as a user starts that."""

import json

import pytest

from robot_rl.types import Provenance
from tests.system.main_job import SHORT, start, steps_of

WIDE = """
from dataclasses import replace
from robot_rl.config import load_task
from robot_rl.types import Use

PEG = load_task("peg_insert")
TASK = replace(PEG, name="peg_seen", reward=Use("simulator"),
               defaults={"demos": 1, "actor.guided": True, "actor.corrections": False,
                         "learner.algorithm": "rlpd_bc"})
"""


@pytest.mark.timeout(400)
def test_an_arm_is_led_along_the_demonstration_and_its_steps_are_nobodys_corrections(tmp_path):
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "peg_seen.py").write_text(WIDE)
    options = [*SHORT, "--demos", "1", "--learner.agent.bc-initial-updates", "300"]
    job = start(tmp_path, "train", "peg_seen", "--name", "run", "--steps", "400", *options)
    code, said = job.finish(350.0)
    assert code == 0, said
    assert "guide " in said
    run = tmp_path / "runs" / "run"
    authors = {step.provenance for _, step in steps_of(run)}
    assert {Provenance.POLICY, Provenance.GUIDE} <= authors
    assert Provenance.HUMAN not in authors
    rows = (run / "episodes.jsonl").read_text().splitlines()
    episodes = [json.loads(row) for row in rows]
    assert sum(episode["success"] for episode in episodes) >= 2, (
        "it leads into scenes nobody showed"
    )
    training = json.loads((run / "training.json").read_text())
    assert training["interventions"] == training["intervention_steps"] == 0
    assert training["guided_steps"] == sum(episode["guided_steps"] for episode in episodes) > 0
    assert training["demonstrations"] == 1


def test_a_bench_that_the_guide_cannot_lead_is_refused_before_anything_moves(tmp_path):
    code, said = start(
        tmp_path, "train", "pick_cube", "--judge", "simulator", "--actor.guided"
    ).finish()
    assert code == 2
    assert "it moves no gripper, and the task does" in said
    assert not (tmp_path / "runs").exists()
