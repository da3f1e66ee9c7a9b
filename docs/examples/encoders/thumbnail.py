"""Each camera's picture, small and grey. Frozen: it runs once per frame, and is cached."""

import torch


class Encoder(torch.nn.Module):
    frozen = True  # without it: one per camera, trained by the critics' loss

    def __init__(self):
        super().__init__()
        self.register_buffer("grey", torch.tensor([0.299, 0.587, 0.114]))

    def forward(self, image):  # uint8 (B, H, W, 3)
        grey = (image.float() @ self.grey) / 255.0
        return torch.nn.functional.adaptive_avg_pool2d(grey[:, None], 12).flatten(1)
