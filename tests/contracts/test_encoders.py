"""Every encoder, the package's and a user's own, keeps one contract; one that breaks it is told
how.
"""

from pathlib import Path

import numpy as np
import pytest

from robot_rl.learner.contracts import check_encoder
from robot_rl.learner.shown import Shown
from robot_rl.networks.vision import ENCODERS
from robot_rl.types import Provenance
from tests.learner.test_training import PIXEL_DEMOS, pixel_steps, pixel_training

EXAMPLE = Path(__file__).parents[2] / "docs/examples/encoders/thumbnail.py"


def place(name: str, text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's own encoder in the folder where they work."""
    (folder / "encoders").mkdir()
    (folder / "encoders" / f"{name}.py").write_text(text)
    monkeypatch.chdir(folder)


@pytest.mark.parametrize("name", ENCODERS)
def test_every_encoder_keeps_the_contract(name: str) -> None:
    assert list(check_encoder(name)) == []


def test_the_documented_example_is_short_keeps_the_contract_and_learns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = EXAMPLE.read_text()
    assert text in (EXAMPLE.parents[2] / "seeing.md").read_text()
    assert sum(bool(line) for line in text.splitlines()) <= 25
    place("thumbnail", text, tmp_path, monkeypatch)
    assert list(check_encoder("thumbnail")) == []
    training = pixel_training("thumbnail", tmp_path)
    training.load_demonstrations(Shown.of(PIXEL_DEMOS))
    training.add(pixel_steps(Provenance.POLICY, episode=1))
    losses = []
    for _ in range(2):
        training.update(40)
        losses.append(training.metrics()["critic_loss"])
    assert np.isfinite(losses[1]) and losses[1] < losses[0]


BREAKS = {
    "torch.rand(len(image), 4)": "otherwise the second time",
    "image.float().flatten(1)[:, :4] / image.float().mean()": "seen otherwise beside others",
    "image": "wanted float",
    "image.nothing": "fails on a uint8 image",
}


@pytest.mark.parametrize(("given", "said"), BREAKS.items(), ids=BREAKS.values())
def test_what_breaks_the_contract_is_told(
    given: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"""
import torch
class Encoder(torch.nn.Module):
    frozen = True
    def forward(self, image):
        return {given}
"""
    place("mine", text, tmp_path, monkeypatch)
    assert said in " ".join(check_encoder("mine"))
