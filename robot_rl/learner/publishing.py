"""The policy on its way out: each version to subscribers, a whole one answers a call."""

from typing import Any

from robot_rl.learner.health import WeightsAge
from robot_rl.learner.training import Training
from robot_rl.links.calls import packed
from robot_rl.links.weights import WeightsPublisher
from robot_rl.types import Array


class Publishing:
    """What a `Training` has learnt goes out, as `version`; `age` is that of what comes back."""

    def __init__(self, address: str, training: Training):
        self._link = WeightsPublisher(address)
        self._training = training
        self.version = 0
        self.judge = 0
        """The version of the run's judge that goes out with it; 0: none."""
        self.age = WeightsAge()
        self.averaged_taken = False
        """Whether the newest policy that was asked for is the one for use after the run."""
        self._updates = 0
        self._packed: dict[bool, tuple[tuple[int, ...], bytes]] = {}  # the newest, by `averaged`

    @property
    def updates_since(self) -> int:
        """Updates that were made since a version was published."""
        return self._training.governor.updates - self._updates

    def publish(self, version: int) -> None:
        """What there is now goes out under this number."""
        self.version, self._link.judge = version, self.judge
        self._link.publish(version, self._training.publishable())
        self._updates = self._training.governor.updates
        self.age.published(version, self._updates)

    def answer(self, body: dict[str, Any], _: dict[str, Array]) -> tuple[dict[str, Any], bytes]:
        """Architecture and all weights: the newest for an actor that begins, the averaged ones for
        use afterwards.

        The newest are those of the version that is published, and made ready once for all who ask.
        """
        self.averaged_taken = averaged = bool(body.get("averaged"))
        training = self._training
        updates = training.governor.updates if averaged else 0
        state = self.version, updates, training.offline_updates, training.pretraining.renewals
        made_of, weights = self._packed.get(averaged, ((), b""))
        if made_of != state:
            weights = packed(training.averaged_policy() if averaged else training.policy())
            self._packed[averaged] = state, weights
        return {"spec": training.spec.to_json(), "version": self.version}, weights

    def close(self) -> None:
        """Let go of the link."""
        self._link.close()
