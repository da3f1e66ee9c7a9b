"""Laws of what is compiled: a run can do without it, and none is spoilt for good by a process that
was killed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from robot_rl.learner.compilation import Compiled


def test_without_a_compiler_the_plain_function_is_called(caplog: pytest.LogCaptureFixture) -> None:
    def double(x: torch.Tensor) -> torch.Tensor:
        return 2 * x

    compiled = Compiled(double)

    def broken(x: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("no C++ compiler")

    compiled._call = broken
    assert compiled(torch.tensor(2.0)) == 4.0
    assert "no C++ compiler" in caplog.text
    assert compiled(torch.tensor(3.0)) == 6.0


@pytest.mark.slow
def test_what_a_killed_compiler_has_left_unfinished_is_made_again(tmp_path: Path) -> None:
    script = """
import torch
from robot_rl.learner.compilation import Compiled
compiled = Compiled(lambda x: torch.relu(x).exp().sum())
assert abs(float(compiled(torch.arange(4.0))) - 31.19287) < 1e-3
assert compiled._call is not compiled._plain, "it was not compiled"
"""
    # plain code: what the processor can do would be tried out by the C++ compiler as well
    place = {
        "TORCHINDUCTOR_CACHE_DIR": str(tmp_path),
        "TORCHINDUCTOR_VEC_ISA_OK": "0",
        "OMP_NUM_THREADS": "1",
    }

    def run() -> None:
        subprocess.run([sys.executable, "-c", script], env={**os.environ, **place}, check=True)

    run()
    libraries = list(tmp_path.rglob("*.main.so"))
    assert libraries
    for path in libraries:
        os.truncate(path, 0)
    run()
    assert all(path.stat().st_size for path in libraries)
