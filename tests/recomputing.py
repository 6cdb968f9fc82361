"""Every verdict in a log, judged again: what each test that reaches one ends with."""

from __future__ import annotations

from api.evaluations.verify import recompute_all
from api.house import House


def every_verdict_recomputes(house: House) -> int:
    """Fail where a verdict recomputes to other bytes; how many there are, so that a test says how many it reached."""
    found = recompute_all(house)
    assert [each.evaluation for each in found if each.outcome != "equal"] == []
    return len(found)
