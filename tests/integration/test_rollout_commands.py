"""`flywheel rollout` on a real site and PostgreSQL, and the controller's rounds, which draw where runs failed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import pytest
from starlette.responses import JSONResponse

from agents.envs.clients.client import EnvClient
from agents.envs.contract import Instance
from agents.envs.provider import Site
from agents.envs.sites.marketplace.drift import CANONICAL, drift_family
from agents.executors.executor import Assignment, Execution, Watch, no_verification
from agents.models.errors import ModelRefused
from agents.rollouts.dispatching.queue import RolloutQueue
from agents.rollouts.play import PLAN
from agents.rollouts.sweep import SeedSweep, extend_group, plan_sweep
from api.cli.main import USAGE, run_command
from api.controllers.fast import Controller
from api.controllers.variance_seek import Limits, seek
from api.course import Course
from api.errors import NotExtended, NothingGraded
from api.house import House
from api.sweeps.plan import extend
from eventlog.events import Rules
from eventlog.store import Append
from projections.datasets.variance import classes
from projections.failures import FAILURES
from projections.runs import RUNS
from tests.admitted import admitted
from tests.conftest import Database
from tests.golden.make import Quiet
from tests.integration.test_policy_rollouts import action
from tests.model_server import Answering, Asked, ModelServer, chat_completion, model_server
from tests.planned import sweeps_of
from tests.sites import SharedSite
from tests.unit.test_agent_samples import EMPTY, add, missing, started, template


class Hearing(Quiet):
    """A Reporter that keeps what it is told."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)


Rollout = Callable[..., tuple[int, str, str]]
NOISY, CONTROL = "marketplace.price_watch", "marketplace.control_draw"


@pytest.fixture(scope="module")
def site(shared_site: SharedSite) -> Site:
    return shared_site("marketplace")


