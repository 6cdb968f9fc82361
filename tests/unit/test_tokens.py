from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime

import pytest

from api.errors import Unknown
from api.tokens import TokenNameTaken, has_any, holder, is_accepted, issue, revoke
from eventlog.memory import MemoryStore
from projections.engine.views import ReplayedViews


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(lambda: datetime(2026, 1, 1, tzinfo=UTC))


def views(store: MemoryStore) -> ReplayedViews:
    return ReplayedViews(store, store.head())


def test_a_token_is_accepted_and_names_its_holder(store: MemoryStore) -> None:
    assert not has_any(views(store))
    plain = issue(store, "laptop", "cli")
    assert re.fullmatch(r"fw_[A-Za-z0-9_-]{43}", plain)
    assert is_accepted(views(store), plain)
    held = holder(views(store), plain)
    assert held is not None
    assert (held.token, held.role) == ("laptop", "ingest")
    assert has_any(views(store))


def test_the_log_holds_the_hash_and_never_the_token(store: MemoryStore) -> None:
    plain = issue(store, "laptop", "cli")
    (row,) = store.read_stored()
    assert plain not in repr(row)
    assert hashlib.sha256(plain.encode()).hexdigest() in row.payload
    assert row.stream == "access"


@pytest.mark.parametrize("presented", ["", "fw_", "laptop", "fw_ü", "\udcff", "x" * 100_000])
def test_anything_else_is_not_accepted(store: MemoryStore, presented: str) -> None:
    issue(store, "laptop", "cli")
    assert not is_accepted(views(store), presented)


def test_the_stored_hash_is_no_token(store: MemoryStore) -> None:
    plain = issue(store, "laptop", "cli")
    assert not is_accepted(views(store), hashlib.sha256(plain.encode()).hexdigest())


def test_a_revoked_token_is_not_accepted_and_the_others_are(store: MemoryStore) -> None:
    gone, kept = issue(store, "gone", "cli"), issue(store, "kept", "cli")
    revoke(store, views(store), "gone", "lost", "cli")
    revoke(store, views(store), "gone", "lost again", "cli")
    assert not is_accepted(views(store), gone)
    assert is_accepted(views(store), kept)
    assert store.head() == 3
    revoke(store, views(store), "kept", "the last one", "cli")
    assert not has_any(views(store))


def test_a_name_is_given_once_for_ever(store: MemoryStore) -> None:
    first = issue(store, "laptop", "cli")
    with pytest.raises(TokenNameTaken):
        issue(store, "laptop", "cli")
    revoke(store, views(store), "laptop", "lost", "cli")
    with pytest.raises(TokenNameTaken):
        issue(store, "laptop", "cli")
    assert not is_accepted(views(store), first)


def test_a_token_that_was_never_issued_cannot_be_revoked(store: MemoryStore) -> None:
    with pytest.raises(Unknown, match="No token is called 'nobody'"):
        revoke(store, views(store), "nobody", "why", "cli")
