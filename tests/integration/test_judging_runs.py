"""A judge over real HTTP on oracle-graded runs of a real site: what it is worth, and what becomes of its failures."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from pydantic import SecretStr
from starlette.responses import JSONResponse, Response

from agents.envs.clients.client import EnvClient
from agents.envs.sites.marketplace.tasks import TASKS
from agents.models.errors import ModelRefused
from agents.models.model import Model
from agents.models.openai import OpenAI, OpenAISettings
from agents.models.scripted import Scripted
from agents.models.wire import Patience
from agents.rewards import DEFAULT_PRICES
from agents.rollouts.play import Job
from agents.rollouts.sweep import SeedSweep
from api.cli.main import run_command
from api.course import Course
from api.errors import NoJudge, Unknown
from api.history.grade import JudgeResult, grade_runs
from api.history.regrade import ended_runs_of as ended_runs
from api.house import House
from api.settings import Settings
from api.sweeps.jobs import play_jobs
from api.sweeps.models import judge_from
from benchmarks.shipped import templates
from eventlog.events import AnyEvent, JudgeOpined
from eventlog.store import Append
from projections.judges import JUDGES, Calibration, calibrate_judges, judge_name
from projections.rewards import REWARDS
from tests.conftest import Database
from tests.golden.make import Quiet
from tests.model_server import Asked, ModelServer, model_server
from tests.unit.test_agent_samples import EMPTY
from tests.unit.test_folds_runs import finished, missing, stepped
from tests.unit.test_folds_samples import changed, started

MICRO = 1_000_000
YES = '{"reason": "it shows", "passed": true, "confidence_percent": 80}'


def jobs(seeds: int) -> list[Job]:
    """A run of every task at each of these seeds."""
    made = templates({task.task_id: task.instruction for task in TASKS})
    by_id = {template.template_id: template for template in made}
    return [
        Job(spec, by_id[spec.template], "marketplace", EMPTY, (), None, None, learns=False)
        for spec in SeedSweep("s", made, range(seeds)).specs()
    ]


def sweep(house: House, client: EnvClient, seeds: int) -> list[str]:
    """Play oracle-graded runs of every task at these seeds into the house's log; their names."""
    house.store.append([Append("prices", (DEFAULT_PRICES,), "test")])
    todo = jobs(seeds)
    play_jobs(house, client, "sweep", todo, Course(max_parallel=4), Quiet())
    return [job.run for job in todo]


def looking() -> Callable[[Asked], str]:
    """A judge that goes by the last page, and errs on every sixth question; the model `flip` says the opposite."""
    asked_of: Counter[str] = Counter()

    def answer(asked: Asked) -> str:
        model = asked.body["model"]
        asked_of[model] += 1
        page = asked.text.rpartition("<page>")[2]
        passed = "Thank you" in page or "Phone number:" in page
        said = passed ^ (asked_of[model] % 6 == 0) ^ (model == "flip")
        return json.dumps({"reason": "the last page", "passed": said, "confidence_percent": 80})

    return answer


@contextmanager
def asking(server: ModelServer, model: str = "good") -> Iterator[Model]:
    settings = OpenAISettings(model=model, base_url=server.url)
    opened = OpenAI(settings, Patience(timeout_s=10, tries=2), pause=lambda _: None)
    yield opened
    opened.close()


def judged(house: House) -> dict[str, Calibration]:
    return {row.judge: row for row in calibrate_judges(house.views())}


@pytest.mark.parametrize("seeds", [20, pytest.param(52, marks=pytest.mark.endure)])
def test_a_judge_is_compared_with_the_oracle_and_a_flipped_one_is_wrong_where_it_is_right(
    empty_house: House, marketplace: EnvClient, seeds: int
) -> None:
    runs = sweep(empty_house, marketplace, seeds)
    rewards = empty_house.views().find(REWARDS)
    assert len(rewards) == len(runs) == 2 * seeds
    with model_server(looking()) as server:
        for name in ("good", "flip"):
            with asking(server, name) as model:
                found = grade_runs(empty_house, model, runs, max_parallel=1)
            assert Counter(row.outcome for row in found) == {"opined": len(runs)}
        assert len(server.asked) == 2 * len(runs)
    views = empty_house.views()
    assert views.find(REWARDS) == rewards
    passed = {run for run, state in rewards.items() if state.passed}
    spoken = views.find(JUDGES)
    good, flip = (judged(empty_house)[judge_name(f"openai:{name}", "judge-1")] for name in ("good", "flip"))
    said = {run: spoken[run].opinions[1].passed for run in runs}
    assert good.false_passes == sum(said[run] for run in runs if run not in passed) > 0
    assert good.false_fails == sum(not said[run] for run in passed) > 0
    assert (good.oracle_passed, good.oracle_failed) == (len(passed), len(runs) - len(passed))
    assert good.accuracy is not None
    assert flip.accuracy is not None
    assert 700_000 < good.accuracy < 950_000
    assert MICRO - 1 <= good.accuracy + flip.accuracy <= MICRO
    assert flip.false_passes == flip.oracle_failed - good.false_passes
    assert flip.false_fails == flip.oracle_passed - good.false_fails


