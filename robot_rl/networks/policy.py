"""The policy: from an observation to an action in [-1, 1], a Gaussian squashed by tanh (SAC, arXiv
1812.05905).

The learner trains it on batches; the actor holds a copy and calls `act` once per control step.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from robot_rl.networks.encoders import Vision
from robot_rl.networks.goal import GoalFilter
from robot_rl.networks.normalise import Normaliser
from robot_rl.networks.trunks import TrunkVision
from robot_rl.networks.vision import ENCODERS, EncoderInfo, encoder_info, make_vision
from robot_rl.packing import Layout, layout_of
from robot_rl.types import ActionSpec, Array, ConfigError, DataError, Observation, SpaceSpec

LOG_STD_RANGE = (-5.0, 2.0)
"""HIL-SERL bounds the std to [1e-5, 5], RLPD its logarithm to [-20, 2]; 0.007 of the action range
is small enough.
"""


@dataclass(frozen=True)
class PolicySpec:
    """All that is needed to build a `Policy`; JSON-able, kept with each checkpoint.

    `state` are the names and sizes of the state entries, in the order in which they are
    concatenated. `encoder` is one of `networks/vision.py`. `renewed`: it is pretrained again during
    the run, and so travels with the weights.
    """

    state: tuple[tuple[str, int], ...]
    cameras: tuple[str, ...]
    image_size: tuple[int, int]
    actions: ActionSpec
    hidden: tuple[int, ...] = (256, 256)
    encoder: str = "none"
    camera_features: int = 64
    renewed: bool = False

    @property
    def info(self) -> EncoderInfo:
        """What the encoder means for replay, augmentation and training."""
        return encoder_info(self.encoder)

    @property
    def action_size(self) -> int:
        """A."""
        return self.actions.size

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
    def gravity_keys(self) -> tuple[str, ...]:
        """The names of the directions downwards, one per arm."""
        return tuple(name for name, _ in self.state if name.endswith("/projected_gravity"))

    def gravity(self, observation: Observation) -> Array:
        """Downwards, seen from each tool `(3 per arm,)`: what an encoder that predicts the goal is
        told besides.
        """
        return np.concatenate([
            np.zeros(0, np.float32),
            *(observation[name] for name in self.gravity_keys),
        ])

    def states(self, observation: Observation) -> Array:
        """The state entries `(S,)` float32, in their order."""
        return np.concatenate([np.asarray(observation[name], np.float32) for name, _ in self.state])

    def tools(self, observation: Observation) -> Array:
        """The tools' poses `(arms, 6)` [m, rad], relative to those at the episode's start."""
        return np.stack([observation[name] for name in self.pose_keys])

    @property
    def vision_size(self) -> int:
        """What an encoder makes of a frame of each camera: features, and the goal that they
        predict.
        """
        if self.encoder == "none":
            return 0
        return self.camera_features * len(self.cameras) + self.goal_size

    @staticmethod
    def from_space(space: SpaceSpec, encoder: str, **options: Any) -> "PolicySpec":
        """The spec that follows from the spaces; `options` are the remaining fields."""
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
        sizes = {shape[:2] for shape in images.values()}
        if len(sizes) > 1:
            raise ConfigError(
                f"all cameras of a policy must have one image size; they have {sorted(sizes)}"
            )
        height, width = sizes.pop() if sizes else (0, 0)
        cameras = tuple(images) if encoder != "none" else ()
        return PolicySpec(
            state, cameras, (height, width), space.actions, encoder=encoder, **options
        )

    def to_json(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return asdict(self)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> "PolicySpec":
        """The spec that `to_json` (and a JSON file in between) described; the actions of one of
        before they had names are `ActionSpec.unnamed`.
        """
        fields = dict(data) | {"actions": ActionSpec.from_json(data)}
        fields.pop("action_size", None)
        fields["state"] = tuple((name, size) for name, size in fields["state"])
        for name in ("cameras", "image_size", "hidden"):
            fields[name] = tuple(fields[name])
        return PolicySpec(**fields)


INITIAL_LOG_STD = -1.5
"""A policy begins with a std of 0.22 of the action range, not 1: an arm shaken hard learns little
in contact.
"""


def squashed_sample(mean: Tensor, log_std: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Action `tanh(mean + std * noise) (B, A)` and its log-density `(B,)`.

    `log(1 - tanh(u)^2) = 2 (log 2 - u - softplus(-2u))` keeps its digits for large u.
    """
    u = mean + log_std.exp() * noise
    gaussian = -0.5 * noise.square() - log_std - 0.9189385332046727  # log sqrt(2 pi)
    return torch.tanh(u), (gaussian - 2.0 * (0.6931471805599453 - u - F.softplus(-2.0 * u))).sum(-1)


