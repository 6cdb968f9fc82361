"""Substrates: the gain and cost of each way to learn, by environment and cluster, compared with frozen siblings.

A run counts only if a piece of the substrate applied. Each credited run in a cluster makes earlier ones count less, by
the parameters of the latest choice there; choices from before that forget nothing, and their exploration decays.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from msgspec.structs import replace

from eventlog import events

from .engine.projection import EventRow, Fold, FoldState

_WHOLE = 1_000_000
_FORGOTTEN = 1_000
"""A weight below a thousandth of a run says nothing."""


class SubstrateStats(FoldState, frozen=True, kw_only=True):
    """The results of one substrate in a cluster; gains and costs are sums in micro-units.

    `chosen` counts its choices, `pulls` those credited, `idle` those in which no piece applied, `unknown` those with an
    unknown gain or cost. `weight` (in millionths of a run) and `recent` are the discounted number and gains of the
    credited runs; without forgetting they are `pulls` and `gain`.
    """

    substrate: events.Substrate
    chosen: int = 0
    pulls: int = 0
    idle: int = 0
    unknown: int = 0
    gain: int = 0
    cost: int = 0
    weight: int = 0
    recent: int = 0

    @property
    def value(self) -> int | None:
        """Discounted mean gain of a credited run in micro-units, rounded down; 0 if forgotten, None if unknown."""
        if not self.pulls:
            return None
        return self.recent * _WHOLE // self.weight if self.weight >= _FORGOTTEN else 0

    @property
    def mean_cost(self) -> int | None:
        """Mean cost of a credited run in micro-dollars, rounded down; None if none was credited."""
        return self.cost // self.pulls if self.pulls else None


class SubstrateState(FoldState, frozen=True, kw_only=True):
    """One cluster of an environment: its substrates in order of name.

    `epsilon` is the probability of exploring next, in millionths, `start` and `halved_after` are the parameters of its
    decay; None and 0 if choices forget. `keep` and `spread` are the parameters of that (see Forgetting).
    """

    environment: str = ""
    cluster: str = ""
    substrates: tuple[SubstrateStats, ...] = ()
    epsilon: int | None = None
    start: int = 0
    halved_after: int = 0
    keep: int = 1_000_000
    spread: int = 0

    @property
    def pulls(self) -> int:
        """Number of runs credited in this cluster."""
        return sum(each.pulls for each in self.substrates)


def cluster_key(environment: str, cluster: str) -> str:
    """Key of a cluster's row."""
    return f"{environment}/{cluster}"


def standings(
    states: Mapping[str, SubstrateState], environment: str, cluster: str
) -> Mapping[events.Substrate, SubstrateStats]:
    """Statistics of a cluster's substrates, by name."""
    state = states.get(cluster_key(environment, cluster), SubstrateState())
    return {each.substrate: each for each in state.substrates}


def _with(state: SubstrateState, standing: SubstrateStats) -> SubstrateState:
    others = [each for each in state.substrates if each.substrate != standing.substrate]
    return replace(state, substrates=tuple(sorted((*others, standing), key=lambda each: each.substrate)))


def _credit(state: SubstrateState, before: SubstrateStats, row: EventRow) -> SubstrateState:
    gain, cost = row.maybe_number("gain"), row.maybe_number("cost")
    if not row.flag("applied"):
        return _with(state, replace(before, idle=before.idle + 1))
    if gain is None or cost is None:
        return _with(state, replace(before, unknown=before.unknown + 1))
    others = tuple(_discount(each, state.keep) for each in state.substrates)
    before = _discount(before, state.keep)
    credited = replace(
        before,
        pulls=before.pulls + 1,
        gain=before.gain + gain,
        cost=before.cost + cost,
        weight=before.weight + _WHOLE,
        recent=before.recent + gain,
    )
    return _with(replace(state, substrates=others), credited)


def _discount(stats: SubstrateStats, keep: int) -> SubstrateStats:
    return replace(stats, weight=stats.weight * keep // _WHOLE, recent=stats.recent * keep // _WHOLE)


def _keep(recorded: int | None) -> int:
    return _WHOLE if recorded is None else recorded


def _epsilon(state: SubstrateState) -> int | None:
    if not state.halved_after:
        return None
    return state.start * state.halved_after // (state.halved_after + state.pulls)


def _fold(state: SubstrateState, row: EventRow) -> SubstrateState:
    name = cast("events.Substrate", row.text("substrate"))
    before = next((each for each in state.substrates if each.substrate == name), SubstrateStats(substrate=name))
    state = replace(state, environment=row.text("environment"), cluster=row.text("cluster"))
    if row.type == "SubstrateChosen":
        state = _with(state, replace(before, chosen=before.chosen + 1))
        state = replace(
            state,
            start=row.maybe_number("decay.start") or 0,
            halved_after=row.maybe_number("decay.halved_after") or 0,
            keep=_keep(row.maybe_number("forgetting.keep")),
            spread=row.maybe_number("forgetting.spread") or 0,
        )
    else:
        state = _credit(state, before, row)
    return replace(state, epsilon=_epsilon(state))


SUBSTRATES = Fold(
    name="substrates",
    version=3,
    reads={
        "SubstrateChosen": (
            "environment",
            "cluster",
            "substrate",
            "decay.start",
            "decay.halved_after",
            "forgetting.keep",
            "forgetting.spread",
        ),
        "SubstrateCredited": (
            "environment",
            "cluster",
            "substrate",
            "run",
            "control_runs",
            "applied",
            "gain",
            "cost",
        ),
    },
    initial=SubstrateState(),
    key=lambda row: cluster_key(row.text("environment"), row.text("cluster")),
    fold=_fold,
    rests_on={"SubstrateCredited": ("run", "control_runs")},
)
