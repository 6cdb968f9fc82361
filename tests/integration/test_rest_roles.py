"""Every route by every role: whoever may not call it is refused before anything else is looked at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

import pytest
from fastapi.testclient import TestClient

from api.house import House
from api.routes.roles import RANKS, least_role
from api.tokens import issue
from eventlog.events import TokenRole

from .test_answers import OPEN, TYPED, check_answer
from .test_rest_time import EVERY, filled, needed, paths

ROLES: tuple[TokenRole, ...] = get_args(TokenRole)
GUARDED = [each for each in EVERY if each[1] != "/healthz"]


@pytest.fixture
def house(empty_house: House) -> House:
    """A house on an empty log."""
    return empty_house


@pytest.fixture
def headers(house: House) -> Mapping[TokenRole, dict[str, str]]:
    """The headers of a caller of each role."""
    return {role: {"Authorization": f"Bearer {issue(house.store, role, 'test', role)}"} for role in ROLES}


def test_every_route_is_called_by_the_roles_that_may_and_by_no_other(
    client: TestClient, headers: Mapping[TokenRole, dict[str, str]]
) -> None:
    wrong, undescribed = [], set()
    for method, path in GUARDED:
        address = filled(path).partition("?")[0]
        least = least_role(method, address)
        for role in ROLES:
            answer = client.request(method, address, params=needed(path), headers=headers[role])
            may = RANKS.index(role) >= RANKS.index(least)
            if (answer.status_code == 403) is may or answer.status_code >= 500:
                wrong.append((method, path, role, answer.status_code))
            if answer.status_code == 403 and "403" not in paths()[path][method.lower()]["responses"]:
                undescribed.add((method, path))
    assert (wrong, undescribed) == ([], set())
    assert len(GUARDED) > 40


def test_what_administrators_alone_read_is_the_struct_that_the_document_names(
    client: TestClient, headers: Mapping[TokenRole, dict[str, str]]
) -> None:
    client.headers.update(headers["admin"])
    closed = sorted({*TYPED} - {*OPEN})
    assert closed == ["/v1/blobs", "/v1/tokens", "/v1/webhooks"]
    for path in closed:
        check_answer(path, client)
