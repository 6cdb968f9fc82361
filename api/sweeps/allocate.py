"""Choose a substrate for each trial group of a sweep, and credit the choice when the sweep has ended."""

from __future__ import annotations

from collections.abc import Sequence

from agents.learning.advice import Audience
from agents.learning.allocator import KINDS, SUBSTRATE_OF, Allotment, OpenGroup, allot_substrates, credit_choice
from agents.rollouts.trials import TrialPiece, of_kinds, open_to
from eventlog.disowned import read_in_force
from eventlog.events import Forgetting, PieceKind, RunStarted, Spec, SubstrateChosen, SweepPlanned
from eventlog.store import START, Append, EventStore
from projections.contamination import contaminated_runs
from projections.engine.views import Views
from projections.rewards import REWARDS
from projections.substrates import SUBSTRATES

from ..course import CONTROLLER
from ..house import House
from ..queries.runs import pending_specs


def stream_of(environment: str, cluster: str) -> str:
    """Stream of a cluster's choices and credits."""
    return f"substrate/{environment}/{cluster}"


def allot(
    views: Views,
    sweep: SweepPlanned,
    candidates: Sequence[TrialPiece],
    forgetting: Forgetting,
    budget_left: int | None,
    audience: Audience | None = None,
) -> tuple[SweepPlanned, tuple[SubstrateChosen, ...]]:
    """The sweep with the substrate that the allocator chose for each trial group, and the choices as events."""
    clusters = {template.template_id: template.cluster for template in sweep.templates}
    opened = open_to(sweep.specs, sweep.templates, candidates, sweep.rng_seed, sweep.environment, audience)
    with_candidate = [spec for spec in sweep.specs if spec.group_id in opened and spec.candidate is not None]
    places = [
        OpenGroup(
            spec.group_id, clusters[spec.template], frozenset(SUBSTRATE_OF[kind] for kind in opened[spec.group_id])
        )
        for spec in with_candidate
    ]
    allotment = Allotment(sweep.environment, sweep.sweep, sweep.rng_seed, budget_left, forgetting)
    choices = allot_substrates(views.find(SUBSTRATES), places, allotment)
    specs = of_kinds(sweep.specs, opened, {each.group: KINDS[each.substrate] for each in choices}, sweep.rng_seed)
    return sweep.model_copy(update={"specs": specs}), choices


def choice_appends(choices: Sequence[SubstrateChosen], actor: str = CONTROLLER) -> list[Append]:
    """Append requests for choices, with idempotency keys."""
    return [
        Append(stream_of(each.environment, each.cluster), (each,), actor, key=f"choose:{each.group}")
        for each in choices
    ]


def choices_of(store: EventStore, sweep: SweepPlanned) -> dict[str, SubstrateChosen]:
    """Recorded choices of a sweep, by group. They were appended together with its plan, after it."""
    found = {}
    planned = next(read_in_force(store, stream=f"sweep/{sweep.sweep}"), None)
    after = START if planned is None else planned.position
    for cluster in sorted({template.cluster for template in sweep.templates}):
        stream = stream_of(sweep.environment, cluster)
        for recorded in read_in_force(store, after=after, stream=stream, types=["SubstrateChosen"]):
            if isinstance(recorded.event, SubstrateChosen) and recorded.event.sweep == sweep.sweep:
                found[recorded.event.group] = recorded.event
    return found


def credit_choices(house: House, sweep: SweepPlanned, actor: str = CONTROLLER) -> None:
    """Credit the choices of a sweep that has ended. Idempotent."""
    choices = choices_of(house.store, sweep)
    if not choices:
        return
    views, prefix = house.views(), f"{sweep.sweep}__"
    if pending_specs(views, sweep.specs, prefix):
        return
    kinds, rewards, bad = (
        _applied_kinds(house.store, sweep),
        views.find(REWARDS, prefix),
        contaminated_runs(views, prefix),
    )
    requests = []
    chosen = {spec.group_id: spec for spec in sweep.specs if spec.candidate is not None}  # the last: others go abreast
    for spec in chosen.values():
        if (choice := choices.get(spec.group_id)) is None:
            continue
        controls = [each for each in sweep.specs if each.group_id == spec.group_id and each.is_plain]
        if bad.isdisjoint({spec.spec_id, *(each.spec_id for each in controls)}):
            applied = choice.substrate in {SUBSTRATE_OF[kind] for kind in kinds.get(spec.spec_id, ())}
            event = credit_choice(choice, spec, controls, rewards, applied=applied)
            stream = stream_of(event.environment, event.cluster)
            requests.append(Append(stream, (event,), actor, key=f"credit-substrate:{spec.group_id}"))
    house.store.append(requests)


def _applied_kinds(store: EventStore, sweep: SweepPlanned) -> dict[str, frozenset[PieceKind]]:
    """Kinds of the candidates that really applied in a sweep's runs, by run."""
    with_candidate: list[Spec] = [spec for spec in sweep.specs if spec.candidate is not None]
    starts = (
        recorded.event
        for spec in with_candidate
        for recorded in store.read(stream=f"run/{spec.spec_id}", types=["RunStarted"])
    )
    return {
        event.run: frozenset(item.kind for item in event.applied if item.piece == event.spec.candidate)
        for event in starts
        if isinstance(event, RunStarted)
    }
