"""`flywheel erase`: destroy a person's data and list what was learned from it."""

from __future__ import annotations

from typing import Annotated

import typer

from gate.figures import count_noun

from ..errors import UnknownSubject
from ..history import erase as erasing
from ..house import owned_blobs
from .output import ERR, AsJson, confirm, emit_json, open_project, say
from .taint import show_learned, taint_report

ACTOR = "operator"


def erase(
    subject: Annotated[str, typer.Option(help="Whose data: the pseudonym given when the runs were started.")],
    reason: Annotated[str, typer.Option(help="Reason; recorded in the log.")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what was learned from the data; change nothing.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    as_json: AsJson = False,
) -> None:
    """Destroy the encryption key and the bytes of a subject.

    This cannot be undone; the erasure is recorded in the log. The log itself does not change and still verifies.
    Commands that need the bytes answer *erased* from then on. Pieces learned from the subject's runs stay until
    `flywheel runs withdraw` removes them. Running it again is harmless. If no run or blob belongs to the subject, a
    script must give --yes, because the name may be mistyped.
    """
    event = erasing.erasure_event(subject, reason)
    with open_project() as house:
        seen = erasing.what_is_known_of(house, house.views(), subject)
        if not as_json:
            _show(subject, seen)
        destroyed, since = None, seen.since
        if not dry_run:
            if not (yes or ERR.is_terminal or erasing.is_known(house, seen, subject)):
                raise UnknownSubject(actual=subject)
            confirm(f"Permanently destroy all data of {subject!r}?", yes=yes)
            with owned_blobs(house.settings) as blobs:
                destroyed, since = erasing.erase_subject(house.store, blobs, event, ACTOR)
    if as_json:
        done = {"subject": subject, "since": since, "blobs": destroyed, "runs": seen.runs}
        emit_json({**done, "was_erased": seen.since is not None, "tainted": taint_report(seen.tainted)})
    elif destroyed is None:
        say("Nothing was changed: this was a dry run.")
    else:
        say(f"{subject!r} is erased since position {since}: {count_noun(destroyed, 'blob')} destroyed")


def _show(subject: str, seen: erasing.SubjectTrace) -> None:
    if seen.since is not None:
        say(f"{subject!r} was erased before, at position {seen.since}.")
    show_learned(seen.tainted, empty=f"No run in the log names the subject {subject!r}.")
