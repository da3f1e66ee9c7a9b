"""One observation is computed on one core, whatever else this process computes on."""

import pytest
import torch

from robot_rl.networks.policy import LivePolicy
from robot_rl.networks.policy_spec import PolicySpec
from tests.classifier.synthetic import at_height, by_height
from tests.networks.test_policy import SPACE, observe


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    after = torch.get_num_threads()
    torch.set_num_threads(before)
    assert after == 2, "what trains in this process has its threads back"


@pytest.fixture
def used(monkeypatch):
    """How many threads whatever is computed by a layer has been given."""
    counts: list[int] = []
    forward = torch.nn.functional.linear

    def linear(*given, **named):
        counts.append(torch.get_num_threads())
        return forward(*given, **named)

    monkeypatch.setattr(torch.nn.functional, "linear", linear)
    return counts


def test_an_action(two_threads, used):
    LivePolicy(PolicySpec.from_space(SPACE, "end_to_end"), {}).act(observe())
    assert used and set(used) == {1}


def test_a_judgement(two_threads, used, tmp_path):
    judge = by_height(tmp_path)
    used.clear()
    judge.judge(at_height(0.1))
    assert used and set(used) == {1}