@pytest.fixture
def rollout(
    site: Site,
    empty_database: Database,
    empty_house: House,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Rollout:
    """Run `flywheel rollout` on an empty log and a running, admitted site: exit code, output, errors."""
    admitted(empty_house.store, "marketplace")
    monkeypatch.setenv("FLYWHEEL_DATABASE_URL", empty_database.app_url)
    monkeypatch.setenv("FLYWHEEL_OWNER_URL", empty_database.owner_url)
    monkeypatch.setenv("FLYWHEEL_KEYS", str(empty_database.keys))
    monkeypatch.setenv("FLYWHEEL_ENV_ADMIN_TOKEN", site.admin_token)
    at = ("--url", site.url, "--admin-url", site.admin_url)

    def run(command: str, *arguments: str) -> tuple[int, str, str]:
        code = run_command(["rollout", command, *arguments, *(() if command == "status" else at)])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


def told(answer: tuple[int, str, str]) -> Any:
    code, out, err = answer
    assert code == 0, err
    return json.loads(out)


def test_a_sweep_is_played_graded_and_shown(rollout: Rollout) -> None:
    found = told(rollout("sweep", "--task", NOISY, "--seeds", "0-2,5", "--siblings", "2", "--json"))
    assert (found["sweep"], found["received"], found["waiting"]) == ("marketplace-1", 8, 0)
    assert found["graded"] + found["missing"] == 8
    assert set(found["groups"]) == {f"marketplace-1__{NOISY}__seed{seed}" for seed in (0, 1, 2, 5)}
    assert [row["sweep"] for row in told(rollout("status", "--json"))] == ["marketplace-1"]
    shown = told(rollout("status", "marketplace-1", "--json"))
    assert shown == {key: value for key, value in found.items() if key != "seeking"}
    code, out, _ = rollout("status", "marketplace-1")
    assert code == 0
    assert f"8 received = {found['graded']} graded" in out


def test_the_next_sweep_takes_seeds_that_none_has_seen_and_a_name_of_its_own(rollout: Rollout) -> None:
    arguments = ("--task", CONTROL, "--siblings", "1", "--json")
    told(rollout("sweep", "--seeds", "1", *arguments))
    found = told(rollout("sweep", *arguments))
    assert found["sweep"] == "marketplace-2"
    seeds = {int(group.rpartition("seed")[2]) for group in found["groups"]}
    assert seeds == {0, *range(2, 13)}


def test_a_sweep_of_a_known_name_is_resumed_as_it_was_planned(rollout: Rollout, empty_house: House) -> None:
    first = told(rollout("sweep", "--sweep", "mine", "--task", CONTROL, "--seeds", "0-1", "--json"))
    head = empty_house.store.head()
    code, out, err = rollout(
        "sweep", "--sweep", "mine", "--task", "nothing", "--templates", "gone", "--seeds", "?", "--json"
    )
    assert code == 0
    assert "mine already exists" in err
    assert json.loads(out) == first
    assert empty_house.store.head() == head


def test_temperatures_or_a_session_ride_on_the_specs(
    rollout: Rollout, empty_house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLYWHEEL_MODEL", "m1")
    common = ("--task", CONTROL, "--seeds", "3", "--siblings", "3", "--plan-only", "--json")
    told(rollout("sweep", "--temperature", "0.2", "--temperature", "1.1", "--executor", "policy", *common))
    told(rollout("sweep", "--session", "home", *common))
    drawn, kept = sweeps_of(empty_house.store, "marketplace")
    assert [spec.temperature_micro for spec in drawn.specs] == [200_000, 1_100_000, 200_000]
    assert {spec.state_key for spec in drawn.specs} == {None}
    assert {(spec.state_key, spec.temperature_micro) for spec in kept.specs} == {("home", None)}


def test_seeking_adds_siblings_until_groups_differ_or_have_enough(rollout: Rollout, empty_house: House) -> None:
    arguments = ("--task", NOISY, "--task", CONTROL, "--seeds", "0-3", "--siblings", "2", "--variance-seek")
    found = told(rollout("sweep", *arguments, "--max-siblings", "4", "--json"))
    for name, each in found["groups"].items():
        assert each["grpo_usable"] or each["n"] == 4, name
    added = sum(len(event.specs) for event in sweeps_of(empty_house.store, "marketplace")[1:])
    assert found["seeking"]["added"] == added > 0
    assert found["received"] == 16 + added
    assert sum(each["n"] for each in found["groups"].values()) + found["missing"] == found["received"]


def test_seeking_stops_at_its_cost(rollout: Rollout) -> None:
    arguments = ("--task", CONTROL, "--seeds", "0-1", "--siblings", "2", "--variance-seek", "--max-cost", "0.000001")
    found = told(rollout("sweep", *arguments, "--json"))
    assert found["seeking"] == {"added": 0, "stopped": "the cost limit was reached"}


def test_without_a_failure_there_is_nothing_to_be_biased_by(rollout: Rollout, empty_house: House) -> None:
    code, out, _ = rollout("biased")
    assert (code, "has failed" in out) == (0, True)
    assert sweeps_of(empty_house.store, "marketplace") == ()


def test_a_biased_sweep_draws_where_runs_failed_and_says_so(rollout: Rollout, empty_house: House) -> None:
    told(rollout("sweep", "--seeds", "0-2", "--siblings", "1", "--json"))
    failed = [state for state in empty_house.views().find(FAILURES).values() if state.is_failure]
    found = told(rollout("biased", "--instances", "7", "--by", "template", "--siblings", "2", "--json"))
    assert found["received"] == 14
    event = sweeps_of(empty_house.store, "marketplace")[-1]
    assert event.bias is not None
    counted = {share.cluster: share.failures for share in event.bias.shares}
    assert counted.items() <= {name: sum(s.template == name for s in failed) for name in counted}.items()
    assert sum(share.instances for share in event.bias.shares) == 7
    assert (event.bias.by, event.bias.of) == ("template", None)
    assert not {spec.env_seed for spec in event.specs} & {0, 1, 2}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--task", "marketplace.nothing"), "no task 'marketplace.nothing'; expected one of marketplace."),
        (("--seeds", "1-x"), "neither a seed nor a range"),
        (("--seeds", "5-1"), "ends before it begins"),
        (("--siblings", "0"), "siblings"),
        (("--temperature", "3"), "temperature"),
        (("--executor", "policy", "--temperature", "nan"), "--temperature"),
        (("--variance-seek", "--max-cost", "inf"), "finite"),
        (("--variance-seek", "--max-cost", "nan"), "--max-cost"),
        (("--seeds", "0-99999999999"), "100000 at most"),
        (("--seeds", "3,9000-9001"), "at seed 9000, which is reserved for"),
        (("--temperature", "0.5"), "--temperature is only for models"),
        (("--executor", "browser", "--model", "m1"), "--model is only for models"),
        (("--executor", "demonstration", "--learn"), "--learn does not work with --executor demonstration"),
        (("--executor", "policy", "--told"), "--told is only for demonstrations"),
        (("--max-siblings", "4"), "--max-siblings needs --variance-seek"),
        (("--max-cost", "1"), "--max-cost needs --variance-seek"),
        (("--variance-seek", "--plan-only"), "leave out --plan-only"),
        (("--executor", "policy", "--variance-seek"), "siblings that differ"),
        (("--executor", "policy", "--for-grpo", "--temperature", "0"), "siblings that differ"),
    ],
)
def test_a_wrong_word_is_named_with_what_was_expected(
    rollout: Rollout, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], words: str
) -> None:
    monkeypatch.setenv("FLYWHEEL_MODEL", "m1")
    monkeypatch.setenv("FLYWHEEL_MODEL_TOKEN_IDS", "true")
    code, _, err = rollout("sweep", *arguments)
    assert code == USAGE
    assert words in " ".join(err.split())


