"""Record what somebody outside says of a run: an opinion on a channel of its own, never a reward."""

from __future__ import annotations

import json
from typing import Final

from eventlog.blobs import Blob
from eventlog.events import JudgeOpined
from eventlog.store import Append, Committed, Position, Repeated
from projections.judges import judge_name

from ..house import House
from ..queries.runs import require_run
from .errors import OpinionRefused, OpinionReported

VERSION: Final = "reported-1"


def report_opinion(
    house: House, token: str, run: str, judge: str, *, passed: bool, confidence: int, reason: str
) -> tuple[str, Position]:
    """Append an opinion on an ended run. Returns the judge's name, which holds the token's, and the position.

    `confidence` is in millionths. The same opinion again changes nothing. Raises Unknown, OpinionRefused,
    OpinionReported.
    """
    state = require_run(house.views(), run)
    if not state.is_ended or state.status == "missing" or state.is_sealed:
        why = "sealed" if state.is_sealed else state.status
        raise OpinionRefused(run=run, actual=why)
    blob = Blob("application/json", json.dumps({"reason": reason}, sort_keys=True).encode())
    house.blobs.put([blob])
    model = f"{token}:{judge}"
    event = JudgeOpined(
        run=run,
        group=state.group,
        model=model,
        prompt=VERSION,
        passed=passed,
        score=confidence if passed else 0,
        confidence=confidence,
        opinion=blob.digest,
        input_tokens=None,
        output_tokens=None,
    )
    name = judge_name(model, VERSION)
    (outcome,) = house.store.append([Append(f"run/{run}", (event,), f"judge:{token}", key=f"judge:{name}:{run}")])
    if not isinstance(outcome, Committed | Repeated):
        raise OpinionReported(run=run, judge=name)
    return name, outcome.last
