"""torch.compile, and CUDA graphs, that a run can do without."""

import logging
import os
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

log = logging.getLogger(__name__)


class Compiled:
    """A function, compiled at its first call; if that fails (no C++ compiler, say) it is called as
    it is from then on.

    Fixed shapes are assumed: another batch size compiles once more.
    """

    def __init__(self, function: Callable[..., Any]):
        self._plain = function
        self._call = torch.compile(function, dynamic=False)
        self._proven = False

    def __call__(self, *args: Any) -> Any:
        if self._proven:
            return self._call(*args)
        try:
            result = self._compiled(*args)
        except Exception as error:  # noqa: BLE001 the compiler raises many kinds; a real error comes again below
            name = getattr(self._plain, "__name__", "function")
            log.warning("%s stays uncompiled, which is slower: %s", name, _first_line(error))
            self._call = self._plain
            result = self._plain(*args)
        self._proven = True
        return result

    def _compiled(self, *args: Any) -> Any:
        try:
            return self._call(*args)
        except Exception as error:
            if not _removed_unfinished(error):
                raise
            return self._call(*args)


_UNFINISHED = re.compile(r"(/\S+\.so): (?:file too short|invalid ELF header|ELF load command)")


def _removed_unfinished(error: Exception) -> bool:
    """Whether this says that a library in torch's cache cannot be loaded, which is no more there
    now: who was killed while it was being written has left a part of it, for good.
    """
    places = [Path(name) for name in _UNFINISHED.findall(str(error))]
    cache = Path(os.environ.get("TORCHINDUCTOR_CACHE_DIR") or "/nowhere").absolute()
    mine = [place for place in places if place.is_relative_to(cache) and place.exists()]
    for place in mine:
        place.unlink()
    return bool(mine)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


EAGER_CALLS = 3
"""So often an update is made as it is before it is recorded: whatever is made at a first call
(kernels, moments, handles) is there then."""


@dataclass(frozen=True)
class _Recording:
    """One CUDA graph, and where its batch and its figures lie in the GPU's memory."""

    graph: "torch.cuda.CUDAGraph"
    batch: dict[str, Tensor]
    names: list[str]
    figures: Tensor


class Captured:
    """An update on a GPU in one launch: a CUDA graph of it, for each of its turns.

    An update of such small networks is some three hundred kernels of a few microseconds each, which
    Python takes longer to start than the GPU to run. `function(batch, *turn)` makes an update and
    returns figures, scalars all; where it differs from turn to turn, `turn` says how. What it reads
    beside the batch must lie in tensors that stay where they are: a number that Python hands over
    is recorded as it was. What it draws comes from `generator`. If it cannot be recorded it is
    called as it is from then on.
    """

    def __init__(
        self,
        function: Callable[..., dict[str, Tensor]],
        generator: torch.Generator,
    ):
        self._plain, self._generator = function, generator
        self._stream = torch.cuda.Stream(generator.device)
        self._can_record = True
        self.forget()

    def forget(self) -> None:
        """What it has recorded is void: tensors of the update have been exchanged for others."""
        self._recordings: dict[tuple[Any, ...], _Recording] = {}
        self._calls = Counter[tuple[Any, ...]]()

    def __call__(self, batch: Mapping[str, Tensor], *turn: bool) -> dict[str, Tensor]:
        kind = (*turn, *((name, tensor.shape) for name, tensor in batch.items()))
        if kind not in self._recordings:
            self._calls[kind] += 1
            if not self._can_record or self._calls[kind] <= EAGER_CALLS:
                return self._as_it_is(batch, *turn)
            before = self._generator.clone_state()
            try:
                self._recordings[kind] = self._record(batch, *turn)
            except Exception as error:  # noqa: BLE001 CUDA raises several kinds
                log.warning("updates are not recorded, which is slower: %s", _first_line(error))
                self._can_record = False
                # the one there is waits for the end of a recording that will not come
                self._generator.graphsafe_set_state(before)
                return self._as_it_is(batch, *turn)
        recording = self._recordings[kind]
        torch._foreach_copy_([*recording.batch.values()], [*batch.values()])
        recording.graph.replay()
        # the next replay writes over them
        return dict(zip(recording.names, recording.figures.clone().unbind(), strict=True))

    def _as_it_is(self, batch: Mapping[str, Tensor], *turn: bool) -> dict[str, Tensor]:
        """On the stream that is recorded from, which autograd remembers."""
        here = torch.cuda.current_stream(self._generator.device)
        self._stream.wait_stream(here)
        with torch.cuda.stream(self._stream):
            figures = self._plain(batch, *turn)
        here.wait_stream(self._stream)
        return figures

    def _record(self, batch: Mapping[str, Tensor], *turn: bool) -> _Recording:
        """Nothing is computed by it."""
        own = {name: tensor.clone() for name, tensor in batch.items()}
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(self._generator)
        with torch.cuda.graph(graph, stream=self._stream):
            figures = self._plain(own, *turn)
            stacked = torch.stack([figure.float() for figure in figures.values()])
        return _Recording(graph, own, [*figures], stacked)
