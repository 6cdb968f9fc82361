"""Attention cache of the rows of a batch: keys and values, each row from its own first token on.

Rows are stored at the front without gaps, so that a step reads them in place. The cache of an ended row is kept for
later prompts that begin with the same tokens.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from .engine import KeptPrefix

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

KEPT_BYTES: Final = 512 * 1024 * 1024
_LEAST: Final = 256


@dataclass(frozen=True, slots=True)
class Beginning:
    """First tokens of a conversation, with their attention keys and values by layer."""

    ids: NDArray[np.int32]
    layers: tuple[tuple[Tensor, Tensor], ...]

    @property
    def size(self) -> int:
        """Size of the keys and values in bytes."""
        return sum(tensor.numel() * tensor.element_size() for pair in self.layers for tensor in pair)

    def release(self) -> None:
        """See KeptPrefix. Its tensors are freed with it."""


def shared_length(kept: NDArray[np.int32], ids: NDArray[np.int32]) -> int:
    """Length of the prefix that two sequences of tokens share."""
    import numpy as np

    length = min(len(kept), len(ids))
    differs = np.nonzero(kept[:length] != ids[:length])[0]
    return int(differs[0]) if len(differs) else length


def longest_shared(rows: Sequence[Sequence[int]], ids: Sequence[int]) -> tuple[int, int]:
    """The row that shares the longest prefix with `ids`, and its length: at most all ids but the last, 0 if none does.

    Of several the first.
    """
    import numpy as np

    wanted = np.array(ids[:-1], dtype=np.int32)
    shared = [shared_length(np.array(each, dtype=np.int32), wanted) for each in rows]
    best = max(range(len(shared)), key=lambda number: (shared[number], -number), default=0)
    return best, shared[best] if shared else 0


class Cells:
    """Attention cache of one batch. It replaces Transformers' cache: attention calls `update` in each layer.

    Call `read` or `step` before a forward pass to select its rows and positions.
    """

    def __init__(self) -> None:
        self._layers: dict[int, tuple[Tensor, Tensor]] = {}
        self._rows = 0
        self._length = 0
        self._reading: tuple[int, int, int] | None = None
        self._numbers: Any = None
        self._places: Any = None
        self._upto = 0

    def reserve(self, rows: int, length: int) -> bool:
        """Make room for this many rows of this length. Capacity grows by doubling."""
        if rows <= self._rows and length <= self._length:
            return True
        self._rows = self._rows if rows <= self._rows else max(rows, 2 * self._rows)
        self._length = self._length if length <= self._length else max(length, 2 * self._length, _LEAST)
        for layer, pair in self._layers.items():
            self._layers[layer] = (self._grow(pair[0]), self._grow(pair[1]))
        return True

    def read(self, row: int, first: int, upto: int) -> None:
        """Select the tokens `first` to `upto` of one row for the next pass."""
        self._reading = (row, first, upto)

    def step(self, places: Tensor, upto: int) -> None:
        """Select one token of each row, at these positions below `upto`, for the next pass."""
        self._reading, self._places, self._upto = None, places, upto
        self._numbers = places.new_tensor(range(len(places)))

    def update(self, key: Tensor, value: Tensor, layer_idx: int, *_args: Any, **_more: Any) -> tuple[Tensor, Tensor]:
        """Called by attention: store these (rows, heads, tokens, size), and return all that it may attend to."""
        if layer_idx not in self._layers:
            self._layers[layer_idx] = (self._empty(key), self._empty(value))
        pair = self._layers[layer_idx]
        if self._reading is not None:
            row, first, upto = self._reading
            for cells, new in zip(pair, (key, value), strict=True):
                cells[row, :, first:upto] = new[0]
            return pair[0][row : row + 1, :, :upto], pair[1][row : row + 1, :, :upto]
        rows = len(self._numbers)
        for cells, new in zip(pair, (key, value), strict=True):
            cells[self._numbers, :, self._places] = new[:, :, 0]
        return pair[0][:rows, :, : self._upto], pair[1][:rows, :, : self._upto]

    def put(self, row: int, beginning: Beginning, length: int) -> None:
        """Fill the first `length` positions of a row from a cached beginning."""
        for layer, (keys, values) in enumerate(beginning.layers):
            if layer not in self._layers:
                self._layers[layer] = (self._empty(keys[None]), self._empty(values[None]))
            for cells, kept in zip(self._layers[layer], (keys, values), strict=True):
                cells[row, :, :length] = kept[:, :length]

    def copy_row(self, row: int, ids: Sequence[int]) -> Beginning:
        """Copy the first positions of a row, which hold these ids."""
        import numpy as np

        length = len(ids)
        layers = tuple(
            (keys[row, :, :length].clone(), values[row, :, :length].clone())
            for _, (keys, values) in sorted(self._layers.items())
        )
        return Beginning(np.array(ids, dtype=np.int32), layers)

    def move(self, row: int, to: int, length: int) -> None:
        """See RowCells. Copies the first `length` positions."""
        self.share(row, to, length)

    def share(self, row: int, to: int, length: int) -> None:
        """See RowCells."""
        for pair in self._layers.values():
            for cells in pair:
                cells[to, :, :length] = cells[row, :, :length]

    def close(self) -> None:
        """See RowCells. The tensors are freed with the cells."""

    def _empty(self, like: Tensor) -> Tensor:
        """Zeros, because masked values are multiplied by 0 and so must be finite."""
        return like.new_zeros(self._rows, like.shape[1], self._length, like.shape[3])

    def _grow(self, old: Tensor) -> Tensor:
        new = self._empty(old)
        new[: old.shape[0], :, : old.shape[2]] = old
        return new


class Beginnings:
    """LRU cache of the beginnings of ended rows, by weights. For one thread."""

    def __init__(self, most_bytes: int = KEPT_BYTES) -> None:
        self._kept: OrderedDict[int, tuple[str, KeptPrefix]] = OrderedDict()
        self._next = 0
        self._bytes = 0
        self._most = most_bytes

    def keep(self, weights: str, beginning: KeptPrefix) -> None:
        """Add a beginning, and drop the least recently used ones beyond the limit."""
        self._kept[self._next] = (weights, beginning)
        self._next += 1
        self._bytes += beginning.size
        while self._bytes > self._most:
            self.drop_oldest()

    def drop_oldest(self) -> bool:
        """Drop the least recently used beginning. False if none is kept."""
        if not self._kept:
            return False
        self._take(next(iter(self._kept))).release()
        return True

    def forget(self, weights: str) -> None:
        """Drop all beginnings of these weights."""
        for number in [number for number, (own, _) in self._kept.items() if own == weights]:
            self._take(number).release()

    def longest(self, weights: str, ids: Sequence[int], *, beyond: int = 0) -> tuple[KeptPrefix, int] | None:
        """The beginning that shares the longest prefix with `ids`, and the length: at most all ids but the last.

        None if none shares more than `beyond` tokens. One that is shared in full is handed over, because the row that
        continues it will leave a longer one.
        """
        import numpy as np

        wanted = np.array(ids[:-1], dtype=np.int32)
        shared = {
            number: shared_length(kept.ids, wanted) for number, (own, kept) in self._kept.items() if own == weights
        }
        best = max(shared, key=lambda number: (shared[number], -number), default=None)
        if best is None or shared[best] <= beyond:
            return None
        found = self._kept[best][1]
        if shared[best] == len(found.ids):
            self._take(best)
        else:
            self._kept.move_to_end(best)
        return found, shared[best]

    def _take(self, number: int) -> KeptPrefix:
        _, beginning = self._kept.pop(number)
        self._bytes -= beginning.size
        return beginning
