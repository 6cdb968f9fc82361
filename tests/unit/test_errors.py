from __future__ import annotations

import importlib
import pickle
import pkgutil
import string
from collections.abc import Iterator

import psycopg
import pytest

from eventlog.database import database_error
from eventlog.errors import BrokenChain, DatabaseRefused, FlywheelError, LogUnavailable, StatementEnded

ROOMS = ("eventlog", "projections", "agents", "trainer", "gate", "api")


def kinds() -> list[type[FlywheelError]]:
    """Every named error of every room."""
    for room in ROOMS:
        package = importlib.import_module(room)
        for module in pkgutil.walk_packages(package.__path__, f"{room}."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    return sorted(set(_below(FlywheelError)), key=lambda kind: kind.__name__)


def _below(kind: type[FlywheelError]) -> Iterator[type[FlywheelError]]:
    for child in kind.__subclasses__():
        if child.__module__.startswith(ROOMS):
            yield child
            yield from _below(child)


def facts_of(kind: type[FlywheelError]) -> dict[str, object]:
    fields = [(name, form) for _, name, form, _ in string.Formatter().parse(kind.__doc__ or "") if name]
    return {name: 7 if form else f"<{name}>" for name, form in sorted(fields)}


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: str(kind.__name__))
def test_an_error_says_every_fact_it_carries_and_survives_a_process_boundary(kind: type[FlywheelError]) -> None:
    assert kind.__doc__ is not FlywheelError.__doc__
    facts = facts_of(kind)
    error = kind(**facts)
    assert all(str(fact) in str(error) for fact in facts.values())
    assert "{" not in str(error)
    assert "\n" not in str(error)
    copied = pickle.loads(pickle.dumps(error))  # noqa: S301 what was just written
    assert (type(copied), str(copied), copied.facts) == (kind, str(error), error.facts)


def test_facts_with_braces_are_shown_as_they_are() -> None:
    error = BrokenChain(position=3, what="its chain", actual="{position}", expected="{}")
    assert "{position}, expected {}" in str(error)
    assert error.facts["position"] == 3


def test_a_missing_fact_is_a_bug_that_shows() -> None:
    with pytest.raises(KeyError):
        BrokenChain(position=3)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (psycopg.errors.DeadlockDetected, StatementEnded),
        (psycopg.errors.SerializationFailure, StatementEnded),
        (psycopg.errors.LockNotAvailable, StatementEnded),
        (psycopg.errors.QueryCanceled, StatementEnded),
        (psycopg.errors.ReadOnlySqlTransaction, DatabaseRefused),
        (psycopg.errors.DiskFull, DatabaseRefused),
        (psycopg.errors.AdminShutdown, LogUnavailable),
        (psycopg.OperationalError, LogUnavailable),
    ],
)
def test_what_the_database_refused_what_it_gave_up_and_its_absence_are_told_apart(
    error: type[psycopg.Error], kind: type[FlywheelError]
) -> None:
    assert type(database_error(error("it says so"))) is kind