class ActorHead(nn.Module):
    """Mean and log standard deviation `(B, A)` of the Gaussian before the tanh, from features `(B,
    F)`.
    """

    def __init__(self, input_size: int, hidden: tuple[int, ...], action_size: int):
        super().__init__()
        sizes = (input_size, *hidden)
        layers = [nn.Linear(a, b) for a, b in pairwise(sizes)]
        for layer in layers:
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)
        self.layers = nn.ModuleList(layers)
        self.output = nn.Linear(sizes[-1], 2 * action_size)
        # begins near the middle of the action range
        nn.init.xavier_uniform_(self.output.weight, gain=0.1)
        nn.init.zeros_(self.output.bias)
        nn.init.constant_(self.output.bias[action_size:], INITIAL_LOG_STD)

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        x = features
        for layer in self.layers:
            x = F.relu(layer(x))
        mean, log_std = self.output(x).chunk(2, -1)
        return mean, log_std.clamp(*LOG_STD_RANGE)


class Policy(nn.Module):
    """Normaliser, camera encoders (if any) and actor head.

    ```
    policy = Policy(spec)
    policy.load_arrays(frozen)                       # once
    policy.load_arrays(weights)                      # whenever new ones arrive
    action = policy.act(observation, greedy=False, generator=rng)
    ```
    """

    def __init__(self, spec: PolicySpec):
        super().__init__()
        self.spec, self.info = spec, spec.info
        goals = [(f"goal{i}/goal", 6) for i in range(spec.goal_size // 6)]
        self.normaliser = Normaliser([*spec.state, *goals])
        self.vision: Vision | TrunkVision | None = None
        if spec.encoder != "none":
            size, gravity = spec.image_size, 3 * len(spec.gravity_keys)
            self.vision = make_vision(
                spec.encoder, spec.cameras, size, spec.camera_features, spec.goal_size, gravity
            )
        self.feature_size = self.normaliser.size + spec.vision_size - spec.goal_size
        self.head = ActorHead(self.feature_size, spec.hidden, spec.action_size)

    def fit_normaliser(self, observations: Sequence[Observation]) -> None:
        """Learn the scale of the state entries, if there are any observations to learn it from."""
        if observations:
            self.normaliser.fit(np.array([self.spec.states(seen) for seen in observations]))

    def features(self, state: Tensor, vision: Tensor | None) -> Tensor:
        """What actor and critics see `(B, F)` of states `(B, S)` and the encoder's view of the
        images `(B, V)`.
        """
        if vision is None:
            return self.normaliser(state)
        cameras = self.spec.vision_size - self.spec.goal_size
        quantities = torch.cat([state, vision[:, cameras:]], -1)
        return torch.cat([self.normaliser(quantities), vision[:, :cameras]], -1)

    @torch.inference_mode()
    def act(
        self,
        observation: Observation,
        greedy: bool,
        generator: np.random.Generator,
        goals: GoalFilter | None = None,
    ) -> Array:
        """One action `(A,)` float32: the mode if `greedy`, else a sample drawn with `generator`.

        `goals` has seen the episode's frames so far, if the encoder predicts the goal.

        About 0.1 ms from state, 1 ms with two cameras, on one core.
        """
        state = self.spec.states(observation)
        vision = None
        if self.vision is not None:
            frames = {
                name: np.ascontiguousarray(observation["image/" + name])
                for name in self.spec.cameras
            }
            images = {name: torch.from_numpy(frame)[None] for name, frame in frames.items()}
            vision = self.vision(images, torch.from_numpy(self.spec.gravity(observation))[None])
            if goals is not None:
                goals.filter_into(self.spec.tools(observation), vision[0].numpy())
        mean, log_std = self.head(self.features(torch.from_numpy(state)[None], vision))
        if not greedy:
            noise = generator.standard_normal(self.spec.action_size, dtype=np.float32)
            mean = mean + log_std.exp() * torch.from_numpy(noise)
        return torch.tanh(mean)[0].numpy()

    def trained_names(self) -> list[str]:
        """What each update changes: the head, and what is trained of the encoder."""
        vision = {"nothing": (), "readouts": ("vision.readouts.",), "all": ("vision.",)}[
            self.info.trained
        ]
        return [name for name in self.state_dict() if name.startswith(("head.", *vision))]

    @property
    def cached_size(self) -> int:
        """Numbers that are cached of a frame of all cameras; 0 if nothing is."""
        return self.vision.cached_size if self.vision is not None and self.info.cached else 0

    @property
    def trained_vision(self) -> nn.Module | None:
        """The part of the encoder that the critics' loss trains, if any: it reads images, or what
        is cached of them.
        """
        trained = self.info.trained
        if isinstance(self.vision, TrunkVision) and trained == "readouts":
            return self.vision.readouts
        return self.vision if trained == "all" else None

    def arrays(self, changing: bool) -> dict[str, Array]:
        """Copies of the part that changes during a run and is published, or of the part that stays
        (normaliser, frozen encoder)."""
        names = set(self.trained_names())
        state = self.state_dict()
        if self.spec.renewed:
            names |= {name for name in state if name.startswith("vision.")}
        return {
            n: t.detach().cpu().numpy().copy() for n, t in state.items() if (n in names) == changing
        }

    def load_arrays(self, arrays: Mapping[str, Array]) -> None:
        """Take over some or all of the weights, by name.

        Raises DataError, with the policy as it was, if one does not fit it or has numbers that are
        not finite.
        """
        state = self.state_dict()
        for name, array in arrays.items():
            if name not in state or tuple(state[name].shape) != np.shape(array):
                wanted = (
                    f"shape {tuple(state[name].shape)}"
                    if name in state
                    else f"one of {sorted(state)}"
                )
                raise DataError(
                    f"weights {name!r} of shape {np.shape(array)} do not fit this policy; wanted"
                    f" {wanted}"
                )
            # of what is finite before it is float32, as the weights are
            with np.errstate(over="ignore"):
                finite = np.isfinite(np.asarray(array, np.float32)).all()
            if not finite:
                raise DataError(
                    f"weights {name!r} have numbers that are not finite: learning has diverged"
                )
        with torch.no_grad():
            for name, array in arrays.items():
                state[name].copy_(torch.from_numpy(np.array(array)))


class LivePolicy:
    """The policy as the actor or an evaluation runs it: weights come from outside, actions go out.

    `spec` and `arrays` (all weights, or the frozen ones, with the others to follow by `load`) are
    what the learner serves or a checkpoint holds. Of a checkpoint's, `step` and `digest` (SHA-256
    of its file) say which it is.
    """

    step: int | None = None
    digest: str = ""

    def __init__(
        self, spec: PolicySpec | Mapping[str, Any], arrays: Mapping[str, Array], seed: int = 0
    ):
        self.spec = spec if isinstance(spec, PolicySpec) else PolicySpec.from_json(spec)
        self._policy = Policy(self.spec).eval().requires_grad_(False)
        self.load(arrays)
        self._goals = GoalFilter(len(self.spec.pose_keys)) if self.spec.goal_size else None
        self.begin_episode(seed)

    def begin_episode(self, seed: int) -> None:
        """Forget the last episode, and begin a new sequence of random numbers: it repeats whatever
        went before it.
        """
        self._generator = np.random.default_rng(seed)
        if self._goals is not None:
            self._goals.begin_episode()

    def load(self, arrays: Mapping[str, Array]) -> None:
        """Take over newer weights. Raises DataError, with the old ones in force, for any that
        cannot be acted with.
        """
        self._policy.load_arrays(arrays)

    @property
    def vision(self) -> Vision | TrunkVision | None:
        """The encoder, if there are cameras."""
        return self._policy.vision

    @property
    def changing_layout(self) -> Layout:
        """Names, dtypes and shapes of what `load` is given while learning goes on."""
        return layout_of(self._policy.arrays(changing=True))

    def act(self, observation: Observation, greedy: bool = False) -> Array:
        """The action `(A,)` to propose: a sample, or the mode if `greedy`."""
        return self._policy.act(observation, greedy, self._generator, self._goals)
