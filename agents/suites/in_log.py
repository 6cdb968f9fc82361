"""Suites in the log: bring one in as a version, and read a version back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from eventlog.events import Suite, SuiteRegistered
from eventlog.store import Append, Committed, EventStore, Position, Repeated
from projections.engine.views import Views
from projections.suites import REGISTRATIONS, SUITES, SuiteState, SuiteVersion

from .bundled import bundled_for
from .errors import NoSuite, OtherEnvironment, SuiteChanged
from .suite_file import suite_digest

STREAM: Final = "suite/{}"
NOT_IN_LOG: Final = 0


@dataclass(frozen=True, slots=True)
class VersionedSuite:
    """A suite and its version in the log. The version is 0 for a bundled suite that was not brought in."""

    suite: Suite
    version: int = NOT_IN_LOG

    def __str__(self) -> str:
        return f"{self.suite.name}@{self.version}" if self.version else self.suite.name


def register_suite(store: EventStore, views: Views, suite: Suite, actor: str) -> VersionedSuite:
    """Bring in a suite as a new version; one whose content is the newest version's is only found again.

    Raises SuiteChanged if somebody else brings in another version meanwhile.
    """
    versioned, request = next_version(views, suite, actor)
    if request is not None:
        (result,) = store.append([request])
        if not isinstance(result, Committed | Repeated):
            raise SuiteChanged(suite=suite.name, actual=versioned.version)
    return versioned


def next_version(views: Views, suite: Suite, actor: str) -> tuple[VersionedSuite, Append | None]:
    """The version that a suite has or would get, and the request that brings it in; None if it is the newest."""
    state, content = views.get(SUITES, suite.name), suite_digest(suite)
    version = state.newest.version if state is not None else 0
    if state is not None and state.newest.digest == content:
        return VersionedSuite(suite, version), None
    event = SuiteRegistered(suite=suite.name, environment=suite.environment, digest=content, content=suite)
    key = f"suite:{version + 1}:{content}"
    return VersionedSuite(suite, version + 1), Append(
        STREAM.format(suite.name), (event,), actor, expect=version, key=key
    )


def find_suite(store: EventStore, views: Views, named: str) -> VersionedSuite:
    """The suite of a name, such as `shop` (its newest version) or `shop@2`. Raises NoSuite."""
    name, _, number = named.partition("@")
    state = views.get(SUITES, name)
    found = None if state is None else _version(state, number)
    if found is None:
        known = [f"{key}@{each.version}" for key, has in views.find(SUITES).items() for each in has.versions]
        raise NoSuite(actual=repr(named), expected=f"one of {', '.join(known)}" if known else "one that was brought in")
    return _read(store, name, found)


def suite_for(store: EventStore, views: Views, environment: str, named: str | None = None) -> VersionedSuite:
    """The suite of an environment: the named one, else that of its registration, else the newest one for it.

    A bundled suite serves where the log has none. Raises NoSuite, OtherEnvironment.
    """
    registration = views.get(REGISTRATIONS, environment)
    named = named or (registration.suite if registration is not None else None)
    if named is not None:
        found = find_suite(store, views, named)
        if not found.suite.serves(environment):
            raise OtherEnvironment(suite=named, actual=found.suite.environment, expected=environment)
        return found
    newest = _newest_for(views, environment)
    if newest is not None:
        return _read(store, *newest)
    bundled = bundled_for(environment)
    if bundled is None:
        raise NoSuite(actual=f"for the environment {environment!r}", expected="one that was brought in for it")
    return VersionedSuite(bundled)


def _newest_for(views: Views, environment: str) -> tuple[str, SuiteVersion] | None:
    """The newest version of any suite that is for exactly this environment, else for its family."""
    found = [(name, state.newest) for name, state in views.find(SUITES).items()]
    serving = [
        (each.environment == environment, each.position, name, each)
        for name, each in found
        if environment == each.environment or environment.startswith(f"{each.environment}.")
    ]
    if not serving:
        return None
    _, _, name, newest = max(serving, key=lambda each: each[:2])
    return name, newest


def _version(state: SuiteState, number: str) -> SuiteVersion | None:
    if not number:
        return state.newest
    return state.version(int(number)) if number.isascii() and number.isdigit() else None


def _read(store: EventStore, name: str, version: SuiteVersion) -> VersionedSuite:
    at = Position(version.position)
    for recorded in store.read(after=Position(at - 1), upto=at, stream=STREAM.format(name)):
        if isinstance(recorded.event, SuiteRegistered):
            return VersionedSuite(recorded.event.content, version.version)
    raise NoSuite(actual=f"{name}@{version.version}", expected=f"its event at position {version.position}")
