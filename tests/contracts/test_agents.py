"""Every algorithm, the package's and a user's own, keeps one contract; one that breaks it is told
how.
"""

from pathlib import Path

import numpy as np
import pytest

from robot_rl.config import names_of
from robot_rl.learner.contracts import check_agent
from robot_rl.learner.options import AGENTS, LearnerConfig
from robot_rl.learner.schedule import ScheduleConfig
from robot_rl.learner.shown import Shown
from robot_rl.learner.training import Training
from robot_rl.types import ConfigError
from tests.learner.test_training import SPACE, demonstrations

EXAMPLE = Path(__file__).parents[2] / "docs/examples/agents/awac.py"


def place(name: str, text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's own algorithm in the folder where they work."""
    (folder / "agents").mkdir()
    (folder / "agents" / f"{name}.py").write_text(text)
    monkeypatch.chdir(folder)


@pytest.mark.parametrize("name", names_of(AGENTS))
def test_every_algorithm_keeps_the_contract(name: str) -> None:
    assert list(check_agent(name)) == []


def test_the_documented_example_is_short_keeps_the_contract_and_learns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = EXAMPLE.read_text()
    assert text in (EXAMPLE.parents[2] / "algorithms.md").read_text()
    assert sum(bool(line) for line in text.splitlines()) <= 25
    place("awac", text, tmp_path, monkeypatch)
    assert list(check_agent("awac")) == []
    options = {"hidden": (32, 32), "batch_size": 32, "temperature": 0.5}
    config = LearnerConfig("awac", options, ScheduleConfig(start_steps=0), compile=False)
    assert config.agent.temperature == 0.5
    training = Training(SPACE, config, seed=0, run_steps=10)
    training.load_demonstrations(Shown.of(demonstrations()))
    losses = []
    for _ in range(2):
        training.update(100)
        losses.append(training.metrics())
    for name in ("critic_loss", "actor_loss"):
        assert np.isfinite(losses[1][name]) and losses[1][name] < losses[0][name]


BREAKS = {
    "return {}\nConfig = 3": "holds no dataclass `Config(AgentConfig)`",
    "raise RuntimeError('of its own')": "RuntimeError: of its own",
    "return {'loss': self.step('policy_optimizer', self.loss(batch)) * float('nan')}": (
        "its figure loss is nan"
    ),
    "return {'loss': self.step('policy_optimizer', self.loss(batch))}": "self.follow_average()",
    "self.follow_average(); return {'loss': self.loss(batch)}": "detach them",
    "self.n = getattr(self, 'n', 0) + 1; self.step('policy_optimizer', self.loss(batch) * self.n)"
    "; self.follow_average(); return {}": ("restored it goes on otherwise"),
    "batch['action'].zero_(); self.step('policy_optimizer', self.loss(batch)); return {}": (
        "writes into its batch"
    ),
}


@pytest.mark.parametrize(("body", "said"), BREAKS.items(), ids=BREAKS.values())
def test_what_breaks_the_contract_is_told(
    body: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"""
from robot_rl.learner.agents._parts import AgentConfig as Config, BaseAgent
class Agent(BaseAgent):
    def loss(self, batch):
        return (self.policy.head(self.features(batch))[0] - batch["action"]).square().mean()
    def update(self, batch, env_steps=0):
        {body}
"""
    place("mine", text, tmp_path, monkeypatch)
    assert said in " ".join(check_agent("mine"))


def test_options_go_with_the_algorithm() -> None:
    """Changed ones go along to another algorithm that has them; unknown ones are told with the
    nearest.
    """
    learner = LearnerConfig(agent={"learning_rate": 1e-3, "critics": 3})
    assert (learner.agent.critics, learner.agent.learning_rate) == (3, 1e-3)
    cloned = LearnerConfig("bc", learner.agent)
    assert (cloned.agent.learning_rate, cloned.agent.bc_initial_updates) == (1e-3, 20_000)
    copies = LearnerConfig("rlpd_bc", learner.agent)
    assert (copies.agent.critics, copies.agent.bc_weight) == (3, 20.0)
    again = LearnerConfig("rlpd", LearnerConfig("rlpd_bc", {"critics": 3}).agent)
    assert (again.agent.critics, again.agent.bc_weight) == (3, 2.0), "what was not changed stays"
    with pytest.raises(ConfigError, match=r"agent: critics is not a known key"):
        LearnerConfig("bc", {"critics": 3})
    with pytest.raises(ConfigError, match="learning_rate must be more than 0"):
        LearnerConfig("bc", {"learning_rate": 0.0})