def test_seeds_twice_and_an_unknown_sweep_are_refused(rollout: Rollout) -> None:
    code, _, err = rollout("sweep", "--seeds", "1,1", "--task", CONTROL)
    assert (code, "seeds twice" in err) == (1, True)
    for arguments in (("status", "nowhere"), ("biased", "--of", "nowhere")):
        code, _, err = rollout(*arguments)
        assert (code, "No sweep is called 'nowhere'" in err, "rollout status" in err) == (1, True, True)


def test_each_round_of_the_controller_draws_where_the_last_one_failed(site: Site, empty_house: House) -> None:
    admitted(empty_house.store, "marketplace")
    course = Course(
        seeds_per_round=3,
        max_rounds=2,
        visible_seeds=(9_000,),
        sealed_seeds=(10_000,),
        rules=Rules(min_pairs=1),
        clusters=("navigation",),
    )
    with EnvClient(site.admin_url, site.admin_token) as client:
        Controller(empty_house, client, "marketplace", course, Quiet()).run()
    first, second, *_ = sweeps_of(empty_house.store, "marketplace")
    assert first.bias is None
    assert second.bias is not None
    failures = empty_house.views().find(FAILURES, f"{first.sweep}__").values()
    counts = {share.cluster: share.failures for share in second.bias.shares}
    assert counts == {name: sum(s.is_failure and s.template == name for s in failures) for name in counts}
    assert len({(spec.template, spec.env_seed) for spec in second.specs}) == 3 * 2
    assert not {spec.env_seed for spec in first.specs} & {spec.env_seed for spec in second.specs}


def test_a_sweep_that_is_only_planned_waits_in_the_queue(rollout: Rollout, empty_house: House) -> None:
    found = told(rollout("sweep", "--task", CONTROL, "--seeds", "0-2", "--siblings", "2", "--plan-only", "--json"))
    assert (found["received"], found["waiting"]) == (6, 6)
    assert RolloutQueue(empty_house.engine, "marketplace").open() == 6
    played = told(rollout("sweep", "--sweep", found["sweep"], "--json"))
    assert (played["waiting"], played["received"]) == (0, 6)


def test_a_sweep_for_grpo_needs_logprobs(rollout: Rollout, empty_house: House) -> None:
    code, _, err = rollout("sweep", "--task", CONTROL, "--seeds", "0", "--for-grpo")
    assert code == 1
    assert "logprobs" in err
    assert sweeps_of(empty_house.store, "marketplace") == ()


