"""What may ride on an event and what may stand in a fold's state: the models themselves are walked."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import annotated_types
import msgspec
import pytest
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from eventlog.chain import EXACT
from eventlog.events import EVENT_TYPES, AnyEvent, Event
from projections import ALL
from projections.engine.projection import AnyFold
from projections.forged import FORGED

LEAVES = (str, int, bool, type(None))


def models() -> list[type[BaseModel]]:
    """Every model that rides on an event, the events first."""
    found: dict[type[BaseModel], None] = dict.fromkeys(EVENT_TYPES.values())
    waiting: list[type[BaseModel]] = list(found)
    while waiting:
        for field in waiting.pop().model_fields.values():
            for leaf, _ in leaves(field.annotation, tuple(field.metadata)):
                if isinstance(leaf, type) and issubclass(leaf, BaseModel) and leaf not in found:
                    found[leaf] = None
                    waiting.append(leaf)
    return list(found)


def leaves(kind: Any, constraints: tuple[object, ...] = ()) -> Iterator[tuple[Any, tuple[object, ...]]]:
    """The types that an annotation ends in, each with the constraints on it."""
    origin = get_origin(kind)
    if origin is Annotated:
        inner, *more = get_args(kind)
        unfolded = [part for item in more for part in (item.metadata if isinstance(item, FieldInfo) else [item])]
        yield from leaves(inner, (*constraints, *unfolded))
    elif origin is Literal:
        yield from ((type(value), ("literal",)) for value in get_args(kind))
    elif origin is None:
        yield kind, constraints
    else:
        carried = constraints if origin not in {tuple, list, dict} else ()
        for argument in get_args(kind):
            if argument is not Ellipsis:
                yield from leaves(argument, carried)


MODELS = pytest.mark.parametrize("model", models(), ids=lambda model: str(model.__name__))
FOLDS = pytest.mark.parametrize("fold", ALL, ids=lambda fold: str(fold.name))


def test_the_union_and_the_table_are_the_same_vocabulary() -> None:
    assert set(EVENT_TYPES.values()) == set(get_args(AnyEvent)) == set(_below(Event))


def _below(kind: type[Event]) -> Iterator[type[Event]]:
    for child in kind.__subclasses__():
        if child.__module__.startswith("eventlog."):
            yield child
            yield from _below(child)


@pytest.mark.parametrize("kind", EVENT_TYPES)
def test_an_event_is_stored_under_the_name_of_its_class(kind: str) -> None:
    field = EVENT_TYPES[kind].model_fields["type"]
    assert (get_args(field.annotation), field.default) == ((kind,), kind)
    assert EVENT_TYPES[kind].schema_version >= 1


@MODELS
def test_a_model_is_frozen_closed_and_strict(model: type[BaseModel]) -> None:
    assert {name: model.model_config.get(name) for name in ("frozen", "extra", "strict")} == {
        "frozen": True,
        "extra": "forbid",
        "strict": True,
    }


@MODELS
def test_a_model_holds_no_float_nothing_open_and_nothing_that_json_cannot_say(model: type[BaseModel]) -> None:
    for name, field in model.model_fields.items():
        for leaf, _ in leaves(field.annotation, tuple(field.metadata)):
            is_plain = leaf in LEAVES or (isinstance(leaf, type) and issubclass(leaf, BaseModel))
            assert is_plain, f"{model.__name__}.{name} holds {leaf}"


@MODELS
def test_every_integer_of_a_model_is_within_the_exact_range(model: type[BaseModel]) -> None:
    for name, field in model.model_fields.items():
        for leaf, constraints in leaves(field.annotation, tuple(field.metadata)):
            if leaf is int and "literal" not in constraints:
                low = [limit.ge for limit in constraints if isinstance(limit, annotated_types.Ge)]
                high = [limit.le for limit in constraints if isinstance(limit, annotated_types.Le)]
                assert low, f"{model.__name__}.{name} has no least value"
                assert high, f"{model.__name__}.{name} has no largest value"
                assert isinstance(low[0], int)
                assert isinstance(high[0], int)
                assert -EXACT <= low[0] <= high[0] <= EXACT


@MODELS
def test_a_container_in_a_model_cannot_be_changed_or_is_keyed_by_text(model: type[BaseModel]) -> None:
    for name, field in model.model_fields.items():
        for container in containers(field.annotation):
            assert get_origin(container) in {tuple, dict}, f"{model.__name__}.{name} is a {container}"
            if get_origin(container) is dict:
                assert {leaf for leaf, _ in leaves(get_args(container)[0])} == {str}


def containers(kind: Any) -> Iterator[Any]:
    origin = get_origin(kind)
    if kind in {list, dict, tuple, set, frozenset} or origin in {list, dict, tuple, set, frozenset}:
        yield kind
    for argument in get_args(kind) if origin is not Literal else ():
        yield from containers(argument)


def structs(kind: Any, seen: set[Any]) -> Iterator[Any]:
    """Every type that a state holds, through nested structs."""
    if kind in seen:
        return
    seen.add(kind)
    yield kind
    inner = get_type_hints(kind).values() if isinstance(kind, type) and issubclass(kind, msgspec.Struct) else ()
    for part in (*inner, *(() if get_origin(kind) is Literal else get_args(kind))):
        yield from structs(part, seen)


@FOLDS
def test_a_state_holds_no_float_and_no_time_and_is_frozen_through_and_through(fold: AnyFold) -> None:
    for kind in structs(type(fold.initial), set()):
        assert kind not in {float, complex, bytes, datetime, set, frozenset, list}
        assert get_origin(kind) not in {set, frozenset, list}
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            assert kind.__struct_config__.frozen, kind


def annotation_at(model: type[BaseModel], path: str) -> list[Any]:
    """What stands at a dotted path of a model; empty where nothing does."""
    first, _, rest = path.partition(".")
    field = model.model_fields.get(first)
    if field is None:
        return []
    if not rest:
        return [field.annotation]
    nested = [leaf for leaf, _ in leaves(field.annotation) if isinstance(leaf, type) and issubclass(leaf, BaseModel)]
    return [found for inner in nested for found in annotation_at(inner, rest)]


@FOLDS
def test_a_fold_reads_only_types_and_fields_that_exist(fold: AnyFold) -> None:
    for kind, paths in fold.reads.items():
        assert kind in EVENT_TYPES
        assert paths or fold is FORGED, f"{fold.name} reads nothing of {kind}"  # who wrote it is in no payload
        assert "type" not in paths
        for path in paths:
            assert annotation_at(EVENT_TYPES[kind], path), f"{fold.name} reads {kind}.{path}"


def test_projections_have_names_of_their_own_and_every_event_is_read_by_one_or_is_known_to_be_unread() -> None:
    assert len({fold.name for fold in ALL}) == len(ALL)
    read = {kind for fold in ALL if fold is not FORGED for kind in fold.reads}
    assert set(EVENT_TYPES) - read <= {
        "EventsDisowned",
        "StepVerified",
        "SiteRecorded",
        "RecoveryDecided",
        "ArtifactDeployed",
        "DeploymentFailed",
        "RunRequested",
        "RunCancelled",
        "RunTermsSet",
        "SpansKept",
        "LoopChosen",
    }
