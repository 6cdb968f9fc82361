"""Protocol of an engine that computes a base model's logits here: between the batches and a model library. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from eventlog.weights_folder import Base

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class AdapterFile(Protocol):
    """Weights beside a base that were read and checked, to be attached to it."""

    @property
    def digest(self) -> str:
        """The checkpoint's digest."""
        ...


class KeptPrefix(Protocol):
    """The attention state of a conversation's first tokens, kept for a later prompt that begins with them."""

    @property
    def ids(self) -> NDArray[np.int32]:
        """Its tokens."""
        ...

    @property
    def size(self) -> int:
        """Size by which it counts towards the bound of what is kept."""
        ...

    def release(self) -> None:
        """Give back what it occupies."""
        ...


class RowCells(Protocol):
    """Attention state of the rows of one batch. Rows are at the front, without gaps."""

    def reserve(self, rows: int, length: int, /) -> bool:
        """Make room for this many rows of this length. False if there is none until other rows have ended."""
        ...

    def put(self, row: int, beginning: Any, length: int, /) -> None:
        """Fill the first `length` positions of a row from a kept prefix; one that is taken in full is used up."""
        ...

    def copy_row(self, row: int, ids: Sequence[int], /) -> KeptPrefix:
        """The attention state of a row that ended, whose first positions hold these ids."""
        ...

    def move(self, row: int, to: int, length: int, /) -> None:
        """Make a row the row `to`."""
        ...

    def share(self, row: int, to: int, length: int, /) -> None:
        """Fill the first `length` positions of the row `to` from another row."""
        ...

    def close(self) -> None:
        """Give back the room of all rows."""
        ...


class Network(Protocol):
    """Weights in memory: one base, any number of adapters on it. For use by one thread."""

    @property
    def most_kept(self) -> int:
        """Bound of the sizes of all kept prefixes together."""
        ...

    def new_cells(self, weights: str, kept: Any, /) -> RowCells:
        """Empty cells for rows of these weights. `kept.drop_oldest()` gives back a kept prefix where room is short."""
        ...

    def attach(self, adapter: Any, /) -> None:
        """Load an adapter beside the base, without activating it. Raises AdapterUnfit."""
        ...

    def detach(self, digest: str, /) -> None:
        """Remove an adapter from memory."""
        ...

    def close(self) -> None:
        """Free all weights and cells. Nothing is asked of it afterwards."""
        ...

    def read(self, weights: str, cells: Any, row: int, ids: Sequence[int], first: int, /) -> NDArray[Any]:
        """Read the tokens of a row from position `first` on. Returns the logits of the next token."""
        ...

    def step(self, weights: str, cells: Any, tokens: Sequence[int], places: Sequence[int], /) -> NDArray[Any]:
        """Read one token of each row, at its position. Returns the logits of each row's next token."""
        ...


class ModelEngine(Protocol):
    """A library that loads base models and checkpoints on them. `prefix` begins the names of its models."""

    @property
    def prefix(self) -> str:
        """Beginning of its models' names, with a colon."""
        ...

    @property
    def is_exact(self) -> bool:
        """True if its logprobs are those of the weights that would be trained, but for rounding."""
        ...

    @property
    def threads(self) -> int:
        """Threads that may compute."""
        ...

    def refuse_missing(self, what: object, /) -> None:
        """Raise LibrariesMissing for the model `what` if the library is not installed."""
        ...

    def load(self, base: Base, /) -> Network:
        """Load the weights of a base. Raises BaseUnfit."""
        ...

    def read_adapter(self, path: Path, digest: str, base: Base, /) -> AdapterFile:
        """Read and check the checkpoint of this digest. Raises AdapterUnfit, CheckpointMissing, CheckpointAltered."""
        ...
