"""The small base model of a first warm-up, created reproducibly from the log."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Set
from typing import Any, Final

from agents.models.local.network import refuse_missing
from eventlog.blobs import BlobStore
from eventlog.blobs.conversations import get_messages
from eventlog.disowned import read_in_force
from eventlog.errors import BaseDiffers
from eventlog.events import ModelCalled, Query, SftQuery, SweepPlanned
from eventlog.store import EventStore, Position
from eventlog.weights_folder import Base
from projections.checkpoints import WEIGHTS, WeightsState
from projections.engine.views import Views
from trainer.tiny import Shape, make_tiny, shape_of

from ..course import WARM_UP
from ..datasets import freeze
from ..house import House
from .errors import StartDiffers
from .lineage import trained_on

_CONFIGURATION: Final = "config.json"


def first_base(house: House, shown: SweepPlanned, shape: Shape) -> Base:
    """Create the small base model that the first warm-up starts from, in the folder of unpacked weights.

    Its tokenizer is trained on the text of the imitated demonstrations, its weights are drawn from the sweep's seed.
    Both come from the log, so a missing model can be recreated.
    """
    return _make(house, house.views(), shown, shape)


def made_again(house: House, digest: str) -> Base | None:
    """Recreate the small base model with this digest, from which a first warm-up started.

    None if no warm-up by the controller started from it, because then the log does not record how to recreate it.
    Raises StartDiffers, LibrariesMissing, BlobErased.
    """
    views = house.views()
    warmed = (state for state in views.find(WEIGHTS).values() if state.is_base and state.base == digest)
    first = min(warmed, key=lambda state: state.since, default=None)
    if first is None:
        return None
    frozen = trained_on(views, first)
    shown, shape = _demonstrations_of(house.store, frozen.parse_query()), _shape(house.blobs, first)
    if shown is None or shape is None:
        return None
    refuse_missing("that a warm-up started from")
    try:
        return _make(house, house.views(Position(frozen.upto)), shown, shape, digest)
    except BaseDiffers as error:
        actual = error.facts["actual"]
        raise StartDiffers(checkpoint=first.checkpoint, actual=actual, expected=digest) from error


def words_of(house: House, runs: Collection[str], upto: Position | None = None) -> Iterator[str]:
    """Text of these runs, from their last calls, to train a tokenizer on."""
    ended: dict[str, str] = {}
    for recorded in house.store.read(upto=upto, types=["ModelCalled"]):
        event = recorded.event
        if isinstance(event, ModelCalled) and event.run in runs and recorded.stream == f"run/{event.run}":
            ended[event.run] = event.messages
    for _, address in sorted(ended.items()):
        yield from (_text(message) for message in get_messages(house.blobs, address))


def _make(house: House, views: Views, shown: SweepPlanned, shape: Shape, expected: str | None = None) -> Base:
    """Create the model from the demonstrations that count at the views' position. Raises BaseDiffers."""
    words = words_of(house, _runs_imitated(house, views, shown), views.upto)
    return make_tiny(house.settings.model_folder, words, shape, shown.rng_seed, expected)


def _runs_imitated(house: House, views: Views, shown: SweepPlanned) -> Set[str]:
    """Imitated runs. The tokenizer is trained on these alone, because the lineage lists no others.

    The query is one for policy runs, because a query for demonstrations needs the tokenizer that is created here.
    """
    query = SftQuery(runs="policy", environment=shown.environment, sweep=shown.sweep)
    return freeze.select_runs(house.store, views, query, {spec.group_id for spec in shown.specs})


def _demonstrations_of(store: EventStore, query: Query) -> SweepPlanned | None:
    """Sweep of the demonstrations that a query selects from, if a warm-up of the controller planned it."""
    if not isinstance(query, SftQuery) or query.tokens is None or query.sweep is None:
        return None
    for recorded in read_in_force(store, stream=f"sweep/{query.sweep}"):
        if isinstance(recorded.event, SweepPlanned) and recorded.actor == WARM_UP:
            return recorded.event
    return None


def _shape(blobs: BlobStore, warmed: WeightsState) -> Shape | None:
    """Shape of a warmed-up base model, which is also the shape of its initial model; None if it has none."""
    found = (file.blob for file in warmed.files if file.name == _CONFIGURATION)
    address = next(found, None)
    return None if address is None else shape_of(json.loads(blobs.get(address).body))


def _text(message: Mapping[str, Any]) -> str:
    return "\n".join(part["text"] for part in message["parts"])
