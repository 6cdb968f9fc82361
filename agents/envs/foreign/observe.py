"""Detect a site's dialect from its answers: harmless reads, and seeding only if allowed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import closing
from http import HTTPStatus
from typing import Any, Final

import httpx2

from ..clients.wire import REFUSED, Facts, Wire
from ..contract import LARGEST_SEED
from .client import ABSENT
from .dialect import Dialect, MutationFields, Seeding
from .reading import changed_fields, is_unknown_task, state_fingerprint

NO_TASK: Final = "flywheel.no_such_task"
NO_TOKEN: Final = "flywheel-asks-with-a-wrong-token"  # noqa: S105 (wrong on purpose)
SEEDS: Final = (1, 2)
_FIELDS: Final = tuple(name for name in MutationFields.model_fields if name not in ("listed", "mine"))


def observe(
    admin_url: str,
    admin_token: str,
    known: Dialect | None = None,
    *,
    may_seed: bool = False,
    timeout_s: float = 30.0,
    transport: httpx2.BaseTransport | None = None,
) -> Dialect:
    """Dialect of a single-instance site, as far as its answers show it; the rest stays as in `known`.

    Without `may_seed` only GET requests are sent, and the first reset finds out whether seeds are accepted. With it,
    each possible seeding call is used three times, and the site's previous state is lost.
    Raises subclasses of EnvironmentFailure, LoginPage if a proxy answers instead of the site.
    """
    dialect = known or Dialect()
    more: dict[str, Any] = {"headers": dialect.headers, "timeout_s": timeout_s, "transport": transport}
    with closing(_wire(admin_url, admin_token, dialect, **more)) as wire:
        health = _facts(wire, dialect.paths.health, "health")
        if dialect.site is None and isinstance(health.get("site"), str):
            dialect = _with(dialect, site=health["site"])
        with closing(_wire(admin_url, NO_TOKEN, dialect, **more)) as stranger:
            dialect = _refusals(stranger, dialect)
        dialect = _unknown_tasks(wire, _changes(wire, _seed_call(wire, dialect)))
        return _find_seed_call(wire, dialect, health) if may_seed else dialect


def _refusals(stranger: Wire, dialect: Dialect) -> Dialect:
    """Detect the status for a wrong token from the state call."""
    answer = stranger.ask("GET", dialect.paths.state, "state")
    if answer.is_client_error:
        return _with(dialect, refused=(answer.status_code,))
    return dialect


def _seed_call(wire: Wire, dialect: Dialect) -> Dialect:
    """Detect a separate seeding call: an existing one refuses GET by method, not as unknown."""
    if dialect.paths.seed is None or dialect.seeding != "either":
        return dialect
    if wire.ask("GET", dialect.paths.seed, "seed").status_code != HTTPStatus.NOT_FOUND:
        return _with(dialect, seeding="seed")
    return _with(dialect, seeding="reset", paths={**dialect.paths.model_dump(), "seed": None})


def _changes(wire: Wire, dialect: Dialect) -> Dialect:
    """Detect whether changes are listed, under which field names, and whether `since` filters them."""
    path = dialect.paths.mutations
    if path is None:
        return dialect
    answer = wire.ask("GET", path, "mutations")
    if answer.status_code in ABSENT:
        return _with(dialect, paths={**dialect.paths.model_dump(), "mutations": None})
    facts = _read(wire, "mutations", answer)
    listed = next((name for name in (*dialect.row.listed, *facts) if isinstance(facts.get(name), list)), None)
    if listed is None:
        raise wire.contract_error("mutations", f"no list in {sorted(facts)}", "a list of changes")
    rows = [row for row in _list_of(facts, listed) if isinstance(row, dict)]
    choices = dialect.row.model_dump()
    names = {field: [name for name in choices[field] if any(name in row for row in rows)] for field in _FIELDS}
    told = {"listed": (listed,), **{field: tuple(found) for field, found in names.items() if found}}
    dialect = _with(dialect, row={**choices, **told})
    ids = [row[names["id"][0]] for row in rows if names["id"] and isinstance(row.get(names["id"][0]), int)]
    if not ids or len(ids) < len(rows):
        return dialect
    after = _read(wire, "mutations", wire.ask("GET", path, "mutations", query={"since": str(max(ids))}))
    return _with(dialect, since_filters=_list_of(after, listed) == [])


def _unknown_tasks(wire: Wire, dialect: Dialect) -> Dialect:
    """Detect how the site reports an unknown task: by a status, or by the reason of a failed grade."""
    answer = wire.ask("GET", dialect.paths.oracle, "oracle", query={"task_id": NO_TASK})
    if answer.is_client_error and answer.status_code not in dialect.refused:
        return _with(dialect, unknown_task_status=(answer.status_code,), unknown_task_reason=None)
    facts = _read(wire, "oracle", answer)
    reasons = facts.get("reasons")
    if is_unknown_task(facts, dialect) or not isinstance(reasons, list) or not reasons:
        return dialect
    pattern = f"^{re.escape(str(reasons[0])).replace(re.escape(NO_TASK), '.*')}$"
    return _with(dialect, unknown_task_reason=pattern)


def _find_seed_call(wire: Wire, dialect: Dialect, health: Facts) -> Dialect:
    """Detect which call accepts a seed, and which state fields are volatile."""
    calls: dict[Seeding, str | None] = {"seed": dialect.paths.seed, "reset": dialect.paths.reset}
    for seeding, path in calls.items():
        if path is None:
            continue
        found = _seeded_by(wire, path, seeding, dialect)
        if found is not None:
            return found
    seed = health.get("seed")
    sound = isinstance(seed, int) and not isinstance(seed, bool) and 0 <= seed <= LARGEST_SEED
    return _with(dialect, seeding="none", only_seed=seed if sound else 0)


def _seeded_by(wire: Wire, path: str, seeding: Seeding, dialect: Dialect) -> Dialect | None:
    """The dialect with this seeding call, if equal seeds give equal states through it, and different seeds do not."""
    states: list[Facts] = []
    for seed in (SEEDS[0], SEEDS[0], SEEDS[1]):
        answer = wire.ask("POST", path, seeding, body={"seed": seed})
        if answer.status_code in ABSENT:
            return None
        wire.check_open(seeding, answer, refused=dialect.refused)
        if not answer.is_success:
            raise wire.contract_error(seeding, f"status {answer.status_code}", "a call that accepts a seed")
        states.append(_facts(wire, dialect.paths.state, "state"))
    first, again, other = states
    volatile = tuple(sorted({*dialect.volatile, *changed_fields(first, again)}))
    if state_fingerprint(first, volatile) == state_fingerprint(other, volatile):
        return None
    return _with(dialect, seeding=seeding, volatile=volatile)


def _wire(admin_url: str, token: str, dialect: Dialect, *, headers: Mapping[str, str], **more: Any) -> Wire:
    return Wire(admin_url, token, admin_header=dialect.admin_header, extra_headers=headers, **more)


def _facts(wire: Wire, path: str, operation: str) -> Facts:
    return _read(wire, operation, wire.ask("GET", path, operation))


def _read(wire: Wire, operation: str, answer: httpx2.Response) -> Facts:
    wire.check_open(operation, answer, refused=REFUSED)
    wire.check_ok(operation, answer)
    return wire.facts(operation, answer)


def _list_of(facts: Facts, name: str) -> list[object]:
    listed = facts.get(name)
    return listed if isinstance(listed, list) else []


def _with(dialect: Dialect, **changes: object) -> Dialect:
    return Dialect.model_validate({**dialect.model_dump(), **changes})
