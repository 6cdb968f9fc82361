"""The OpenAPI document: what each read answers is typed by the struct that its query returns."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, cast

import pytest

from api.app import create_app
from api.house import House
from api.routes.events import vocabulary
from api.routes.schemas import ANSWERS, answer_schemas

JSON = "application/json"


@cache
def document() -> dict[str, Any]:
    return create_app(cast("House", None)).openapi()


def reads() -> list[str]:
    """Every path under /v1 that is read as JSON."""
    return [path for path in document()["paths"] if path.startswith("/v1") and JSON in _content(path)]


def _content(path: str) -> dict[str, Any]:
    answer = document()["paths"][path].get("get", {}).get("responses", {}).get("200", {})
    found: dict[str, Any] = answer.get("content", {})
    return found


def references(part: object) -> Iterator[str]:
    """Every reference in a part of the document."""
    if isinstance(part, dict):
        yield from (value for key, value in part.items() if key == "$ref")
    for item in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        yield from references(item)


def reached(part: object) -> dict[str, object]:
    """The schemas that a part of the document refers to, directly or through others; None is one that is missing."""
    found: dict[str, object] = {}
    waiting = list(references(part))
    while waiting:
        name = waiting.pop().removeprefix("#/components/schemas/")
        if name not in found:
            found[name] = document()["components"]["schemas"].get(name)
            waiting += references(found[name])
    return found


@pytest.mark.parametrize("path", reads())
def test_a_read_answers_with_a_schema_whose_references_lead_somewhere(path: str) -> None:
    schemas = reached(_content(path)[JSON]["schema"])
    assert schemas
    assert [name for name, schema in schemas.items() if not schema] == []


def test_every_answer_is_named_by_an_endpoint() -> None:
    named = {name for methods in document()["paths"].values() for name in map(_name_of, references(methods))}
    assert {kind.__name__ for kind in ANSWERS} <= named


def _name_of(reference: str) -> str:
    return reference.rpartition("/")[2]


def test_no_two_schemas_have_one_name() -> None:
    of_routes = {_name_of(reference) for reference in references(document()["paths"])} - set(answer_schemas())
    assert len({kind.__name__ for kind in ANSWERS}) == len(ANSWERS)
    assert set(answer_schemas()) & (set(vocabulary()) | of_routes) == set()


def test_every_schema_of_an_answer_says_what_it_is() -> None:
    assert [name for name, schema in answer_schemas().items() if not schema["description"]] == []


def test_an_event_in_an_answer_has_the_schema_in_which_it_can_be_appended() -> None:
    schemas = document()["components"]["schemas"]
    shown, appended = schemas["LoggedEvent"]["properties"]["event"], schemas["AppendBody"]["properties"]["events"]
    assert shown == appended["items"]
    assert {"RunStarted", "RewardGraded"} <= reached(shown).keys()
