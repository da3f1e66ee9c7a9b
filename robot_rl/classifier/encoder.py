"""The encoder of a run as the trunk of a classifier: frozen, and copied into each version, so that
this needs neither the run nor the learner.

Of the small CNN per camera ("goal", "end_to_end") its maps are taken, before they are projected:
the projection keeps where the goal is, or what a policy needs, and a success may be seen in what it
leaves out (figures: docs/rewards.md). A ResNet-10 gives nothing but its maps.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from torch import Tensor

from robot_rl.classifier.files import Classifier
from robot_rl.classifier.network import Network, Trunk
from robot_rl.classifier.options import ClassifierConfig, Inputs
from robot_rl.networks.encoders import SmallCNN, SmallMaps, Vision
from robot_rl.networks.policy import LivePolicy
from robot_rl.networks.resnet10 import ResNet10
from robot_rl.networks.trunks import TrunkVision
from robot_rl.types import ConfigError

OTHERWISE = "name another run, or take --trunk small"


@dataclass(frozen=True)
class Encoder:
    """A trunk for each camera that an encoder looks through, and the size of its pictures."""

    trunk: Trunk
    image_size: tuple[int, int]
    weights: Mapping[str, Mapping[str, Tensor]]

    @classmethod
    def of_policy(cls, policy: LivePolicy) -> "Encoder":
        """That of a run's policy. Raises ConfigError where it has none that can be taken."""
        spec, vision = policy.spec, policy.vision
        if isinstance(vision, Vision) and spec.info.network is SmallCNN:
            convolutions = SmallMaps().state_dict()
            each = [
                {name: cnn.state_dict()[name] for name in convolutions}
                for cnn in vision.cameras.values()
            ]
            return cls("encoder", spec.image_size, dict(zip(spec.cameras, each, strict=True)))
        if isinstance(vision, TrunkVision) and isinstance(vision.trunks[0], ResNet10):
            weights = vision.trunks[0].state_dict()
            return cls("resnet10", spec.image_size, dict.fromkeys(spec.cameras, weights))
        raise ConfigError(
            f"that run's encoder is {spec.encoder!r}, and the trunk of a classifier is one of goal,"
            f" end_to_end, resnet10: {OTHERWISE}"
        )

    @classmethod
    def of_classifier(cls, classifier: Classifier) -> "Encoder":
        """The frozen trunk of a version. Raises ConfigError where it has none."""
        network, size = classifier.network, classifier.inputs.size
        if not network.frozen:
            raise ConfigError(
                f"version {classifier.version} has no encoder to go on with: name a run, with"
                " --trunk encoder --encoder RUN"
            )
        cameras = classifier.inputs.cameras
        weights = {camera: network.trunk_of(camera).state_dict() for camera in cameras}
        return cls(network.trunk, (size, size), weights)

    def inputs(self, inputs: Inputs, options: ClassifierConfig) -> Inputs:
        """What a classifier with it looks at. Raises ConfigError for what it has not learnt from."""
        height, width = self.image_size
        if height != width:
            raise ConfigError(
                f"that run's encoder looks at pictures of {height} x {width} pixels, and those of a"
                f" classifier are square: {OTHERWISE}"
            )
        if strange := set(inputs.cameras) - set(self.weights):
            raise ConfigError(
                f"that run's encoder looks through {', '.join(self.weights)}, and not through"
                f" {', '.join(sorted(strange))}: say --cameras with some of its own, or {OTHERWISE}"
            )
        if inputs.crops or options.size not in (0, height):
            raise ConfigError(
                f"that run's encoder has learnt from whole pictures of {height} x {width} pixels,"
                f" not from crops or other sizes: leave out --crops and --size, or {OTHERWISE}"
            )
        return replace(inputs, size=height)

    def fill(self, network: Network) -> None:
        """Put it into a network of its kind."""
        for camera, weights in self.weights.items():
            if camera in network.cameras:
                network.trunk_of(camera).load_state_dict(weights)
