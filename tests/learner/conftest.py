"""One thread: two torch processes that share two cores with several threads each stall one another."""

import torch

torch.set_num_threads(1)