def told(house: House, run: str, *events: AnyEvent) -> None:
    house.store.append([Append(f"run/{run}", events, "test")])


def ungraded(house: House, run: str = "s__r") -> str:
    """A run that was played and that no oracle graded."""
    told(house, run, started(run), stepped(run=run, outcome="ok"), finished(run=run))
    return run


@pytest.fixture
def ended(empty_house: House) -> House:
    """A house with runs that ended in every way; none of them has a page."""
    event = stepped(run="s__done")
    for run in ("s__done", "s__more"):
        step = changed(changed(event, "run", run), "observation", None)
        told(empty_house, run, started(run), step, finished(run=run))
    told(empty_house, "s__going", started("s__going"))
    told(empty_house, "s__gone", started("s__gone"), missing(run="s__gone"))
    told(empty_house, "s__hers", started("s__hers", subject="her"), finished(run="s__hers"))
    told(empty_house, "s__blind", started("s__blind"), stepped(run="s__blind"), finished(run="s__blind"))
    told(empty_house, "s__torn", finished(run="s__torn"))
    return empty_house


def test_every_run_gets_an_answer_and_only_those_that_can_be_judged_are_shown(ended: House) -> None:
    named = ["s__gone", "s__done", "s__going", "s__hers", "s__blind", "s__torn", "s__done", "s__more"]
    model = Scripted(lambda _: YES)
    steps: list[int] = []
    found = grade_runs(ended, model, named, advance=lambda: steps.append(1))
    assert {row.run: row.outcome for row in found} == {
        "s__gone": "missing",
        "s__done": "opined",
        "s__going": "not_ended",
        "s__hers": "personal",
        "s__blind": "failed",
        "s__torn": "failed",
        "s__more": "opined",
    }
    assert [row.run for row in found] == list(dict.fromkeys(named))
    assert len(steps) == len(found)
    assert len(model.requests) == 2
    assert all("environment_down" in row.reason for row in found if row.outcome == "missing")
    judge = judge_name("scripted", "judge-1")
    (said,) = ended.views().find(JUDGES)["s__done"].opinions
    assert (said.judge, said.score) == (judge, 800_000)
    assert sorted(ended_runs(ended.views(), "s")) == sorted(
        set(named) - {"s__gone", "s__going", "s__torn"} | {"s__torn"}
    )


def test_an_opinion_in_the_log_says_who_and_its_reason_is_a_blob(ended: House) -> None:
    grade_runs(ended, Scripted(lambda _: YES), ["s__done"])
    (recorded,) = ended.store.read(types=["JudgeOpined"])
    event = recorded.event
    assert isinstance(event, JudgeOpined)
    assert (recorded.stream, recorded.actor) == ("run/s__done", "judge")
    assert (event.model, event.prompt, event.passed, event.score) == ("scripted", "judge-1", True, 800_000)
    assert event.output_tokens == len(YES)
    kept = json.loads(ended.blobs.get(event.opinion).body)
    assert kept == {"answer": YES, "reason": "it shows", "served": "scripted"}


def test_what_was_judged_is_not_asked_again_and_what_failed_is(ended: House) -> None:
    answers = ["not JSON", YES, YES]
    first = grade_runs(ended, Scripted(answers), ["s__done", "s__more"], max_parallel=1)
    assert sorted(row.outcome for row in first) == ["failed", "opined"]
    model = Scripted([YES])
    again = grade_runs(ended, model, ["s__done", "s__more"], max_parallel=1)
    assert sorted(row.outcome for row in again) == ["already", "opined"]
    assert len(model.requests) == 1
    assert {row.outcome for row in grade_runs(ended, Scripted([]), ["s__done", "s__more"])} == {"already"}
    assert len(list(ended.store.read(types=["JudgeOpined"]))) == 2


