"""The rule of gate/jurisdiction.py on the log: what a site's challenger holds, and what a promotion still waits for."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from agents.learning.memory import build_scoped_memory, forget_everything
from agents.learning.memory_scope import entries_of, sites_of
from agents.plans import Plan
from eventlog.blobs import Blob
from eventlog.events import Artifact, MemoryScope
from eventlog.store import Position
from gate.errors import ActsElsewhere
from gate.jurisdiction import (
    Contents,
    MemoryDifference,
    MissingVerdict,
    Sites,
    acts_elsewhere,
    challenge_on,
    compare_memories,
    missing_verdicts,
)
from projections.benchmarks import BENCHMARKS
from projections.engine.views import Views
from projections.memories import candidacies
from projections.verdicts import VERDICTS, VerdictState

from ..house import House
from ..queries.champion import present_champion
from ..queries.facts import require
from ..queries.sweeps import plans_of, sweeps_on
from .arms import arm_templates


def scope_to_site(house: House, views: Views, site: str, today: Artifact, memory: Blob) -> tuple[Artifact, Blob]:
    """The challenger before a site's benchmark that has what a memory differs in from the champion's on that site.

    It is `today` itself if that differs nowhere else, and the champion's memory if it differs here in nothing.
    `memory` need not be stored. Raises BlobMissing.
    """
    present = present_champion(views).pointed_artifact()
    if today.memory.digest == present.memory.digest:
        return today, memory
    base = _content(house, present)
    champion, own = Contents(present.weights, entries_of(base)), Contents(today.weights, entries_of(memory.body))
    acts = _acts(house, views, site, base, memory.body)
    differing = compare_memories(champion, own)
    several = [name for name in differing.entered if len(acts[name]) > 1]
    found = challenge_on(site, champion, own, acts, judged_sites(house, views, several))
    if found == differing:
        return today, memory
    if found.is_none:
        kept = present.model_copy(update={"weights": today.weights})
        return kept, Blob(memory.media_type, base)
    scope = MemoryScope(base=present.memory.digest, entered=found.entered, left=found.left)
    model = house.embeddings_of(present.memory) if champion.pieces else house.embeddings
    then = house.views(Position(today.memory.upto))
    return build_scoped_memory(then, today.weights, present.memory, base, scope, embeddings=model)


def scope_challenger(house: House, views: Views, site: str, chosen: Artifact, memory: Blob) -> tuple[Artifact, Blob]:
    """A challenger that somebody chose, without what it has for other sites; itself if it has nothing for others."""
    present = present_champion(views).pointed_artifact()
    before = _content(house, present)
    found = compare_memories(Contents("", entries_of(before)), Contents("", entries_of(memory.body)))
    if not acts_elsewhere(found, _acts(house, views, site, before, memory.body), site):
        return chosen, memory
    return scope_to_site(house, views, site, chosen, memory)


def refuse_elsewhere(house: House, views: Views, site: str, champion: Artifact, challenger: Artifact) -> None:
    """Raise ActsElsewhere if a challenger has pieces that the champion lacks and that do not act on the site."""
    found, acts = _difference(house, views, site, champion, challenger)
    elsewhere = acts_elsewhere(found, acts, site)
    if elsewhere:
        others = sorted({other for name in elsewhere for other in acts.get(name, ())})
        raise ActsElsewhere(
            challenger=str(challenger), site=site, actual=", ".join(elsewhere), others=", ".join(others) or "no site"
        )


def verdicts_waited_for(house: House, views: Views, state: VerdictState) -> tuple[MissingVerdict, ...]:
    """The verdicts that a promotion by this evaluation still waits for; none if the pointer may move."""
    champion, challenger = state.artifacts()
    site = require(views.get(BENCHMARKS, state.benchmark)).environment
    found, acts = _difference(house, views, site, champion, challenger)
    several = [name for name in found.entered if len(acts[name]) > 1]
    new = Contents(challenger.weights, dict.fromkeys(found.entered, ""))
    return missing_verdicts(
        site,
        Contents(champion.weights),
        new,
        acts,
        sites=benchmark_sites(views),
        judged=judged_sites(house, views, several),
        weights_judged=_weights_judged(views, challenger) if challenger.weights != champion.weights else frozenset(),
    )


def benchmark_sites(views: Views) -> frozenset[str]:
    """Environments that have a benchmark."""
    return frozenset(state.environment for state in views.find(BENCHMARKS).values())


def judged_sites(house: House, views: Views, pieces: Collection[str]) -> dict[str, Sites]:
    """The sites with a promoting verdict on each of these pieces since trials promoted it last. Raises BlobMissing."""
    if not pieces:
        return {}
    states = candidacies(views)
    since = {name: states[name].promoted_since or 0 for name in pieces if name in states}
    found: dict[str, set[str]] = {name: set() for name in pieces}
    for state in _promoting_verdicts(views):
        champion, challenger = state.artifacts()
        names = {name for name in since if challenger.memory.upto >= since[name]}
        if names:
            site = require(views.get(BENCHMARKS, state.benchmark)).environment
            for name in names.intersection(_entered_pieces(house, champion, challenger)):
                found[name].add(site)
    return {name: frozenset(sites) for name, sites in found.items()}


def _weights_judged(views: Views, challenger: Artifact) -> Sites:
    """The sites with a promoting verdict on these weights."""
    names = {
        state.benchmark for state in _promoting_verdicts(views) if state.artifacts()[1].weights == challenger.weights
    }
    return frozenset(state.environment for state in views.pick(BENCHMARKS, names).values())


def _promoting_verdicts(views: Views) -> Iterable[VerdictState]:
    return (state for state in views.find(VERDICTS).values() if state.decision == "promote")


def _entered_pieces(house: House, champion: Artifact, challenger: Artifact) -> tuple[str, ...]:
    """The pieces that a challenger had and its champion had not or had otherwise."""
    scope = challenger.memory.scope
    if scope is not None and scope.base == champion.memory.digest:
        return scope.entered
    one, other = (Contents(each.weights, entries_of(_content(house, each))) for each in (champion, challenger))
    return compare_memories(one, other).entered


def _difference(
    house: House, views: Views, site: str, champion: Artifact, challenger: Artifact
) -> tuple[MemoryDifference, dict[str, Sites]]:
    """How two memories differ, and on which sites their pieces act."""
    if champion.memory.digest == challenger.memory.digest:
        return MemoryDifference(), {}
    before, after = _content(house, champion), _content(house, challenger)
    found = compare_memories(
        Contents(champion.weights, entries_of(before)), Contents(challenger.weights, entries_of(after))
    )
    return found, _acts(house, views, site, before, after)


def _acts(house: House, views: Views, site: str, *contents: bytes) -> dict[str, Sites]:
    """The sites on which each piece of these memories acts. Where only one site can judge, rewrites act on it."""
    sites = benchmark_sites(views) | {site}
    plans = {each: _known_plans(house, views, each) for each in sites} if len(sites) > 1 else None
    found: dict[str, Sites] = {}
    for content in contents:
        found |= sites_of(content, plans, site)
    return found


def _known_plans(house: House, views: Views, site: str) -> tuple[Plan, ...]:
    """The plans of a site in its open sweeps, in the last ones to learn from, and in its last arms."""
    state = sweeps_on(views, site)
    names = dict.fromkeys([*state.open, *(each.sweep for each in state.rounds)])
    sweeps = (plans_of(house.store, views, name)[:1] for name in names)
    planned = [each.plan_steps for found in sweeps for sweep in found for each in sweep.templates]
    return tuple(dict.fromkeys([*planned, *_last_arms(house, views, site)]))


def _last_arms(house: House, views: Views, site: str) -> Iterator[Plan]:
    """The plans of the newest evaluation on a benchmark of a site, which holds tasks that the last sweep may lack."""
    benchmarks = {key: state for key, state in views.find(BENCHMARKS).items() if state.environment == site}
    opened = (state for state in views.find(VERDICTS).values() if state.benchmark in benchmarks and state.suite)
    newest = max(opened, key=lambda state: state.opened_since, default=None)
    if newest is not None:
        frozen = benchmarks[newest.benchmark].frozen_event()
        yield from (each.plan_steps for each in arm_templates(house, frozen, newest).values())


def _content(house: House, artifact: Artifact) -> bytes:
    """The content of an artifact's memory. The empty memory need not be stored. Raises BlobMissing."""
    empty, blob = forget_everything(artifact.weights)
    if artifact.memory.digest == empty.memory.digest:
        return blob.body
    return house.blobs.get(artifact.memory.digest).body
