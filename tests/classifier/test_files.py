"""A version is whole or not there, and a damaged one says what to do."""

import json

import numpy as np
import pytest

from robot_rl.classifier import files
from robot_rl.classifier.files import load
from robot_rl.machine.versions import versions_in
from robot_rl.types import ConfigError, DataError, RobotRLError
from tests.classifier.synthetic import at_height, by_height


def test_what_was_written_judges_alike_when_it_is_loaded(tmp_path):
    made = by_height(tmp_path / "c")
    newer = by_height(tmp_path / "c", gain=-10.0)
    seen = [at_height(h) for h in (-0.3, 0.0, 0.3)]
    np.testing.assert_allclose(
        load(tmp_path / "c", 1).probabilities(seen), made.probabilities(seen)
    )
    assert made.probability(seen[2]) == pytest.approx(1 / (1 + np.exp(-3.0)), abs=1e-6)
    assert load(tmp_path / "c").version == newer.version == 2
    assert load(tmp_path / "c").probability(seen[2]) < 0.1
    assert made.probabilities([]).shape == (0,)
    assert load(tmp_path / "c", 1).about == made.about


def test_a_version_without_its_last_file_is_none(tmp_path, monkeypatch):
    by_height(tmp_path / "c")

    def killed(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(files, "write_json", killed)
    with pytest.raises(KeyboardInterrupt):
        by_height(tmp_path / "c")
    monkeypatch.undo()
    assert versions_in(tmp_path / "c") == [1] and load(tmp_path / "c").version == 1
    assert by_height(tmp_path / "c").version == 2


def test_there_is_none_of_that_name_or_version(tmp_path):
    with pytest.raises(
        ConfigError, match=r"no classifier 'c' in .* robot-rl reward train c --from"
    ):
        load(tmp_path / "c")
    by_height(tmp_path / "c")
    with pytest.raises(ConfigError, match=r"no version 3 of classifier 'c'.*there are versions 1"):
        load(tmp_path / "c", 3)
    assert not issubclass(ConfigError, DataError)


def cut(path):
    path.write_bytes(path.read_bytes()[:100])


def flip(path):
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(data)


def changed(path):
    data = json.loads(path.read_text())
    data["rule"]["threshold"] = 0.1
    path.write_text(json.dumps(data))


def of_another(path):
    data = json.loads(path.read_text())
    del data["crc32"]
    path.write_text(json.dumps(data | {"inputs": {"cameras": ["wrist", "front"], "size": 64}}))


@pytest.mark.parametrize(
    ("file", "damage"),
    [
        ("v0001.safetensors", cut),
        ("v0001.safetensors", flip),
        ("v0001.safetensors", lambda path: path.unlink()),
        ("v0001.json", cut),
        ("v0001.json", changed),
        ("v0001.json", of_another),
        ("v0001.json", lambda path: path.write_text("{}")),
        ("v0001.json", lambda path: path.write_text("[1, 2]")),
    ],
)
def test_a_damaged_file_is_named_with_what_to_do(tmp_path, file, damage):
    by_height(tmp_path / "c")
    damage(tmp_path / "c" / file)
    with pytest.raises(RobotRLError, match="version 1 of classifier 'c' is damaged: ") as error:
        load(tmp_path / "c")
    assert isinstance(error.value, DataError) and "reward train c --from" in str(error.value)


def test_a_disk_that_refuses_is_said_and_leaves_what_there_was(tmp_path):
    by_height(tmp_path / "c")
    (tmp_path / "c" / ".writing_v0002.safetensors").mkdir()
    with pytest.raises(DataError, match=r"v0002\.safetensors cannot be written"):
        by_height(tmp_path / "c")
    assert versions_in(tmp_path / "c") == [1]
