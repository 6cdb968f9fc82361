"""Steps of a run from outside: what its agent's tools gave, as the conversation of its next call tells it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from agents.models.tool_results import action_name, tool_results
from eventlog.blobs import Blob
from eventlog.events import StepTaken

if TYPE_CHECKING:
    from eventlog.blobs.conversations import Json

_TEXT: Final = "text/plain"
_NAME_MOST: Final = 200


def steps_of_results(
    run: str, messages: Sequence[Mapping[str, Json]], addresses: Sequence[str]
) -> tuple[tuple[StepTaken, ...], tuple[Blob, ...]]:
    """The steps that a call tells, numbered from 0, and their blobs. `addresses` are those of the messages' blobs."""
    steps: list[StepTaken] = []
    blobs: list[Blob] = []
    for index, found in enumerate(tool_results(messages)):
        result = Blob(_TEXT, found.result.encode())
        argument = None if found.use.argument is None else Blob(_TEXT, found.use.argument.encode())
        blobs += [result] if argument is None else [result, argument]
        step = StepTaken(
            run=run,
            index=index,
            action=action_name(found.use.name),
            argument=None if argument is None else argument.digest,
            intent=found.use.name[:_NAME_MOST],
            outcome="server_error" if found.has_failed else "ok",
            http_status=None,
            observation=result.digest,
            told_by=addresses[found.place],
        )
        steps.append(step)
    return tuple(steps), tuple(blobs)
