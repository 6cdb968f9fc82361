"""Substrates: what each way to learn was worth in each cluster of tasks, and how that changed."""

from __future__ import annotations

import msgspec
from msgspec.structs import asdict

from agents.learning.allocator import greedy, value_of
from projections.engine.views import Views
from projections.substrates import SUBSTRATES, SubstrateState, SubstrateStats

from .facts import find_state
from .history import Since, page_history
from .paging import page_after


class SubstrateWorth(SubstrateStats, frozen=True, kw_only=True):
    """A substrate in one cluster, with the means of its gains and costs; null if no run was credited."""

    value: int | None
    mean_cost: int | None


class SubstrateCluster(msgspec.Struct, frozen=True, kw_only=True):
    """One cluster of an environment with its substrates by name.

    `keep` is how much a run still weighs after the next one, `spread` how widely values are drawn (see Forgetting).
    `epsilon`, `start` and `halved_after` are the chance of exploring and its decay where choices forget nothing.
    """

    environment: str
    cluster: str
    pulls: int
    epsilon: int | None
    start: int
    halved_after: int
    keep: int
    spread: int
    substrates: tuple[SubstrateWorth, ...]

    @property
    def best(self) -> str | None:
        """The substrate that is chosen unless the choice explores."""
        return greedy(value_of(each.substrate, each) for each in self.substrates)


class SubstratePage(msgspec.Struct, frozen=True):
    """Clusters in order of name; `next` is the name that the following page comes after, null on the last page."""

    clusters: tuple[SubstrateCluster, ...]
    next: str | None


class SubstrateAnswer(msgspec.Struct, frozen=True):
    """One cluster and what it was before, oldest first.

    `next` is the position to continue after, null where no more follow.
    """

    cluster: SubstrateCluster
    history: tuple[Since[SubstrateCluster], ...]
    next: int | None


def list_clusters(views: Views, after: str | None = None, limit: int | None = None) -> SubstratePage:
    """A page of the clusters; without a limit, all of them."""
    page, following = page_after(views, SUBSTRATES, after, limit)
    return SubstratePage(clusters=tuple(_cluster(state) for state in page.values()), next=following)


def show_cluster(views: Views, cluster: str, *, after: int = 0, limit: int | None = None) -> SubstrateAnswer:
    """A cluster with a page of its history. Raises Unknown."""
    way_out = "List them with `flywheel substrates list` or GET /v1/substrates."
    state = find_state(views, SUBSTRATES, cluster, what="cluster", way_out=way_out)
    page, following = page_history(views, SUBSTRATES, cluster, after=after, limit=limit)
    history = tuple(
        Since(since=each.since, state=None if each.state is None else _cluster(each.state)) for each in page
    )
    return SubstrateAnswer(cluster=_cluster(state), history=history, next=following)


def _cluster(state: SubstrateState) -> SubstrateCluster:
    return SubstrateCluster(
        environment=state.environment,
        cluster=state.cluster,
        pulls=state.pulls,
        epsilon=state.epsilon,
        start=state.start,
        halved_after=state.halved_after,
        keep=state.keep,
        spread=state.spread,
        substrates=tuple(
            SubstrateWorth(**asdict(each), value=each.value, mean_cost=each.mean_cost) for each in state.substrates
        ),
    )