def test_a_session_of_a_policy_is_refused_before_it_is_planned(
    rollout: Rollout, empty_house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLYWHEEL_MODEL", "any")
    code, _, err = rollout("sweep", "--task", CONTROL, "--seeds", "0", "--session", "alex", "--executor", "policy")
    assert code == 1
    assert "session 'alex'" in err
    assert sweeps_of(empty_house.store, "marketplace") == ()


def test_only_the_executor_that_a_sweep_was_planned_for_goes_on_with_it(
    rollout: Rollout, site: Site, empty_house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLYWHEEL_MODEL", "m1")
    arguments = ("--task", CONTROL, "--seeds", "0", "--siblings", "1", "--plan-only")
    told(rollout("sweep", "--sweep", "asked", "--executor", "policy", *arguments, "--json"))
    _, out, _ = rollout("sweep", "--sweep", "asked", "--executor", "policy", "--plan-only")
    assert "`FLYWHEEL_MODEL=m1 flywheel worker --site marketplace --executor policy` plays" in " ".join(out.split())
    (event,) = sweeps_of(empty_house.store, "marketplace")
    assert (event.executor, event.model) == ("policy", "openai:m1")
    for options in ((), ("--executor", "policy", "--model", "m2")):
        code, _, err = rollout("sweep", "--sweep", "asked", *options)
        assert (code, "--executor policy --model m1" in " ".join(err.split())) == (1, True)
    walker, heard = replace(PLAN, name="walker"), Hearing()
    course = Course(seeds_per_round=1, siblings=1, max_rounds=1, visible_seeds=(9_000,), sealed_seeds=(10_000,))
    with EnvClient(site.admin_url, site.admin_token) as client:
        Controller(empty_house, client, "marketplace", course, heard, walker).run()
    assert heard.said[0].startswith("asked skipped: its 1 ")
    assert "policy with openai:m1" in heard.said[0]
    assert [each.executor for each in sweeps_of(empty_house.store, "marketplace")] == ["policy", "walker"]


def test_siblings_that_somebody_else_added_meanwhile_are_not_added_again(empty_house: House) -> None:
    found = (template(),)
    event = plan_sweep(SeedSweep("s1", found, [1], 2), "marketplace", EMPTY, rng_seed=7)
    empty_house.store.append([Append("sweep/s1", (event,), "test", key="sweep:s1")])
    specs, views = extend_group("s1", found, event.specs, 3), empty_house.views()
    extend(empty_house, views, event, specs, "ann")
    extend(empty_house, views, event, specs, "ann")
    hotter = [spec.model_copy(update={"temperature_micro": 700_000}) for spec in specs]
    with pytest.raises(NotExtended, match=specs[0].spec_id):
        extend(empty_house, views, event, hotter, "bob")
    assert len(sweeps_of(empty_house.store, "marketplace")) == 2


def test_the_controller_goes_on_after_a_clean_sweep_of_an_operator(
    rollout: Rollout, site: Site, empty_house: House
) -> None:
    seed = next(seed for seed in range(9) if drift_family(seed) is CANONICAL)
    clean = ("--task", "marketplace.phone_reveal", "--seeds", str(seed), "--siblings", "1", "--json")
    found = told(rollout("sweep", "--sweep", "clean", *clean))
    assert (found["received"], found["passed"]) == (1, 1)
    course = Course(seeds_per_round=1, siblings=1, max_rounds=1, visible_seeds=(9_000,), sealed_seeds=(10_000,))
    with EnvClient(site.admin_url, site.admin_token) as client:
        assert "of clean passed" not in Controller(empty_house, client, "marketplace", course, Quiet()).run()
    _, planned_next, *_ = sweeps_of(empty_house.store, "marketplace")
    assert (planned_next.learns, planned_next.bias) == (True, None)


def test_a_demonstration_is_not_for_the_loop_and_the_error_says_what_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["run", "--executor", "demonstration"]) == USAGE
    assert "flywheel rollout sweep --executor demonstration" in " ".join(capsys.readouterr().err.split())


def test_a_name_that_is_taken_on_another_site_is_passed_over(rollout: Rollout, empty_house: House) -> None:
    event = plan_sweep(SeedSweep("marketplace-1", (template(),), [1]), "helpdesk", EMPTY, rng_seed=7)
    empty_house.store.append([Append("sweep/marketplace-1", (event,), "test")])
    found = told(rollout("sweep", "--task", CONTROL, "--seeds", "0", "--siblings", "1", "--plan-only", "--json"))
    assert found["sweep"] == "marketplace-2"
    code, _, err = rollout("sweep", "--sweep", "a__b", "--task", CONTROL, "--seeds", "0")
    assert (code, "a__b" in err) == (1, True)


def test_a_group_of_another_sweep_whose_name_begins_the_same_gets_no_sibling(site: Site, empty_house: House) -> None:
    event = plan_sweep(SeedSweep("s1", (template(),), [1], 2), "marketplace", EMPTY, rng_seed=7)
    empty_house.store.append([Append("sweep/s1", (event,), "test")])
    for other in SeedSweep("s1__old", (template(),), [1]).specs():
        add(empty_house.store, f"run/{other.spec_id}", started(other), missing(other))
    views = empty_house.views()
    assert list(classes(views, "s1")) == ["s1__old__t1__seed1"]
    with EnvClient(site.admin_url, site.admin_token) as client:
        found = seek(empty_house, client, event, Course(), Limits(4, None), Quiet(), actor="ann")
    assert found.added == 0


REFUSED = JSONResponse({"error": {"message": "no such key"}}, 401)
FINISH = action("finish")


@contextmanager
def asked_of(monkeypatch: pytest.MonkeyPatch, answer: Answering) -> Iterator[ModelServer]:
    """A model server that the settings name."""
    with model_server(answer) as server:
        monkeypatch.setenv("FLYWHEEL_MODEL", "m1")
        monkeypatch.setenv("FLYWHEEL_MODEL_URL", server.url)
        yield server


TWO = ("--sweep", "two", "--task", CONTROL, "--seeds", "0-1", "--siblings", "1", "--executor", "policy")


def test_no_sweep_is_planned_for_a_model_that_refuses_the_key(
    rollout: Rollout, empty_house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    with asked_of(monkeypatch, lambda _: REFUSED) as server:
        code, _, err = rollout("sweep", *TWO)
    assert (code, "rejected the key" in " ".join(err.split()), len(server.asked)) == (1, True, 1)
    assert sweeps_of(empty_house.store, "marketplace") == ()


def test_an_endpoint_without_logprobs_is_noticed_at_its_first_answer_and_asked_about(
    rollout: Rollout, empty_house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_logprobs(asked: Asked) -> JSONResponse:
        return JSONResponse(chat_completion(asked.body, FINISH, logprobs=None))

    with asked_of(monkeypatch, without_logprobs) as server:
        code, _, err = rollout("sweep", *TWO)
        assert (code, "FLYWHEEL_MODEL_LOGPROBS=false" in err, len(server.asked)) == (1, True, 1)
        assert sweeps_of(empty_house.store, "marketplace") == ()
        monkeypatch.setattr("api.cli.sweep_setup.go_without_logprobs", lambda: True)
        found = told(rollout("sweep", *TWO, "--json"))
    assert (found["graded"], found["missing_because"]) == (2, [])
    assert [asked.body.get("logprobs") for asked in server.asked[2:]] == [None, None]


def test_why_runs_are_missing_is_said_in_the_words_of_the_failure(
    rollout: Rollout, empty_house: House, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with asked_of(monkeypatch, lambda _: FINISH) as server:
        server.answer = lambda _: FINISH if len(server.asked) == 1 else REFUSED
        code, _, err = rollout("sweep", *TWO)
    assert (code, "2 runs missing, model_down" in err, "rejected the key" in " ".join(err.split())) == (1, True, True)
    (group,) = told(rollout("status", "two", "--json"))["missing_because"]
    assert (group["reason"], group["runs"], "rejected the key" in group["detail"]) == ("model_down", 2, True)
    assert "rejected the key" in " ".join(rollout("status", "two")[1].split())
    run = next(iter(empty_house.views().find(RUNS, "two__")))
    assert run_command(["runs", "show", run]) == 0
    assert "rejected the key" in " ".join(capsys.readouterr().out.split())


@dataclass(frozen=True)
class Refusing:
    """An executor whose model refuses the key."""

    name: str = "refusing"
    offers_logprobs: bool = False

    def execute(self, assignment: Assignment, instance: Instance, watch: Watch = no_verification) -> Execution:
        raise ModelRefused(url="http://model.test", actual=401, said="'no such key'")


def test_a_course_whose_runs_are_all_missing_ends_with_the_reason(site: Site, empty_house: House) -> None:
    admitted(empty_house.store, "marketplace")
    course = Course(seeds_per_round=1, siblings=1, max_rounds=5, visible_seeds=(9_000,), sealed_seeds=(10_000,))
    with EnvClient(site.admin_url, site.admin_token) as client:
        controller = Controller(empty_house, client, "marketplace", course, Quiet(), Refusing())
        for number in (1, 2):
            with pytest.raises(NothingGraded, match="rejected the key"):
                controller.run()
            assert len(sweeps_of(empty_house.store, "marketplace")) == number


def test_run_ends_with_exit_code_1_and_the_reason_where_no_run_could_be_graded(
    rollout: Rollout, site: Site, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("api.cli.run.executor_of", lambda *_, **__: nullcontext(Refusing()))
    at = ("--url", site.url, "--admin-url", site.admin_url)
    assert run_command(["run", *at, "--seeds", "1", "--rounds", "3"]) == 1
    said = " ".join(capsys.readouterr().err.split())
    assert ["No run of marketplace-1 could be graded" in said, "rejected the key" in said] == [True, True]
    assert [row["sweep"] for row in told(rollout("status", "--json"))] == ["marketplace-1"]
