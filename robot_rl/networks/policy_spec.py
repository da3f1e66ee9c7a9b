"""What has to be known to build a policy: what it sees, what it says, and of which networks it is."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from robot_rl.networks.actor_head import LOG_STD_MAX
from robot_rl.networks.vision import ENCODERS, EncoderInfo, encoder_info
from robot_rl.types import (
    DIRECTION,
    GRASP,
    PLACE,
    ActionSpec,
    Array,
    ConfigError,
    Observation,
    SpaceSpec,
)

HANDS = ("joint", "separate")
"""What moves the grippers: "joint" is a categorical head beside the Gaussian, "separate" a critic of
the grippers alone, as in HIL-SERL.
"""


@dataclass(frozen=True)
class PolicySpec:
    """All that is needed to build a `Policy`; JSON-able, kept with each checkpoint.

    `state` are the names and sizes of the state entries, in the order in which they are
    concatenated. `encoder` is one of `networks/vision.py`. `renewed`: it is pretrained again during
    the run, and so travels with the weights. `hand` is one of HANDS. `log_std_max`: of the
    Gaussian before the tanh. `still`: those of the cameras that look for themselves, as they stand
    still (`networks/goal_places.py`).
    """

    state: tuple[tuple[str, int], ...]
    cameras: tuple[str, ...]
    image_size: tuple[int, int]
    actions: ActionSpec
    hidden: tuple[int, ...] = (256, 256)
    encoder: str = "none"
    camera_features: int = 64
    renewed: bool = False
    hand: str = "joint"
    log_std_max: float = LOG_STD_MAX
    still: tuple[str, ...] = ()

    @property
    def info(self) -> EncoderInfo:
        """What the encoder means for replay, augmentation and training."""
        return encoder_info(self.encoder)

    @property
    def action_size(self) -> int:
        """A."""
        return self.actions.size

    @property
    def choices(self) -> int:
        """K, the joint choices of its grippers; 0 without any."""
        return 3 ** len(self.actions.discrete) if self.actions.discrete else 0

    @property
    def joint_choices(self) -> int:
        """The choices that head and critics have a number for: K, or 0 if nothing is chosen there."""
        return self.choices if self.hand == "joint" else 0

    @property
    def state_size(self) -> int:
        return sum(size for _, size in self.state)

    @property
    def goal_size(self) -> int:
        """6 for each arm whose tool pose is observed, if the encoder predicts the goal."""
        # a user's own predicts none, and is not imported for this
        declared = ENCODERS.get(self.encoder)
        return 6 * len(self.pose_keys) if declared is not None and declared.goal else 0

    @property
    def pose_keys(self) -> tuple[str, ...]:
        """The names of the tool poses (relative to the episode's start), one per arm."""
        return tuple(name for name, _ in self.state if name.endswith("/tcp_pose"))

    @property
    def place_keys(self) -> tuple[str, ...]:
        """The names of the tools' places on the bench, one per arm, if the task observes them."""
        return tuple(name for name, _ in self.state if name.endswith("/" + PLACE))

    @property
    def told_state(self) -> tuple[tuple[str, int], ...]:
        """The state entries that an encoder is told which predicts the goal: downwards, seen from
        each tool, the hands, and which way a task goes that has a way back.
        """
        ends = ("/projected_gravity", "/gripper", "/" + PLACE, "/" + GRASP, DIRECTION)
        return tuple((name, size) for name, size in self.state if name.endswith(ends))

    def told(self, observation: Observation) -> Array:
        """What an encoder that predicts the goal is told beside the pictures `(T,)` float32."""
        return np.concatenate([
            np.zeros(0, np.float32),
            *(observation[name] for name, _ in self.told_state),
        ])

    def moving_hands(self, observation: Observation) -> Array:
        """Whether the fingers of each arm's hand move: `(arms,)` bool, of `pose_keys`."""
        return self._of_hands(observation, 1)

    def holding_hands(self, observation: Observation) -> Array:
        """Whether each arm's hand holds something: `(arms,)` bool, of `pose_keys`."""
        return self._of_hands(observation, 2)

    def _of_hands(self, observation: Observation, number: int) -> Array:
        hands = [name.removesuffix("tcp_pose") + "gripper" for name in self.pose_keys]
        return np.array([name in observation and observation[name][number] > 0.5 for name in hands])

    def states(self, observation: Observation) -> Array:
        """The state entries `(S,)` float32, in their order."""
        return np.concatenate([np.asarray(observation[name], np.float32) for name, _ in self.state])

    def tools(self, observation: Observation) -> Array:
        """The tools' poses `(arms, 6)` [m, rad], relative to those at the episode's start."""
        return np.stack([observation[name] for name in self.pose_keys])

    def places(self, observation: Observation) -> Array:
        """Where the tools are on the bench `(6 per arm,)` [m, rad], of `place_keys`."""
        return np.concatenate([observation[name] for name in self.place_keys])

    @property
    def vision_size(self) -> int:
        """What an encoder makes of a frame of each camera: features, and the goal that they
        predict.
        """
        if self.encoder == "none":
            return 0
        return self.camera_features * len(self.cameras + self.still) + self.goal_size

    @staticmethod
    def from_space(
        space: SpaceSpec, encoder: str, cameras: Sequence[str] = (), **options: Any
    ) -> "PolicySpec":
        """The spec that follows from the spaces, with these cameras of theirs, or all; `options` are
        the remaining fields.
        """
        state = tuple(
            (n, shape[0]) for n, (shape, _) in space.observations.items() if n.startswith("state/")
        )
        images = {
            n[6:]: shape for n, (shape, _) in space.observations.items() if n.startswith("image/")
        }
        if encoder != "none" and not images:
            raise ConfigError(
                f"encoder {encoder!r} needs a camera, but the observation holds no image/..."
            )
        if strange := set(cameras) - set(images):
            raise ConfigError(
                f"the policy is to see through {', '.join(sorted(strange))}, and the observation's"
                f" cameras are {', '.join(images) or 'none'}"
            )
        images = {name: shape for name, shape in images.items() if name in cameras or not cameras}
        sizes = {shape[:2] for shape in images.values()}
        if len(sizes) > 1:
            raise ConfigError(
                f"all cameras of a policy must have one image size; they have {sorted(sizes)}"
            )
        height, width = sizes.pop() if sizes else (0, 0)
        seen = tuple(images) if encoder != "none" else ()
        spec = PolicySpec(state, seen, (height, width), space.actions, encoder=encoder, **options)
        spec.require_still()
        return spec

    def require_still(self) -> None:
        """Raise ConfigError for cameras that cannot look for themselves."""
        if not self.still:
            return
        if strange := set(self.still) - set(self.cameras):
            raise ConfigError(
                f"still_cameras names {', '.join(sorted(strange))}, and the policy sees through"
                f" {', '.join(self.cameras) or 'none'}"
            )
        if not self.goal_size or not self.place_keys:
            raise ConfigError(
                "still_cameras say where goals are on the bench: that needs encoder goal or goal_points,"
                f" not {self.encoder}, and a task with observe_place=True"
            )

    def to_json(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return asdict(self)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> "PolicySpec":
        """The spec that `to_json` (and a JSON file in between) described; the actions of one of
        before they had names are `ActionSpec.unnamed`.
        """
        fields = {"still": (), **data, "actions": ActionSpec.from_json(data)}
        if "actions" not in data:
            del fields["action_size"]
        fields["state"] = tuple((name, size) for name, size in fields["state"])
        for name in ("cameras", "image_size", "hidden", "still"):
            fields[name] = tuple(fields[name])
        return PolicySpec(**fields)
