"""Encoders and augmentation."""

import numpy as np
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from robot_rl.networks.augment import photometric, random_shift
from robot_rl.networks.encoders import SmallCNN, Vision
from robot_rl.networks.goal import GoalVision
from robot_rl.networks.precision import use_onednn_matmul

PRODUCTS = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]


def test_folded_normalisation_equals_normalising_the_image() -> None:
    cnn = SmallCNN((40, 48), 8)
    image = torch.randint(0, 256, (2, 40, 48, 3), dtype=torch.uint8)
    x = image.permute(0, 3, 1, 2).float() / 127.5 - 1.0
    for layer in cnn.convolutions:
        x = F.relu(layer(x))
    wanted = torch.tanh(cnn.norm(cnn.project(x.flatten(1))))
    assert torch.allclose(cnn(image), wanted, atol=1e-4)


def test_bfloat16_features_are_close_to_float32() -> None:
    vision = Vision(("a", "b"), (40, 48), 8)
    images = {name: torch.randint(0, 256, (4, 40, 48, 3), dtype=torch.uint8) for name in ("a", "b")}
    exact = vision(images)
    vision.set_dtype(torch.bfloat16)
    assert torch.allclose(vision(images), exact, atol=0.05)
    assert exact.shape == (4, 16)


def test_goal_follows_the_features_in_metric_units() -> None:
    vision = GoalVision(("a",), (40, 48), 8, goal_size=6)
    images = {"a": torch.zeros(1, 40, 48, 3, dtype=torch.uint8)}
    standard = vision(images)
    vision.goal_mean.fill_(0.5)
    vision.goal_std.fill_(2.0)
    metric = vision(images)
    assert metric.shape == (1, vision.size) == (1, 14)
    assert torch.equal(metric[:, :8], standard[:, :8])
    assert torch.allclose(metric[:, 8:], standard[:, 8:] * 2.0 + 0.5)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000), pad=st.integers(1, 5))
def test_shifted_image_is_the_image_moved_with_its_edges_repeated(seed: int, pad: int) -> None:
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 256, (6, 12, 10, 3)).astype(np.uint8)
    shifted = random_shift(images, np.random.default_rng(seed), pad)
    for before, after in zip(images, shifted, strict=True):
        padded = np.pad(before, ((pad, pad), (pad, pad), (0, 0)), mode="edge")
        places = [(y, x) for y in range(2 * pad + 1) for x in range(2 * pad + 1)]
        assert any(np.array_equal(padded[y : y + 12, x : x + 10], after) for y, x in places)


def test_photometric_changes_are_bounded_and_differ_between_images() -> None:
    images = torch.full((5, 8, 8, 3), 128, dtype=torch.uint8)
    out = photometric(images, np.random.default_rng(0), 0.2, torch.float32)
    assert (out - 128).abs().max() <= 0.2 * 128 + 0.1 * 255
    assert len({float(image[0, 0, 0]) for image in out}) == 5
    assert torch.equal(
        photometric(images, np.random.default_rng(0), 0.0, torch.float32), images.float()
    )


def test_faster_matrix_product_is_taken_only_if_it_is_exact() -> None:
    before = PRODUCTS.fp32_precision
    try:
        use_onednn_matmul()
        a, b = torch.randn(64, 64), torch.randn(64, 64)
        exact = a.double() @ b.double()
        assert ((a @ b).double() - exact).norm() / exact.norm() < 2e-6
    finally:
        PRODUCTS.fp32_precision = before
