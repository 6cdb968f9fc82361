"""Runs: which have ended, and which specs are still to be played."""

from __future__ import annotations

from collections.abc import Sequence

from eventlog.events import Spec
from projections.engine.views import Views
from projections.runs import RUNS, RunState


def pending_specs(views: Views, specs_: Sequence[Spec], prefix: str) -> tuple[Spec, ...]:
    """The specs whose run has not ended, in order."""
    done = ended_runs(views, prefix)
    return tuple(spec for spec in specs_ if spec.spec_id not in done)


def ended_runs(views: Views, prefix: str) -> frozenset[str]:
    """The runs under a prefix that have ended."""
    runs: dict[str, RunState] = views.find(RUNS, prefix)
    return frozenset(key for key, state in runs.items() if state.is_ended)
