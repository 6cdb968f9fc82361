"""OpenAPI schemas of what REST answers, made from the structs that the queries return."""

from __future__ import annotations

from inspect import cleandoc
from typing import Any

import msgspec

from eventlog.events import Event

from ..evaluations import artifacts
from ..queries import (
    access,
    bases,
    benchmarks,
    blobs,
    champion,
    checkpoints,
    costs,
    courses,
    datasets,
    difference,
    environments,
    events,
    failures,
    health,
    ledgers,
    log_status,
    loops,
    outcomes,
    pieces,
    predictions,
    reports,
    runs,
    substrates,
    suites,
    taint,
    verdicts,
    webhooks,
)
from ..sweeps import answers

_TEMPLATE = "#/components/schemas/{name}"
ANY_EVENT = _TEMPLATE.format(name="AnyEvent")
"""The schema of any event of the vocabulary."""

ANSWERS: tuple[type[msgspec.Struct], ...] = (
    *(access.TokenList, webhooks.WebhookList),
    artifacts.ArtifactAnswer,
    *(bases.BaseList, bases.BaseAnswer),
    *(benchmarks.BenchmarkList, benchmarks.BenchmarkAnswer),
    blobs.BlobPage,
    *(champion.ChampionAnswer, champion.ChampionHistory),
    *(checkpoints.CheckpointPage, checkpoints.CheckpointAnswer, checkpoints.LineageAnswer),
    costs.CostAnswer,
    *(courses.CoursePage, courses.CourseAnswer),
    *(datasets.DatasetList, datasets.DatasetAnswer, datasets.SliceList, datasets.SliceAnswer),
    difference.DifferenceAnswer,
    environments.EnvironmentPage,
    *(events.EventPage, events.AppendAnswer),
    failures.FailureList,
    *(health.HealthAnswer, health.ReadyAnswer, health.BlobAnswer),
    ledgers.LedgerAnswer,
    *(log_status.HeadAnswer, log_status.CountAnswer, log_status.ForgedPage),
    *(loops.LoopList, loops.LoopAnswer, loops.SkillList, loops.SkillAnswer, loops.ToolList, loops.ToolAnswer),
    outcomes.OutcomePage,
    *(*pieces.LISTS.values(), *pieces.SINGLES.values()),
    predictions.PredictionStatus,
    *(reports.RewriteReports, reports.PieceReports, reports.RewriteRecord, reports.LooseRecord),
    *(runs.RunPage, runs.OpinionAnswer, runs.RewardAnswer, runs.RunAnswer),
    *(answers.SweepList, answers.SweepAnswer),
    *(substrates.SubstratePage, substrates.SubstrateAnswer),
    *(suites.SuiteList, suites.SuiteAnswer),
    *(taint.TaintAnswer, taint.WithdrawalList, taint.ErasureList),
    *(verdicts.VerdictList, verdicts.VerdictAnswer),
)
"""Every struct that an endpoint answers with."""


def answer_of(kind: type[msgspec.Struct], description: str = "The answer.") -> dict[str, Any]:
    """The entry for status 200 (or 201) in the `responses` of a route that answers with this struct."""
    schema = {"$ref": _TEMPLATE.format(name=kind.__name__)}
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def answer_schemas() -> dict[str, Any]:
    """The schemas of ANSWERS and of everything in them, by name, for the OpenAPI document."""
    _, schemas = msgspec.json.schema_components(ANSWERS, schema_hook=_schema_of_other, ref_template=_TEMPLATE)
    for schema in schemas.values():
        schema["description"] = cleandoc(schema.get("description", ""))
    return schemas


def _schema_of_other(kind: type) -> dict[str, Any]:
    """The schema of what msgspec has none for: an event's is in the vocabulary, anything else is any object."""
    return {"$ref": ANY_EVENT} if issubclass(kind, Event) else {"type": "object"}
