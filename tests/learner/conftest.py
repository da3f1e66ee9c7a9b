"""One thread: two torch processes that share two cores with several threads each stall one another."""

from collections.abc import Iterator

import pytest
import torch

from robot_rl.machine.private import cache_folder

torch.set_num_threads(1)


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """torch's compiler, whose headers are compiled once, in a folder of this user's own: they are
    half of what each of its files takes.
    """
    from torch._inductor import codecache, config

    headers = cache_folder("torch-headers")
    monkeypatch.setattr(codecache, "_HEADER_DIR", str(headers))
    monkeypatch.setattr(codecache, "_HEADER_LOCK_DIR", str(headers / "locks"))
    with config.patch(cpp_cache_precompile_headers=True):
        yield
