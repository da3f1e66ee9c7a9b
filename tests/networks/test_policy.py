"""The policy as learner and actor share it."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from robot_rl.networks.actor_head import squashed_sample
from robot_rl.networks.normalise import Normaliser
from robot_rl.networks.policy import LivePolicy, Policy
from robot_rl.networks.policy_spec import PolicySpec
from robot_rl.types import ActionSpec, ConfigError, DataError, SpaceSpec

SPACE = SpaceSpec.unnamed(
    {
        "state/tcp_pose": ((6,), "float32"),
        "image/wrist": ((40, 48, 3), "uint8"),
        "state/b": ((2,), "float32"),
        "image/front": ((40, 48, 3), "uint8"),
    },
    3,
)


def observe(seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        name: rng.integers(0, 256, shape).astype(np.uint8)
        if dtype == "uint8"
        else rng.normal(size=shape).astype("f4")
        for name, (shape, dtype) in SPACE.observations.items()
    }


@pytest.mark.parametrize("encoder", ["none", "end_to_end", "goal", "goal_points", "resnet10"])
def test_spec_survives_json_and_rebuilds_the_policy(encoder: str) -> None:
    spec = PolicySpec.from_space(SPACE, encoder)
    assert PolicySpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec
    assert spec.goal_size == (6 if encoder.startswith("goal") else 0)
    policy = Policy(spec)
    live = LivePolicy(spec.to_json(), policy.arrays(changing=False), seed=3)
    live.load(policy.arrays(changing=True))
    wanted = policy.act(observe(), greedy=True, generator=np.random.default_rng(0))
    assert np.array_equal(live.act(observe(), greedy=True), wanted)
    assert wanted.shape == (3,)
    assert wanted.dtype == np.float32


def test_acting_repeats_for_a_seed_and_varies_within_it() -> None:
    live = LivePolicy(PolicySpec.from_space(SPACE, "none"), {})
    live.begin_episode(5)
    first = [live.act(observe()) for _ in range(3)]
    live.begin_episode(5)
    again = [live.act(observe()) for _ in range(3)]
    assert np.array_equal(first, again)
    assert not np.array_equal(first[0], first[1])
    assert np.abs(first).max() <= 1.0


def test_one_observation_gives_what_a_batch_gives() -> None:
    policy, seen = Policy(PolicySpec.from_space(SPACE, "goal")), observe()
    state = torch.from_numpy(np.concatenate([seen["state/tcp_pose"], seen["state/b"]]))[None]
    images = {name: torch.from_numpy(seen["image/" + name])[None] for name in ("wrist", "front")}
    assert policy.vision is not None
    with torch.no_grad():
        mean, _ = policy.head(policy.features(state, policy.vision(images)))
    acted = policy.act(seen, greedy=True, generator=np.random.default_rng(0))
    assert np.allclose(acted, torch.tanh(mean)[0].numpy(), atol=1e-6)


def test_a_policy_of_before_actions_had_names_is_read() -> None:
    old = PolicySpec.from_space(SPACE, "none").to_json()
    old["action_size"] = len(old.pop("actions")["names"])
    assert PolicySpec.from_json(json.loads(json.dumps(old))) == PolicySpec.from_space(SPACE, "none")
    named = replace(PolicySpec.from_space(SPACE, "none"), actions=ActionSpec(("a.x", "hand"), (1,)))
    assert PolicySpec.from_json(json.loads(json.dumps(named.to_json()))) == named


def test_log_density_is_that_of_a_squashed_gaussian() -> None:
    mean, log_std, noise = torch.randn(3, 50, 2, dtype=torch.float64).unbind(0)
    action, log_prob = squashed_sample(mean, log_std * 0.1, noise)
    gaussian = torch.distributions.Normal(mean, (log_std * 0.1).exp())
    wanted = torch.distributions.TransformedDistribution(
        gaussian, [torch.distributions.TanhTransform()]
    )
    assert torch.allclose(log_prob, wanted.log_prob(action).sum(-1), atol=1e-6)


def test_weights_that_do_not_fit_are_refused_by_name() -> None:
    policy = Policy(PolicySpec.from_space(SPACE, "none"))
    with pytest.raises(DataError, match=r"head\.bogus"):
        policy.load_arrays({"head.bogus": np.zeros(3)})
    with pytest.raises(DataError, match="shape"):
        policy.load_arrays({"head.output.bias": np.zeros(3)})


def test_an_encoder_without_cameras_is_refused() -> None:
    with pytest.raises(ConfigError, match="needs a camera"):
        PolicySpec.from_space(SpaceSpec.unnamed({"state/a": ((2,), "float32")}, 3), "goal")


def test_a_policy_sees_through_the_cameras_that_it_is_given_and_through_no_other() -> None:
    spec = PolicySpec.from_space(SPACE, "goal", ("wrist",))
    live = LivePolicy(spec, Policy(spec).state_dict())
    seen = observe()
    acted = live.act(seen, greedy=True)
    live.begin_episode(0)
    dark = live.act(seen | {"image/front": np.zeros((40, 48, 3), np.uint8)}, greedy=True)
    live.begin_episode(0)
    blind = live.act(seen | {"image/wrist": np.zeros((40, 48, 3), np.uint8)}, greedy=True)
    assert np.array_equal(acted, dark)
    assert not np.array_equal(acted, blind)
    assert live.goal is not None
    assert live.goal.shape == (1, 6)
    with pytest.raises(ConfigError, match=r"see through side, .* cameras are wrist, front"):
        PolicySpec.from_space(SPACE, "goal", ("wrist", "side"))


def test_predicted_goal_is_seen_coarse_and_fine_and_the_cameras_features_as_they_are() -> None:
    policy = Policy(PolicySpec.from_space(SPACE, "goal", camera_features=4))
    state, vision = torch.randn(5, 8), torch.randn(5, 2 * 4 + 6) * 0.01
    features = policy.features(state, vision)
    assert features.shape == (5, policy.feature_size)
    assert torch.equal(features[:, -8:], vision[:, :8])
    seen = Normaliser([("state/tcp_pose", 6), ("state/b", 2), ("goal0/goal", 6)])
    assert torch.equal(features[:, :-8], seen(torch.cat([state, vision[:, 8:]], -1)))
