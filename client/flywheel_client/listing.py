"""Lists that are read page by page while one goes through them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from .connection import Connection
from .plots import Plot, plot_items
from .records import Record, _escape

if TYPE_CHECKING:
    import polars as pl

R = TypeVar("R", bound=Record)

SHOWN: Final = 20
COLUMNS: Final = 8


@dataclass(frozen=True)
class Listing(Generic[R]):
    """The items of a list, in the server's order. Every pass asks again; pin it with `as_of` to see one position."""

    connection: Connection
    path: str
    name: str
    read: Callable[[Mapping[str, Any]], R]
    params: Mapping[str, Any] = field(default_factory=dict)
    page: int = 200

    def __iter__(self) -> Iterator[R]:
        """Every item. Raises ApiError, Unreachable."""
        after: Any = self.params.get("after")
        while True:
            given = {**self.params, "limit": self.page, **({} if after is None else {"after": after})}
            answer = self.connection.get(self.path, **given)
            yield from map(self.read, answer[self.name])
            after = answer["next"]
            if after is None:
                return

    def first(self, count: int) -> list[R]:
        """The first items."""
        return list(islice(self, count))

    def polars(self, count: int | None = None) -> pl.DataFrame:
        """The first items (None: all) as a table of their plain values. Needs polars."""
        import polars as pl

        rows = [_flat(item.raw) for item in islice(self, count)]
        return pl.DataFrame(rows, infer_schema_length=None)

    def plot(self, count: int | None = None) -> Plot:
        """A picture of the first items (None: all): of runs how many passed, of pieces how many trials won.

        Raises TypeError for lists of other things.
        """
        return plot_items(islice(self, count))

    def _repr_html_(self) -> str:
        """A table of the first items, for notebooks."""
        items = self.first(SHOWN)
        found = [_flat(item.raw) for item in items]
        own = [field.name for field in fields(items[0])] if items else []
        names = sorted(found[0] if found else (), key=lambda name: name not in own)[:COLUMNS]
        head = "".join(f"<th>{_escape(name)}</th>" for name in names)
        body = "".join(
            "<tr>" + "".join(f"<td>{_escape(row.get(name))}</td>" for name in names) + "</tr>" for row in found
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _flat(plain: Mapping[str, Any]) -> dict[str, Any]:
    """The values of an item, those of an object in it under `outer.inner`; lists are left out."""
    found: dict[str, Any] = {}
    for name, value in plain.items():
        if isinstance(value, Mapping):
            found |= {f"{name}.{inner}": each for inner, each in value.items() if not isinstance(each, list | dict)}
        elif not isinstance(value, list):
            found[name] = value
    return found
