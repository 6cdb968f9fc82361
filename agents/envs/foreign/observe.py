"""Detect a site's dialect from its answers: harmless reads, and seeding only if allowed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from http import HTTPStatus
from typing import Any, Final

import httpx2

from ..clients.wire import REFUSED, Facts, Wire
from ..contract import LARGEST_SEED
from .answers import changed_fields, is_unknown_task, state_fingerprint
from .client import ABSENT
from .dialect import Dialect, MutationFields, Seeding
from .witnesses import find_witnesses

NO_TASK: Final = "flywheel.no_such_task"
NO_TOKEN: Final = "flywheel-asks-with-a-wrong-token"  # noqa: S105 (wrong on purpose)
SEEDS: Final = (1, 2, 3, 5)
"""Seeds that are tried; the first twice. Two of them may meet, all of them do not."""

AUDITS: Final = ("recent_audit", "recent_mutations", "audit")
"""Names under which a state lists changes, for a site without a call for them."""
_FIELDS: Final = tuple(name for name in MutationFields.model_fields if name not in ("listed", "mine"))


def observe(
    admin_url: str,
    admin_token: str,
    known: Dialect | None = None,
    *,
    may_seed: bool = False,
    page_url: str | None = None,
    say: Callable[[str], None] = lambda _: None,
    timeout_s: float = 30.0,
    transport: httpx2.BaseTransport | None = None,
) -> Dialect:
    """Dialect of a single-instance site, as far as its answers show it; the rest stays as in `known`.

    Without `may_seed` only GET requests are sent, and the first reset finds out whether seeds are accepted. With it,
    each possible seeding call is used several times, and the site's previous state is lost; where its states look
    alike, the pages at `page_url` (None: the admin address) are read for a witness. `say` is told what is missing.
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
        if may_seed:
            pages = {"page_url": dialect.page_url or page_url or admin_url, **more}
            dialect = _find_seed_call(wire, dialect, health, pages, say)
        for sentence in _lacks(dialect, health):
            say(sentence)
        return dialect


def _lacks(dialect: Dialect, health: Facts) -> Iterator[str]:
    """Parts of the dialect that a person still has to write."""
    if not dialect.tasks and not health.get("tasks"):
        yield "health names no tasks: add `tasks`, each with task_id and instruction"
    if dialect.site is None:
        yield "health does not say the site's name: add `site`"
    if dialect.paths.mutations is None:
        yield "no call lists changes, so steps cannot be rewarded; name it as `paths.mutations` if there is one"


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
        return _audit_in_state(wire, dialect)
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


def _audit_in_state(wire: Wire, dialect: Dialect) -> Dialect:
    """Detect whether a site without a call for changes lists them in its state."""
    state = _facts(wire, dialect.paths.state, "state")
    listed = next((name for name in AUDITS if isinstance(state.get(name), list)), None)
    if listed is None:
        return _with(dialect, paths={**dialect.paths.model_dump(), "mutations": None})
    names = {**dialect.row.model_dump(), "listed": (listed,)}
    return _with(dialect, row=names, paths={**dialect.paths.model_dump(), "mutations": dialect.paths.state})


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


def _find_seed_call(
    wire: Wire, dialect: Dialect, health: Facts, pages: Mapping[str, Any], say: Callable[[str], None]
) -> Dialect:
    """Detect which call accepts a seed, and which state fields are volatile; no seed is made up."""
    calls: dict[Seeding, str | None] = {"seed": dialect.paths.seed, "reset": dialect.paths.reset}
    for seeding, path in calls.items():
        if path is None:
            continue
        found = _seeded_by(wire, path, seeding, dialect, pages)
        if found is not None:
            return found
        say(f"{path} is there, and states and pages look alike for the seeds {', '.join(map(str, SEEDS))}: it takes no")
        say("seed, or the state says too little; name pages that show what a seed changes as `witnesses`")
    seed = health.get("seed")
    if isinstance(seed, int) and not isinstance(seed, bool) and 0 <= seed <= LARGEST_SEED:
        return _with(dialect, seeding="none", only_seed=seed)
    say("no call takes a seed, and health does not say which one it was started with: add `seeding` and `only_seed`")
    return dialect


def _seeded_by(wire: Wire, path: str, seeding: Seeding, dialect: Dialect, pages: Mapping[str, Any]) -> Dialect | None:
    """The dialect with this seeding call, if equal seeds look equal through it, and different seeds do not.

    What looks so is the state, else a page. None if nothing does, or the call is absent.
    """

    def sow(seed: int) -> bool:
        answer = wire.ask("POST", path, seeding, body={"seed": seed})
        if answer.status_code in ABSENT:
            return False
        wire.check_open(seeding, answer, refused=dialect.refused)
        if not answer.is_success:
            raise wire.contract_error(seeding, f"status {answer.status_code}", "a call that accepts a seed")
        return True

    states: list[Facts] = []
    for seed in (SEEDS[0], *SEEDS):
        if not sow(seed):
            return None
        states.append(_facts(wire, dialect.paths.state, "state"))
    first, again, *others = states
    volatile = tuple(sorted({*dialect.volatile, *changed_fields(first, again)}))
    held = state_fingerprint(first, volatile)
    if any(state_fingerprint(other, volatile) != held for other in others):
        return _with(dialect, seeding=seeding, volatile=volatile)

    def state() -> str:
        return state_fingerprint(_facts(wire, dialect.paths.state, "state"), volatile)

    found = dialect.witnesses or find_witnesses(seeds=SEEDS, sow=sow, state=state, **pages)
    return _with(dialect, seeding=seeding, volatile=volatile, witnesses=found) if found else None


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
