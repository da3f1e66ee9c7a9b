"""A run's encoder as the trunk: it stays as it was, and the version needs the run no more."""

import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from robot_rl.classifier import files, training
from robot_rl.classifier.encoder import Encoder
from robot_rl.classifier.options import ClassifierConfig
from robot_rl.classifier.training import train, train_on
from robot_rl.cli.rewards import reward
from robot_rl.learner.checkpoint import save_policy
from robot_rl.networks.encoders import SmallCNN, Vision
from robot_rl.networks.policy import LivePolicy, Policy
from robot_rl.networks.policy_spec import PolicySpec
from robot_rl.types import ActionSpec, ConfigError, DataError
from tests.classifier.synthetic import EYES, SIZE, by_light, episode, step, write_log

OPTIONS = ClassifierConfig(trunk="encoder", encoder="run", steps=10, shift_pixels=1)
EPISODES = [episode(n, "000111") for n in range(10)]
SEEN = [{"image/wrist": by_light(99, each)} for each in (False, True)]
SPEC = PolicySpec(
    (("state/tcp_pose", 6),), ("wrist", "front"), (SIZE, SIZE), ActionSpec.unnamed(6), camera_features=8,
    encoder="goal",
)  # fmt: skip


@pytest.fixture(autouse=True)
def quick(monkeypatch, tmp_path):
    monkeypatch.setattr(training, "HALF", 8)
    monkeypatch.setattr(training, "VARIANTS", 1)
    monkeypatch.chdir(tmp_path)


def policy(**changes) -> LivePolicy:
    spec = replace(SPEC, **changes)
    state = Policy(spec).state_dict()
    return LivePolicy(spec, {name: each.numpy() for name, each in state.items()})


@pytest.mark.parametrize("name", ["goal", "end_to_end", "resnet10"])
def test_the_trunk_stays_what_it_was_and_lies_in_every_version(name, tmp_path):
    encoder = Encoder.of_policy(policy(encoder=name))
    with pytest.raises(ConfigError, match="no classifier 'c'"):
        train(tmp_path / "c", [log(tmp_path)], OPTIONS)
    made = train(tmp_path / "c", [log(tmp_path)], OPTIONS, encoder=encoder)
    loaded = files.load(tmp_path / "c")
    np.testing.assert_array_equal(loaded.probabilities(SEEN), made.probabilities(SEEN))
    # fitted again, as a run does it, it goes on with the trunk of the version before
    train(tmp_path / "c", [log(tmp_path)], made.about.options, seed=1)
    for version in (1, 2):
        trunk = files.load(tmp_path / "c", version).network.trunk_of("wrist").state_dict()
        assert trunk.keys() == encoder.weights["wrist"].keys() and len(trunk) >= 6
        for key, each in trunk.items():
            assert torch.equal(each, encoder.weights["wrist"][key]), (version, key)
    both = [files.load(tmp_path / "c", version).probabilities(SEEN) for version in (1, 2)]
    assert (both[0] != both[1]).any(), "the head is another"


def log(folder: Path) -> Path:
    """Labelled frames, as `outcomes` leaves them."""
    path = folder / "outcomes.log"
    if not path.exists():
        write_log(path, [
            step(n, i, reward=float(i >= 8), terminated=i == 11,
                 observation={"image/wrist": by_light(n, i >= 8)})
            for n in range(10) for i in range(12)
        ])  # fmt: skip
    return path


def test_each_camera_has_the_trunk_that_has_looked_through_it():
    """And what it makes of a picture are the maps that the encoder projects."""
    of = policy()
    encoder = Encoder.of_policy(of)
    inputs = replace(EYES, cameras=("front", "wrist"))
    both = [
        replace(each, images={**each.images, "front": each.images["wrist"]}) for each in EPISODES
    ]
    made = train_on(Path("c"), both, inputs, OPTIONS, encoder=encoder).network
    image = torch.from_numpy(by_light(0, True))[None]
    assert isinstance(of.vision, Vision)
    for camera, cnn in of.vision.cameras.items():
        assert isinstance(cnn, SmallCNN)
        features = torch.tanh(cnn.norm(cnn.project(made.trunk_of(camera)(image).flatten(1))))
        assert torch.equal(features, cnn(image))


def test_what_the_encoder_has_not_learnt_from_is_refused_with_what_there_is():
    encoder = Encoder.of_policy(policy())
    assert encoder.inputs(replace(EYES, size=64), OPTIONS) == EYES, "the size is the encoder's"
    with pytest.raises(ConfigError, match="through wrist, front, and not through side: say --cam"):
        encoder.inputs(replace(EYES, cameras=("wrist", "side")), OPTIONS)
    for options in (replace(OPTIONS, size=64), replace(OPTIONS, crops={"wrist": (0, 0, 0.5, 0.5)})):
        with pytest.raises(ConfigError, match="whole pictures of 32 x 32 pixels"):
            encoder.inputs(replace(EYES, crops=options.crops), options)
    with pytest.raises(ConfigError, match="of 32 x 48 pixels, and those of a classifier are sq"):
        Encoder.of_policy(policy(image_size=(32, 48))).inputs(EYES, OPTIONS)
    with pytest.raises(ConfigError, match="'none', and the trunk of a classifier is one of goal"):
        Encoder.of_policy(policy(encoder="none", cameras=()))
    with pytest.raises(ConfigError, match="'goal_points', and the trunk of a classifier is one of"):
        Encoder.of_policy(policy(encoder="goal_points"))
    train_on(Path("small"), EPISODES, EYES, replace(OPTIONS, trunk="small", encoder=""))
    with pytest.raises(ConfigError, match="has no encoder to go on with: name a run"):
        Encoder.of_classifier(files.load(Path("small")))


def test_an_encoder_of_ones_own_is_refused(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import torch\n\n\nclass Mine(torch.nn.Module):\n"
        "    def forward(self, image):\n        return image.float().mean((1, 2))\n"
    )
    with pytest.raises(ConfigError, match="'module:mine:Mine', and the trunk of a classifier is"):
        Encoder.of_policy(policy(encoder="module:mine:Mine"))


def test_it_is_named_by_its_run_which_may_be_gone_afterwards(tmp_path, capsys):
    state = {name: each.numpy() for name, each in Policy(SPEC).state_dict().items()}
    save_policy(tmp_path / "run" / "checkpoints", 1, SPEC, state)
    words = ["train", "c", "--from", str(log(tmp_path)), "--steps", "5", "--trunk", "encoder"]
    reward([*words, "--encoder", "run"])
    assert re.search("c: version 1, from 40 frames that show success", capsys.readouterr().out)
    shutil.rmtree(tmp_path / "run")
    assert files.load(Path("classifiers/c")).inputs == EYES
    with pytest.raises(DataError, match=r"no usable checkpoint in .*run"):
        reward([*words, "--encoder", "run"])
    with pytest.raises(ConfigError, match="trunk encoder and encoder belong together"):
        reward(words)
