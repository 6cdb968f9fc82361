"""Rows of a batch as sequences of one llama.cpp context. A row that ended becomes a kept prefix without a copy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from .context import SEQUENCES, Context

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Kept(Protocol):
    """Kept parts of rows that ended."""

    def drop_oldest(self) -> bool:
        """Give back the least recently used prefix. False if there is none."""
        ...


class SequencePool:
    """The sequences of a context, and how many of its cells each may use. Their sum stays within the context."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self._free = list(reversed(range(SEQUENCES)))
        self._reserved: dict[int, int] = {}

    def take(self, length: int, kept: Kept) -> int | None:
        """An empty sequence of this length, for which kept prefixes are dropped; None if there is still no room."""
        while not self._free or sum(self._reserved.values()) + length > self.context.cells:
            if not kept.drop_oldest():
                return None
        sequence = self._free.pop()
        self._reserved[sequence] = length
        return sequence

    def shrink(self, sequence: int, length: int) -> None:
        """Give back the cells of a sequence beyond this length."""
        self.context.remove(sequence, length)
        self._reserved[sequence] = length

    def grow(self, sequence: int, length: int) -> None:
        """Let a sequence use this many cells, which the caller has just given back."""
        self._reserved[sequence] = length

    def length(self, sequence: int) -> int:
        """How many cells a sequence may use."""
        return self._reserved[sequence]

    def give(self, sequence: int) -> None:
        """Give a sequence back."""
        self.context.remove(sequence)
        del self._reserved[sequence]
        self._free.append(sequence)


@dataclass(frozen=True, slots=True)
class SequencePrefix:
    """A kept sequence. See KeptPrefix; its size is its number of tokens."""

    ids: NDArray[np.int32]
    sequence: int
    pool: SequencePool

    @property
    def size(self) -> int:
        """See KeptPrefix."""
        return len(self.ids)

    def release(self) -> None:
        """See KeptPrefix."""
        self.pool.give(self.sequence)


class SequenceRows:
    """The rows of one batch. See RowCells."""

    def __init__(self, pool: SequencePool, kept: Kept) -> None:
        self._pool = pool
        self._kept = kept
        self._rows: list[int] = []

    def sequence(self, row: int) -> int:
        """The sequence of a row."""
        return self._rows[row]

    def reserve(self, rows: int, length: int) -> bool:
        """See RowCells."""
        if rows <= len(self._rows):
            return True
        sequence = self._pool.take(length, self._kept)
        if sequence is None:
            return False
        self._rows.append(sequence)
        return True

    def put(self, row: int, beginning: SequencePrefix, length: int) -> None:
        """See RowCells. A prefix that is taken in full becomes the row's sequence."""
        own = self._rows[row]
        if length < len(beginning.ids):
            self._pool.context.copy(beginning.sequence, own, length)
            return
        whole = self._pool.length(own)
        self._pool.give(own)
        self._rows[row] = beginning.sequence
        self._pool.grow(beginning.sequence, whole)

    def copy_row(self, row: int, ids: Sequence[int]) -> SequencePrefix:
        """See RowCells. The row has no sequence afterwards, until another row is moved to it."""
        import numpy as np

        sequence = self._rows[row]
        self._pool.shrink(sequence, len(ids))
        if row == len(self._rows) - 1:
            self._rows.pop()
        else:
            self._rows[row] = -1
        return SequencePrefix(np.array(ids, dtype=np.int32), sequence, self._pool)

    def move(self, row: int, to: int, _length: int) -> None:
        """See RowCells."""
        self._rows[to] = self._rows[row]
        del self._rows[row:]

    def share(self, row: int, to: int, length: int) -> None:
        """See RowCells."""
        self._pool.context.copy(self._rows[row], self._rows[to], length)

    def close(self) -> None:
        """See RowCells."""
        for sequence in self._rows:
            if sequence >= 0:
                self._pool.give(sequence)
        self._rows = []
