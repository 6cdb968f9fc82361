"""`flywheel erase`: destroy a person's data and show what was learned from it."""

from __future__ import annotations

from typing import Annotated

import typer

from gate.figures import count_noun

from ..datasets.kept_files import drop_kept_files
from ..errors import UnknownSubject
from ..history import erase as erasing
from ..house import owned_blobs
from .output import ERR, AsJson, confirm, emit_json, open_project, say
from .taint import show_learned

ACTOR = "operator"


def erase(
    subject: Annotated[str, typer.Option(help="The pseudonym of the person, as given when the runs were started.")],
    reason: Annotated[str, typer.Option(help="Why; it is recorded in the log.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what was learned from the data.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Destroy the key and the bytes of a subject, and record that it was done. This cannot be undone.

    The log itself does not change and verifies as before. Commands that need the bytes report the outcome erased. What
    was learned from the subject's runs stays until `flywheel runs withdraw` removes it. Erasing again changes nothing.
    If the subject has no run and no blob, scripts must pass --yes, because the name may be mistyped.
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
            confirm(f"Destroy everything that is kept of {subject!r}, permanently?", yes=yes)
            with owned_blobs(house.settings) as blobs:
                destroyed, since = erasing.erase_subject(house.store, blobs, event, ACTOR)
            drop_kept_files(house)
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
