"""OpenAPI schemas of what REST answers, made from the structs that the queries return."""

from __future__ import annotations

from typing import Any

import msgspec

from ..queries import benchmarks, champion, checkpoints, datasets, ledgers, pieces, substrates, verdicts

_TEMPLATE = "#/components/schemas/{name}"

ANSWERS: tuple[type[msgspec.Struct], ...] = (
    benchmarks.BenchmarkList,
    *(champion.ChampionAnswer, champion.ChampionHistory),
    *(checkpoints.CheckpointList, checkpoints.CheckpointAnswer, checkpoints.LineageAnswer),
    *(datasets.DatasetList, datasets.DatasetAnswer, datasets.SliceList, datasets.SliceAnswer),
    ledgers.LedgerAnswer,
    *(*pieces.LISTS.values(), *pieces.SINGLES.values()),
    *(substrates.SubstratePage, substrates.SubstrateAnswer),
    *(verdicts.VerdictList, verdicts.VerdictAnswer),
)
"""Every struct that an endpoint answers with."""


def answer_of(kind: type[msgspec.Struct], description: str = "The answer.") -> dict[str, Any]:
    """The entry for status 200 (or 201) in the `responses` of a route that answers with this struct."""
    schema = {"$ref": _TEMPLATE.format(name=kind.__name__)}
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def answer_schemas() -> dict[str, Any]:
    """The schemas of ANSWERS and of everything in them, by name, for the OpenAPI document."""
    _, schemas = msgspec.json.schema_components(ANSWERS, schema_hook=_any_value, ref_template=_TEMPLATE)
    return schemas


def _any_value(_kind: type) -> dict[str, Any]:
    """What msgspec has no schema for, such as an event of pydantic, is any object."""
    return {"type": "object"}
