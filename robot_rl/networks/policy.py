"""The policy: from an observation to an action in [-1, 1], a Gaussian squashed by tanh (SAC, arXiv
1812.05905), and beside it one choice for all grippers.

The learner trains it on batches; the actor holds a copy and calls `act` once per control step.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from robot_rl.networks.actor_head import ActorHead
from robot_rl.networks.choices import ActionParts
from robot_rl.networks.critic import Critics, ensemble_values
from robot_rl.networks.encoders import Vision
from robot_rl.networks.goal import GoalFilter
from robot_rl.networks.normalise import Normaliser
from robot_rl.networks.policy_spec import PolicySpec
from robot_rl.networks.threads import one_thread
from robot_rl.networks.trunks import TrunkVision
from robot_rl.networks.vision import make_vision
from robot_rl.packing import Layout, layout_of
from robot_rl.types import Array, DataError, Observation


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
            size, told = spec.image_size, spec.told_state
            self.vision = make_vision(
                spec.encoder,
                spec.cameras,
                size,
                spec.camera_features,
                spec.goal_size,
                told,
                spec.still,
            )
        self.feature_size = self.normaliser.size + spec.vision_size - spec.goal_size
        self.parts = ActionParts(spec.actions)
        numbers, grippers = len(spec.actions.continuous), len(spec.actions.discrete)
        joint = grippers if spec.hand == "joint" else 0
        self.head = ActorHead(self.feature_size, spec.hidden, numbers, joint, spec.log_std_max)
        self.hand: Critics | None = None
        if spec.choices and not joint:
            self.hand = Critics(self.feature_size, spec.hidden, 1, spec.choices)

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

    def hand_values(self, features: Tensor) -> Tensor:
        """What a separate hand's critic makes of each choice `(B, K)`."""
        assert self.hand is not None
        return ensemble_values(self.hand.weights(), features)[0]

    def modes(self, features: Tensor) -> Tensor:
        """The likeliest actions `(B, A)`; of a separate hand the choices with the highest values."""
        return self._proposed(features, None)

    def _proposed(self, features: Tensor, generator: np.random.Generator | None) -> Tensor:
        """The likeliest actions `(B, A)`; with a generator a sample `(1, A)`."""
        mean, log_std, scores = self.head.distributions(features)
        if generator is not None:
            noise = generator.standard_normal(mean.shape[-1], dtype=np.float32)
            mean = mean + log_std.exp() * torch.from_numpy(noise)
            if scores is not None:  # the largest of Gumbel-disturbed log-probabilities is a sample
                scores = scores + torch.from_numpy(generator.gumbel(size=scores.shape[-1]))
        return self.parts.join(torch.tanh(mean), self._best(features, scores))

    def _best(self, features: Tensor, scores: Tensor | None) -> Tensor | None:
        if self.hand is not None:
            scores = self.hand_values(features)
        return None if scores is None else scores.argmax(-1)

    @torch.inference_mode()
    def act(
        self,
        observation: Observation,
        greedy: bool,
        generator: np.random.Generator,
        goals: GoalFilter | None = None,
    ) -> Array:
        """One action `(A,)` float32: the mode if `greedy`, else a sample drawn with `generator`. A
        separate hand does what its critic rates highest, always (as HIL-SERL).

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
            vision = self.vision(images, torch.from_numpy(self.spec.told(observation))[None])
            if goals is not None:
                moving = self.spec.moving_hands(observation)
                goals.filter_into(self.spec.tools(observation), vision[0].numpy(), moving)
        features = self.features(torch.from_numpy(state)[None], vision)
        return self._proposed(features, None if greedy else generator)[0].numpy()

    def trained_names(self) -> list[str]:
        """What updates change: the head, a separate hand, and what is trained of the encoder."""
        vision = {"nothing": (), "readouts": ("vision.readouts.",), "all": ("vision.",)}[
            self.info.trained
        ]
        return [name for name in self.state_dict() if name.startswith(("head.", "hand.", *vision))]

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

    @one_thread()
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
    def goal(self) -> Array | None:
        """Where the encoder sees the goal from each tool `(arms, 6)` [m, rad], as of the last `act`;
        None if it predicts none.
        """
        return self._goals.newest if self._goals is not None else None

    @property
    def changing_layout(self) -> Layout:
        """Names, dtypes and shapes of what `load` is given while learning goes on."""
        return layout_of(self._policy.arrays(changing=True))

    @one_thread()
    def act(self, observation: Observation, greedy: bool = False) -> Array:
        """The action `(A,)` to propose: a sample, or the mode if `greedy`."""
        return self._policy.act(observation, greedy, self._generator, self._goals)
