"""`flywheel erase`: a person's data destroyed, and what had seen it."""

from __future__ import annotations

from typing import Annotated

import typer

from gate.figures import count_noun

from ..errors import UnknownSubject
from ..history import erase as erasing
from ..house import owned_blobs
from .output import ERR, AsJson, confirm, emit_json, open_project, say
from .taint import show_learned

ACTOR = "operator"


def erase(
    subject: Annotated[str, typer.Option(help="Whose data: the pseudonym that its runs were started with.")],
    reason: Annotated[str, typer.Option(help="Why; it is recorded in the log.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what had seen the data, and stop there.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Destroy the key and the bytes of a subject, and record that it was done. There is no way back.

    The log itself does not change: it verifies as before. What needs the bytes answers erased from here on. What was
    learned from the subject's runs stays until `flywheel runs withdraw` takes it out. Running it again is harmless.
    Where no run and no blob is the subject's, a script has to say --yes: the name may be mistyped.
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
            confirm(f"Destroy everything that is kept of {subject!r}, for good?", yes=yes)
            with owned_blobs(house.settings) as blobs:
                destroyed, since = erasing.erase_subject(house.store, blobs, event, ACTOR)
    if as_json:
        done = {"subject": subject, "since": since, "blobs": destroyed, "runs": seen.runs}
        emit_json({**done, "was_erased": seen.since is not None, "tainted": seen.tainted})
    elif destroyed is None:
        say("Nothing was changed: this was a dry run.")
    else:
        say(f"{subject!r} is erased since position {since}: {count_noun(destroyed, 'blob')} destroyed")


def _show(subject: str, seen: erasing.SubjectTrace) -> None:
    if seen.since is not None:
        say(f"{subject!r} was erased before, at position {seen.since}.")
    show_learned(seen.tainted, empty=f"No run in the log names the subject {subject!r}.")
