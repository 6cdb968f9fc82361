"""Datasets that a judge selects: runs without an oracle's grade alone, and only by a judge that was measured."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from agents.suites.in_log import register_suite
from api.datasets.freeze import select_runs
from api.datasets.judged import LEAST_COMPARED, NotCalibrated, calibration_of, describe_calibration
from eventlog.events import JudgeOpined, SftQuery, Suite, SuiteTask
from projections.judges import calibrate_judges, calibrate_on
from projections.runs import RUNS
from tests.unit.test_agent_samples import add
from tests.unit.test_policy_samples import PolicyLog, PolicyRun

JUDGE, OTHER = "m/judge-1", "m/judge-2"
SITE = "marketplace"
QUERY = SftQuery(runs="policy", environment=SITE, judged_by=JUDGE)


def opine(log: PolicyLog, run: str, *, passed: bool, judge: str = JUDGE) -> None:
    model, prompt = judge.split("/")
    event = JudgeOpined(
        run=run,
        group="g",
        model=model,
        prompt=prompt,
        passed=passed,
        score=900_000 if passed else 0,
        confidence=900_000,
        opinion="0" * 64,
        input_tokens=None,
        output_tokens=None,
    )
    add(log.store, f"run/{run}", event)


def ungraded(*names: str) -> list[PolicyRun]:
    return [PolicyRun(name, score=None, value=None, shaped=None, group=name) for name in names]


def graded(
    log: PolicyLog, number: int, first: int = 0, *, environment: str = SITE, evaluation: str | None = None
) -> None:
    """Runs with both grades: the oracle failed every fourth, and the judge passed every eighth of all wrongly."""
    for index in range(first, first + number):
        name = f"{environment}-{evaluation}-{index}"
        score = 0 if index % 4 == 0 else 1_000_000
        log.play(PolicyRun(name, score=score, group=name, environment=environment, evaluation=evaluation))
        opine(log, name, passed=index % 8 == 0 or index % 4 != 0)


def test_a_judge_selects_of_runs_without_an_oracle_what_it_passed_and_nothing_else() -> None:
    log = PolicyLog(*ungraded("a", "b", "c"), PolicyRun("d", group="d"))
    for run, passed in (("a", True), ("b", False), ("d", True)):
        opine(log, run, passed=passed)
    opine(log, "c", passed=True, judge=OTHER)
    made = log.build(QUERY)
    assert made.rows["run"].to_list() == ["a"]
    assert made.rows["score"].to_list() == [None]
    assert {each.reason: each.runs for each in made.refused} == {"judged_failed": 1, "graded": 1, "unjudged": 1}
    assert log.build(SftQuery(runs="policy", environment=SITE)).rows["run"].to_list() == ["d"]
    assert select_runs(log.store, log.views(), QUERY, {"a", "b", "c", "d"}) == {"a"}


def test_only_a_judge_that_was_measured_on_the_same_environment_may_select() -> None:
    log = PolicyLog()
    graded(log, LEAST_COMPARED, environment="elsewhere")
    graded(log, LEAST_COMPARED, evaluation="eval-1")
    graded(log, LEAST_COMPARED - 1)
    with pytest.raises(NotCalibrated, match="19 runs graded by it and by the oracle, 5 of them failed by the oracle"):
        calibration_of(log.store, log.views(), QUERY)
    graded(log, 5, LEAST_COMPARED - 1)
    found = calibration_of(log.store, log.views(), QUERY)
    assert found == calibrate_on(log.views(), JUDGE, SITE)
    assert found is not None
    assert found.compared_runs < calibrate_judges(log.views())[0].compared_runs
    assert "it agrees in 0.8" in describe_calibration(found)
    assert "passes 0.5 of those that the oracle failed" in describe_calibration(found)
    assert calibration_of(log.store, log.views(), SftQuery(runs="policy")) is None


def test_where_an_environment_has_a_suite_only_runs_of_its_tasks_count() -> None:
    log = PolicyLog()
    graded(log, LEAST_COMPARED)
    template = next(iter(log.views().find(RUNS).values())).template
    other = Suite(name="other", environment=SITE, tasks=(SuiteTask(id="other"),))
    register_suite(log.store, log.views(), other, "test")
    with pytest.raises(NotCalibrated, match="0 runs graded by it and by the oracle"):
        calibration_of(log.store, log.views(), QUERY)
    own = Suite(name="own", environment=SITE, tasks=(SuiteTask(id=template), SuiteTask(id="other")))
    register_suite(log.store, log.views(), own, "test")
    found = calibration_of(log.store, log.views(), QUERY)
    assert found == calibrate_on(log.views(), JUDGE, SITE)


@pytest.mark.parametrize(
    "fields",
    [
        {"runs": "plan", "environment": SITE},
        {"runs": "policy"},
        {"runs": "policy", "environment": SITE, "floor": {"reward": "value", "least": 1}},
    ],
)
def test_a_judge_is_no_reward(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match="judge"):
        SftQuery.model_validate({**fields, "judged_by": JUDGE})
    assert "judged_by" not in SftQuery(runs="policy").model_dump()
