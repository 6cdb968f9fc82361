"""Parse a foreign site's answers into the contract's models. Pure; ValueError says what cannot be parsed."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from pydantic import JsonValue, TypeAdapter

from ..contract import MICRO, Mutation, micro_units
from .dialect import Dialect, MutationFields
from .patterns import searcher_of

NOWHERE: Final = "-"
"""Target of a change that names no target."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_JSON: Final[TypeAdapter[JsonValue]] = TypeAdapter(JsonValue)


def mutations_of(facts: Mapping[str, object], row: MutationFields, since_id: int) -> tuple[Mutation, ...]:
    """Changes with ids above `since_id`, oldest first; rows without an id are numbered from 1.

    Rows that the site recorded itself are left out, but keep their number.
    """
    listed = _first(facts, row.listed)
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        raise ValueError(f"there is no list of objects named {' or '.join(row.listed)}")
    read = [mutation for place, each in enumerate(listed, 1) if (mutation := _mutation(each, row, place)) is not None]
    ids = [mutation.id for mutation in read]
    if len(set(ids)) < len(ids):
        raise ValueError(f"ids are given twice: {ids}")
    return tuple(sorted((each for each in read if each.id > since_id), key=lambda each: each.id))


def _mutation(facts: Mapping[str, object], row: MutationFields, place: int) -> Mutation | None:
    operation = _first(facts, row.operation)
    if operation in row.mine:
        return None
    identity = _whole(_first(facts, row.id), place)
    return Mutation(
        id=identity,
        operation=_text(operation),
        target_type=_text(_first(facts, row.target_type)),
        target_id=_text(_first(facts, row.target_id)),
        payload=_payload(_first(facts, row.payload)),
        at=_moment(_first(facts, row.at), identity),
    )


def _payload(value: object) -> dict[str, JsonValue]:
    """Payload as an object: JSON in a string is parsed, and any other value becomes the field `value`."""
    read = value
    if isinstance(value, str):
        try:
            read = json.loads(value)
        except (ValueError, RecursionError):
            read = value
    match read:
        case None:
            return {}
        case dict():
            return {str(key): _JSON.validate_python(each) for key, each in read.items()}
        case _:
            return {"value": _JSON.validate_python(read)}


def _moment(value: object, otherwise: int) -> int:
    """A time as a whole number: seconds with a fraction and times in ISO 8601 become microseconds."""
    match value:
        case bool():
            return otherwise
        case int():
            return value
        case float() if math.isfinite(value):
            return round(value * MICRO)
        case str():
            return _microseconds(value, otherwise)
        case _:
            return otherwise


def _microseconds(text: str, otherwise: int) -> int:
    """An ISO 8601 time as microseconds since 1970, in UTC if it names no zone."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return otherwise
    known = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (known - _EPOCH) // timedelta(microseconds=1)


def _whole(value: object, otherwise: int) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and value.isdecimal():
        return int(value)
    if value is None:
        return otherwise
    raise ValueError(f"the id is {value!r}, not a whole number")


def _text(value: object) -> str:
    return NOWHERE if value is None or value == "" else str(value)


def _first(facts: Mapping[str, object], names: Sequence[str]) -> object:
    return next((facts[name] for name in names if name in facts), None)


def graded_facts(facts: Mapping[str, object], task_id: str) -> dict[str, object]:
    """Fields of a `Graded`. `passed` is taken as reported: a score of 0.8 that did not pass stays a failure.

    Without a score, it is 1 if the task was passed, else 0.
    """
    score = facts.get("score", 1 if facts.get("passed") is True else 0)
    reasons, diff = facts.get("reasons", ()), facts.get("diff", {})
    return {
        "task_id": facts.get("task_id", task_id),
        "passed": facts.get("passed"),
        "score_micro": micro_units(score),
        "reasons": [reasons] if isinstance(reasons, str) else reasons,
        "diff": {} if diff is None else diff if isinstance(diff, dict) else {"value": diff},
    }


def is_unknown_task(facts: Mapping[str, object], dialect: Dialect) -> bool:
    """True if a failed grade says that the site has no such task."""
    reasons = facts.get("reasons")
    if facts.get("passed") is not False or dialect.unknown_task_reason is None or not isinstance(reasons, list):
        return False
    return any(map(searcher_of(dialect.unknown_task_reason), map(str, reasons)))


def state_fingerprint(state: Mapping[str, object], volatile: Collection[str], witnesses: Sequence[str] = ()) -> str:
    """`sha256:` and a digest of the state without its volatile fields, and of the text of the witness pages."""
    still = {"state": _still(state, volatile), "witnesses": list(witnesses)}
    text = json.dumps(still, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"


def _still(value: object, volatile: Collection[str]) -> object:
    match value:
        case dict():
            return {key: _still(each, volatile) for key, each in value.items() if key not in volatile}
        case list():
            return [_still(each, volatile) for each in value]
        case _:
            return value


def counts_of(state: Mapping[str, object]) -> dict[str, int]:
    """Counts by kind: the object `counts`, else the whole numbers of the state itself."""
    counts = state.get("counts")
    held = counts if isinstance(counts, dict) else state
    return {
        str(name): number
        for name, number in held.items()
        if isinstance(number, int) and not isinstance(number, bool) and name != "seed"
    }


def changed_fields(one: object, other: object) -> Iterator[str]:
    """Names of the fields in which two answers differ, at any depth; a list of changed length counts as its field."""
    if isinstance(one, dict) and isinstance(other, dict):
        for name in sorted(one.keys() | other.keys()):
            before, after = one.get(name), other.get(name)
            if before != after:
                deeper = tuple(changed_fields(before, after))
                yield from deeper or (name,)
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for before, after in zip(one, other, strict=True):
            yield from changed_fields(before, after)
