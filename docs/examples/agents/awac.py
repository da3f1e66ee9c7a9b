"""AWAC (arXiv 2006.09359), std fixed: actions count by how far they beat the policy's own."""

from dataclasses import dataclass

from robot_rl.learner.agents._parts import AgentConfig, BaseAgent
from robot_rl.networks.critic import Critics


@dataclass(frozen=True)
class Config(AgentConfig):
    temperature: float = 0.3  # an action that is better by so much counts e times as much


class Agent(BaseAgent):
    def networks(self):
        size = self.policy.feature_size + self.spec.action_size
        return {name: Critics(size, self.config.hidden, 2) for name in ("critics", "targets")}

    def update(self, batch, env_steps=0):
        critics, targets = self.modules["critics"], self.modules["targets"]
        seen, later = self.features(batch), self.features(batch, "next")
        own, after = (self.policy.head(f)[0].tanh() for f in (seen, later))
        value = batch["reward"] + 0.97 * (1 - batch["terminated"]) * targets(later, after).amin(0)
        q = critics(seen, batch["action"])
        critic_loss = self.step("critics_optimizer", (q - value.detach()).square().mean())
        better = (q - critics(seen, own)).amin(0).detach() / self.config.temperature
        misses = (own - batch["action"]).square().sum(-1)
        actor_loss = self.step("policy_optimizer", (better.exp().clamp(max=20.0) * misses).mean())
        self.follow("targets", "critics", 0.005)
        self.follow_average()
        return {"critic_loss": critic_loss, "actor_loss": actor_loss}
