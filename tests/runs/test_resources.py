"""A run that would not fit is refused before it begins."""

import pytest

from robot_rl import config
from robot_rl.config.run_folder import RunFolder
from robot_rl.config.run_settings import RunSettings
from robot_rl.learner.options import LearnerConfig
from robot_rl.learner.pretrain import PretrainConfig
from robot_rl.runs import resources
from robot_rl.types import SpaceSpec


def make_run(place, learner=None, **settings) -> RunFolder:
    sections = {
        "run": RunSettings("peg_insert", "sim_panda", **settings),
        "learner": learner or LearnerConfig(),
    }
    return RunFolder.create(place, sections)


@pytest.fixture
def roomy(monkeypatch):
    """A machine with room for any run: what a run needs does not hang on what is free here."""
    has(monkeypatch, memory=1e15, disk=1e15)


def has(monkeypatch, memory: float, disk: float):
    monkeypatch.setattr(resources, "available_memory", lambda: int(memory))
    monkeypatch.setattr(
        resources.shutil, "disk_usage", lambda path: type("Usage", (), {"free": disk})
    )


def test_a_step_is_as_large_as_its_images_and_numbers():
    space = SpaceSpec.unnamed(
        {"state/a": ((6,), "float32"), "image/b": ((128, 128, 3), "uint8")}, 6
    )
    assert 128 * 128 * 3 + 6 * 4 < resources.step_bytes(space) < 128 * 128 * 3 + 500


def test_the_need_is_told_beside_what_there_is(tmp_path):
    said = resources.check_resources(make_run(tmp_path / "run", obs="state", steps=100))
    assert "GB of memory (" in said and "GB of disk (" in said
    assert 0 < resources.available_memory() < 1e14


def test_an_encoder_that_is_renewed_needs_room_for_the_frames_of_own_successes(tmp_path, roomy):
    said = [
        resources.check_resources(
            make_run(
                tmp_path / f"{at}", LearnerConfig(pretrain=pretrain), obs="pixels", steps=5_000
            )
        )
        for at, pretrain in (
            ("never", PretrainConfig(renew_at=())),
            ("once", PretrainConfig(renew_at=(500,))),
        )
    ]
    never, once = (float(line.split()[2]) for line in said)
    demos = RunSettings("", "").demos * config.load_task("peg_insert").max_steps
    assert once - never == pytest.approx(2 * (5_000 - demos) * 98_700 / 1e9, abs=0.11)


def test_the_steps_of_the_evaluation_need_room_on_the_disk(tmp_path, roomy):
    none, many = (
        float(
            resources.check_resources(
                make_run(tmp_path / f"{n}", steps=1_000, eval_episodes=n)
            ).split()[10]
        )
        for n in (0, 100)
    )
    steps = 2 * 100 * config.load_task("peg_insert").max_steps  # sampled and greedy
    assert many - none == pytest.approx(resources.OVERHEAD * steps * 98_700 / 1e9, abs=0.11)


def test_demonstrations_that_take_most_of_the_steps_make_the_run_longer(tmp_path, roomy):
    few, many = (
        float(
            resources.check_resources(
                make_run(tmp_path / f"{demos}", steps=4_000, demos=demos, wander_steps=0)
            ).split()[10]
        )
        for demos in (20, 100)
    )
    shown = 100 * config.load_task("peg_insert").max_steps
    more = shown + 4_000 // 2 - 4_000  # half of them are the policy's own in any case
    assert many - few == pytest.approx(resources.OVERHEAD * more * 98_700 / 1e9, abs=0.11)


@pytest.mark.parametrize("short_of", ["memory", "disk", "nothing"])
@pytest.mark.parametrize("encoder", ["goal", "end_to_end", "resnet10"])
def test_a_run_that_would_not_fit_is_refused(encoder, short_of, tmp_path, monkeypatch):
    """The log holds 12 GB of frames; so does the replay, or as much of maps, or next to nothing."""
    learner = LearnerConfig(encoder=encoder, encoder_weights="x")
    folder = make_run(tmp_path / "run", learner, obs="pixels", steps=100_000)
    memory = 4e9 if encoder != "goal" else 2e9
    memory, disk = {"memory": (memory, 1e15), "disk": (1e15, 4e9), "nothing": (20e9, 20e9)}[
        short_of
    ]
    has(monkeypatch, memory, disk)
    if short_of == "nothing":
        resources.check_resources(folder)
        return
    with pytest.raises(resources.NotEnoughRoom, match=r"shorten it with --steps"):
        resources.check_resources(folder)
