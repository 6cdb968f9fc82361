"""Evaluation results on spans: the one named `reward` is the run's reward, every other one an opinion."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..house import House
from ..serving.errors import OpinionRefused, OpinionReported, RewardReported, RunClosed
from ..serving.reported_opinions import report_opinion
from ..serving.reported_rewards import report_reward
from .mapping import REWARD, SpanScore, span_scores
from .spans import Span

_MICRO = 1_000_000


def report_scores(house: House, token: str, run: str, spans: Sequence[Span]) -> Iterator[str]:
    """Report the evaluation results of an ended run's spans; yields why one was not taken.

    The same again changes nothing. The caller has checked that the holder of the token may write to the run.
    """
    found = [score for span in sorted(spans, key=lambda span: (span.end, span.span)) for score in span_scores(span)]
    for score in sorted(found, key=lambda score: score.judge == REWARD):  # a reward closes the run, so it comes last
        try:
            _report(house, token, run, score)
        except (OpinionRefused, OpinionReported, RewardReported, RunClosed) as refused:
            yield str(refused)


def _report(house: House, token: str, run: str, score: SpanScore) -> None:
    """Raises OpinionRefused, OpinionReported, RewardReported, RunClosed."""
    sure = 1.0 if score.score is None else score.score if score.passed else 1 - score.score
    if score.judge == REWARD:
        value = float(score.passed) if score.score is None else score.score
        report_reward(house, token, run, round(value * _MICRO), passed=score.passed, is_others=True)
    else:
        report_opinion(
            house, token, run, score.judge, passed=score.passed, confidence=round(sure * _MICRO), reason=score.reason
        )
