"""ProposedResult gates: whether a final result may end the loop. They hold in the last iteration too. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from eventlog.events import CompletionConfig, EvaluationConfig, LoopConfig

from .critique import PLACEHOLDER
from .evaluation import appraise
from .files import file_fault, repeats_itself
from .plan import PlanStep, pending_count
from .summary import in_words

Gate = Literal[
    "presence",
    "placeholder",
    "text_loop",
    "required_fields",
    "required_outputs",
    "file",
    "plan",
    "critique",
    "evaluation",
    "oracle",
]
MOST_REJECTIONS: Final = 20
"""So many rejections in a row end a loop, whatever its configuration allows."""

_STUBS: Final = frozenset({"n/a", "none", "todo", "tbd", "...", "placeholder"})


@dataclass(frozen=True, slots=True)
class Rejection:
    """The gate that rejects a final result, and what is missing. It may end the loop as failed."""

    gate: Gate
    why: str
    ends: bool = False


@dataclass(frozen=True, slots=True)
class ProposedResult:
    """Input of the gates: the final result, the plan, the critiques of the last delegation after their repair.

    `confidence` is that of the last delegation, None if nothing says how sure its workers are. `verdict` is what ground
    truth says of the result: True, False, or None without an oracle. `files` are the texts of the result by name.
    """

    result: Mapping[str, object]
    plan: Sequence[PlanStep]
    critiques: Sequence[int]
    verdict: bool | None
    confidence: int | None = None
    files: Mapping[str, str] = field(default_factory=dict)


def reject(completion: ProposedResult, config: LoopConfig) -> Rejection | None:
    """The first gate that rejects a result, or None if it may end the loop.

    Ground truth overrides all but the presence of a result and of the files that were asked for.
    """
    texts = list(_texts(completion.result))
    if not any(text.strip() for text in texts):
        return Rejection("presence", "the final result is empty")
    missing = _missing_outputs(completion.files, config.completion)
    if missing is not None:
        return missing
    if completion.verdict is not None:
        return None if completion.verdict else Rejection("oracle", "the result does not solve the task")
    return (
        _form_rejection(completion, texts, config)
        or _file_rejection(completion.files, config.completion)
        or _work_rejection(completion, config)
    )


def _form_rejection(completion: ProposedResult, texts: Sequence[str], config: LoopConfig) -> Rejection | None:
    for text in texts:
        if PLACEHOLDER.search(text) or text.strip().lower() in _STUBS:
            return Rejection("placeholder", f"the result holds a placeholder: {text.strip()[:60]!r}")
        if repeats_itself(text):
            return Rejection("text_loop", "the result repeats a paragraph")
    missing = [name for name in config.completion.required_fields if not completion.result.get(name)]
    return Rejection("required_fields", f"the result lacks {', '.join(missing)}") if missing else None


def _missing_outputs(files: Mapping[str, str], config: CompletionConfig) -> Rejection | None:
    missing = [name for name in config.required_outputs if name not in files] if config.file_gates else []
    return Rejection("required_outputs", f"the result lacks the file {', '.join(missing)}") if missing else None


def _file_rejection(files: Mapping[str, str], config: CompletionConfig) -> Rejection | None:
    """A file that is useless. Only required files are judged, if any are."""
    if not config.file_gates:
        return None
    for name in config.required_outputs or sorted(files):
        fault = file_fault(name, files[name])
        if fault is not None:
            return Rejection("file", f"{name} {fault}")
    return None


def _work_rejection(completion: ProposedResult, config: LoopConfig) -> Rejection | None:
    pending = pending_count(completion.plan)
    if pending:
        return Rejection("plan", f"{pending} subtasks of the plan are not done")
    scores = completion.critiques
    least = config.critique.min_score_to_complete
    if config.critique.enabled and scores and sum(scores) / len(scores) < least:
        return Rejection("critique", "the results of the last delegation were judged too weak; refine them first")
    return _evaluation_rejection(completion.confidence, config.evaluation)


def _evaluation_rejection(confidence: int | None, config: EvaluationConfig) -> Rejection | None:
    if not config.gates or confidence is None:
        return None
    appraisal, reached = appraise(confidence, config), f"the confidence of the last results is {in_words(confidence)}"
    if appraisal == "fail":
        return Rejection("evaluation", f"{reached}, below {in_words(config.fail)}: they failed", ends=True)
    if appraisal == "retry":
        return Rejection("evaluation", f"{reached}, below {in_words(config.retry)}; do that work again first")
    return None


AfterRejection = Literal["go_on", "repair", "end"]


def after_rejections(rejections: Sequence[str], most: int) -> AfterRejection:
    """Consequence of rejections, the newest last, none of them separated by a delegation.

    After `most` that are alike the manager is asked for a repair of exactly that; after as many again, or if there is
    nothing to repair, the loop ends. Rejections that differ from one another end it after three times as many.
    """
    alike = 0
    for each in reversed(rejections):
        if each != rejections[-1]:
            break
        alike += 1
    if alike < most:
        return "end" if len(rejections) >= min(3 * most, MOST_REJECTIONS) else "go_on"
    if rejections[-1].startswith("presence") or alike >= min(2 * most, MOST_REJECTIONS):
        return "end"
    return "repair"


def _texts(value: object, depth: int = 0) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, bool | int | float):
        yield json.dumps(value)
    elif isinstance(value, Mapping) and depth < 20:  # noqa: PLR2004 levels
        for each in value.values():
            yield from _texts(each, depth + 1)
    elif isinstance(value, list | tuple) and depth < 20:  # noqa: PLR2004
        for each in value:
            yield from _texts(each, depth + 1)
