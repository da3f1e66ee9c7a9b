"""The members of an ensemble have nothing in common."""

import torch
import torch.nn.functional as F

from robot_rl.networks.critic import Critics, detached, ensemble_values, members_of


def test_member_equals_a_plain_network_with_its_weights() -> None:
    critics = Critics(7, (16, 8), members=4)
    with torch.no_grad():
        for p in critics.parameters():
            p.add_(torch.randn_like(p) * 0.1)
    x, w = torch.randn(5, 7), critics.weights()
    for e in range(4):
        y = F.relu(F.layer_norm(x @ w["w0"][e] + w["b0"][e], (16,)) * w["g0"][e] + w["h0"][e])
        y = F.relu(F.layer_norm(y @ w["w1"][e] + w["b1"][e], (8,)) * w["g1"][e] + w["h1"][e])
        y = (y @ w["w2"][e] + w["b2"][e]).squeeze(-1)
        assert torch.allclose(critics(x[:, :4], x[:, 4:])[e], y, atol=1e-5)


def test_members_are_independent_down_to_the_last_layer() -> None:
    """HIL-SERL's members share their last layer (hil-serl issue 33)."""
    critics = Critics(7, (16, 8), members=3)
    for weight in (critics.weights()[name] for name in ("w0", "w1", "w2")):
        assert not torch.equal(weight[0], weight[1])
    critics(torch.randn(5, 4), torch.randn(5, 3))[1].sum().backward()
    for parameter in critics.parameters():
        assert parameter.grad is not None
        assert parameter.grad[0].abs().sum() == parameter.grad[2].abs().sum() == 0.0


def test_values_begin_near_zero() -> None:
    """Returns lie in [0, 1]: values that begin at +-1 are optimism that takes long to unlearn."""
    torch.manual_seed(0)
    assert (
        Critics(20, (256, 256), members=4)(torch.randn(500, 14), torch.rand(500, 6)).abs().max()
        < 0.1
    )


def test_subset_and_detached_weights_give_the_same_values() -> None:
    critics, x = Critics(7, (16,), members=3), torch.randn(5, 7, requires_grad=True)
    values = ensemble_values(critics.weights(), x)
    assert torch.allclose(
        ensemble_values(members_of(critics.weights(), torch.tensor([2])), x)[0],
        values[2],
        atol=1e-6,
    )
    ensemble_values(detached(critics.weights()), x).sum().backward()
    assert x.grad is not None
    assert all(p.grad is None for p in critics.parameters())
