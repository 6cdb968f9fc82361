"""Templates as strata of equal weight: the mean over templates of the mean over their instances, exactly. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from math import lcm


@dataclass(frozen=True, slots=True)
class Strata:
    """Contribution of each instance to the mean: `values[t][i] / scale` millionths for instance i of `names[t]`."""

    names: tuple[str, ...]
    values: tuple[tuple[int, ...], ...]
    scale: int

    @property
    def flat(self) -> tuple[int, ...]:
        """The values of all instances, stratum after stratum."""
        return tuple(chain.from_iterable(self.values))

    def mean(self) -> int:
        """The mean over strata in millionths, rounded down."""
        return sum(self.flat) // self.scale

    def means(self) -> tuple[int, ...]:
        """The mean of each stratum in millionths, rounded down."""
        return tuple(sum(stratum) * len(self.values) // self.scale for stratum in self.values)


def stratify(instances: Iterable[tuple[str, Sequence[int]]]) -> Strata:
    """Average the repeats of each instance, the instances of each template, and the templates with equal weight.

    An instance is a pair of its template and one or more values in millionths. Strata keep the order of appearance.
    """
    groups: dict[str, list[Sequence[int]]] = {}
    for template, repeats in instances:
        groups.setdefault(template, []).append(repeats)
    parts = [[len(group) * len(repeats) for repeats in group] for group in groups.values()]
    shared = lcm(*chain.from_iterable(parts))
    values = tuple(
        tuple(sum(repeats) * (shared // part) for repeats, part in zip(group, sizes, strict=True))
        for group, sizes in zip(groups.values(), parts, strict=True)
    )
    return Strata(tuple(groups), values, shared * len(groups))