def test_two_that_judge_the_same_run_at_once_are_recorded_once(ended: House) -> None:
    inner: list[JudgeResult] = []

    def slow(_: object) -> str:
        if not inner:
            inner.append(JudgeResult("x", "failed"))
            inner[:] = grade_runs(ended, Scripted(lambda _: YES.replace("80", "70")), ["s__done"])
        return YES

    (outer,) = grade_runs(ended, Scripted(slow), ["s__done"])
    assert (inner[0].outcome, outer.outcome) == ("opined", "already")
    assert ended.views().find(JUDGES)["s__done"].opinions[0].score == 700_000


def test_a_judge_that_refuses_ends_it_and_what_was_said_stays(ended: House) -> None:
    replies: list[str | Response] = [YES, JSONResponse({"error": {"message": "key"}}, 401)]
    with model_server(lambda _: replies.pop(0)) as server, asking(server) as model, pytest.raises(ModelRefused):
        grade_runs(ended, model, ["s__done", "s__more"], max_parallel=1)
    assert judged(ended)["openai:good/judge-1"].opinions == 1


def test_an_overloaded_judge_fails_a_run_by_name(ended: House) -> None:
    with model_server(lambda _: JSONResponse({"error": "busy"}, 503)) as server, asking(server) as model:
        (found,) = grade_runs(ended, model, ["s__done"])
    assert found.outcome == "failed"
    assert "503" in found.reason
    assert "busy" in found.reason


def test_a_run_that_is_not_there_is_named_before_anything_is_asked(ended: House) -> None:
    model = Scripted([])
    with pytest.raises(Unknown, match="nowhere"):
        grade_runs(ended, model, ["s__done", "nowhere"])
    assert model.requests == ()


def test_the_judge_of_the_settings() -> None:
    with pytest.raises(NoJudge, match="FLYWHEEL_JUDGE_MODEL"), judge_from(Settings()):
        pass
    with judge_from(Settings(judge_model="m")) as model:
        assert model.name == "openai:m"
    with (
        pytest.raises(NoJudge, match="FLYWHEEL_JUDGE_KEY"),
        judge_from(Settings(judge_api="anthropic", judge_model="m")),
    ):
        pass
    with judge_from(Settings(judge_api="anthropic", judge_model="m", judge_key=SecretStr("k"))) as model:
        assert model.name == "anthropic:m"


def test_the_command(
    ended: House,
    empty_database: Database,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def flywheel(*arguments: str) -> tuple[int, str, str]:
        code = run_command(["runs", *arguments])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    monkeypatch.setenv("FLYWHEEL_DATABASE_URL", empty_database.app_url)
    assert flywheel("judges")[1].startswith("no judge has graded")
    code, _, err = flywheel("grade", "s__done")
    assert (code, "--judge" in err) == (64, True)
    code, _, err = flywheel("grade", "--judge")
    assert (code, "--sweep" in err) == (64, True)
    code, _, err = flywheel("grade", "--judge", "s__done")
    assert (code, "FLYWHEEL_JUDGE_MODEL" in err) == (1, True)
    with model_server(lambda _: YES) as server:
        monkeypatch.setenv("FLYWHEEL_JUDGE_URL", server.url)
        monkeypatch.setenv("FLYWHEEL_JUDGE_MODEL", "m")
        monkeypatch.setenv("FLYWHEEL_JUDGE_KEY", "sk-secret")
        assert flywheel("grade", "--judge", "nowhere")[0] == 1
        code, out, err = flywheel("grade", "--judge", "s__done", "s__gone")
        assert (code, "2 received = 1 missing + 1 opined" in out) == (0, True)
        code, out, _ = flywheel("grade", "--judge", "--sweep", "s", "--json")
        assert code == 1
        assert Counter(row["outcome"] for row in json.loads(out)["runs"]) == {
            "already": 1, "opined": 1, "personal": 1, "failed": 2,
        }  # fmt: skip
        assert "sk-secret" not in out + err
    code, out, _ = flywheel("judges", "--json")
    (row,) = json.loads(out)
    assert (row["judge"], row["opinions"], row["compared"], row["accuracy"]) == ("openai:m/judge-1", 2, 0, None)
    assert "openai:m/judge-1" in flywheel("judges")[1]
