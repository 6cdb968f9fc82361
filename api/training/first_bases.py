"""The small model that a first warm-up starts from: made of what the log says, and again where its folder is gone."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Set
from typing import Any, Final

from agents.models.local.network import refuse_missing
from eventlog.blobs import BlobStore
from eventlog.blobs.conversations import get_messages
from eventlog.errors import BaseDiffers
from eventlog.events import ModelCalled, Query, SftQuery, SweepPlanned
from eventlog.store import EventStore, Position
from eventlog.weights_folder import Base
from projections.checkpoints import WEIGHTS, WeightsState
from projections.engine.views import Views
from trainer.tiny import Shape, make_tiny, shape_of

from ..course import WARM_UP
from ..datasets import freeze
from ..errors import StartDiffers
from ..house import House
from .lineage import trained_on

_CONFIGURATION: Final = "config.json"


def first_base(house: House, shown: SweepPlanned, shape: Shape) -> Base:
    """The small model that the first turn goes on from, by its digest among the unpacked weights.

    Its tokenizer is of the words of the demonstrations that are imitated, its weights are drawn by the sweep's seed.
    Both are in the log, so it is made again where it is missing.
    """
    return _make(house, house.views(), shown, shape)


def made_again(house: House, digest: str) -> Base | None:
    """The small model of this digest in its place, made as it was before a first warm-up went on from it.

    None where no warm-up did that the controller made: the log does not say how it came about. Raises StartDiffers,
    LibrariesMissing, BlobErased.
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
    """What was said in these runs, out of their last calls: what a tokenizer is made of."""
    ended: dict[str, str] = {}
    for recorded in house.store.read(upto=upto, types=["ModelCalled"]):
        event = recorded.event
        if isinstance(event, ModelCalled) and event.run in runs:
            ended[event.run] = event.messages
    for _, address in sorted(ended.items()):
        yield from (_text(message) for message in get_messages(house.blobs, address))


def _make(house: House, views: Views, shown: SweepPlanned, shape: Shape, expected: str | None = None) -> Base:
    """The model of the demonstrations that count at the views' position. Raises BaseDiffers."""
    words = words_of(house, _runs_imitated(house, views, shown), views.upto)
    return make_tiny(house.settings.model_folder, words, shape, shown.rng_seed, expected)


def _runs_imitated(house: House, views: Views, shown: SweepPlanned) -> Set[str]:
    """The runs that are imitated: a tokenizer of others' words would be learned from runs that no lineage names.

    Asked as of a policy's runs, because the tokens of a query for demonstrations are those of the model that is made.
    """
    query = SftQuery(runs="policy", environment=shown.environment, sweep=shown.sweep)
    return freeze.select_runs(house.store, views, query, {spec.group_id for spec in shown.specs})


def _demonstrations_of(store: EventStore, query: Query) -> SweepPlanned | None:
    """The demonstrations that a query selects from, where a warm-up of the controller planned them."""
    if not isinstance(query, SftQuery) or query.tokens is None or query.sweep is None:
        return None
    for recorded in store.read(stream=f"sweep/{query.sweep}"):
        if isinstance(recorded.event, SweepPlanned) and recorded.actor == WARM_UP:
            return recorded.event
    return None


def _shape(blobs: BlobStore, warmed: WeightsState) -> Shape | None:
    """The shape of a base model that was warmed up, which is that of what it started from; None where it has none."""
    found = (file.blob for file in warmed.files if file.name == _CONFIGURATION)
    address = next(found, None)
    return None if address is None else shape_of(json.loads(blobs.get(address).body))


def _text(message: Mapping[str, Any]) -> str:
    return "\n".join(part["text"] for part in message["parts"])
