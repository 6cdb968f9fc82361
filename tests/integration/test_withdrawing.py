"""Runs withdrawn: what is listed, what is marked, what later reads leave out, and what stays as it was."""

from __future__ import annotations

import json
from io import StringIO

import pytest
from fastapi.testclient import TestClient

from api.cli.main import run_command
from api.datasets.freeze import holding_over, load
from api.errors import AlreadyWithdrawn, NoReason, Unknown
from api.history.withdraw import MOST_IN_ONE, runs_of_champion, withdraw_runs, withdrawable, withdrawal
from api.house import House
from eventlog.events import Artifact, RunStarted, RunsWithdrawn
from gate import promote
from gate.errors import ChampionMoved
from projections.champions import CHAMPION, CHAMPIONS
from projections.frozen_datasets import CHECKPOINTS
from projections.rewrites import REWRITES
from projections.runs import RUNS
from projections.taint import WITHDRAWALS, withdrawals
from projections.verdicts import VERDICTS
from tests.conftest import Database

from .test_cli import Flywheel, flywheel, shown
from .test_rest_samples import SampleRun, append

__all__ = ["flywheel"]

PROPOSER = "marketplace-1__marketplace.lead_filtered_search__seed2__s0"
REASON = ("--reason", "bad grader")


def start(house: House, run: str, artifact: Artifact) -> None:
    """A run of another agent, pinned to an artifact."""
    started = SampleRun(run, group=run).started("0" * 64)
    assert isinstance(started, RunStarted)
    append(house.store, f"run/{run}", started.model_copy(update={"artifact": artifact}))


def champion(house: House) -> Artifact:
    state = house.views().get(CHAMPIONS, CHAMPION)
    assert state is not None
    return state.pointed_artifact()


def challenger(house: House) -> Artifact:
    """What the gate made champion in the golden log."""
    (state,) = house.views().find(VERDICTS).values()
    return state.artifacts()[1]


def trained_on(flywheel: Flywheel) -> str:
    """A run that the golden log's dataset has rows of."""
    runs = shown(flywheel, "runs", "list", "--limit", "1000")
    return next(str(row["run"]) for row in runs if row["passed"] and row["evaluation"] is None)


@pytest.mark.reads
def test_what_was_learned_is_shown_first_and_a_dry_run_changes_nothing(flywheel: Flywheel) -> None:
    before = shown(flywheel, "log", "head")
    code, out, _ = flywheel("runs", "withdraw", PROPOSER, *REASON, "--dry-run")
    assert code == 0
    assert "rw-445bcc60e953" in out
    assert "marketplace-2__marketplace.phone_reveal__seed6__s1" in out
    assert "Nothing was changed" in out
    found = shown(flywheel, "runs", "withdraw", PROPOSER, *REASON, "--dry-run")
    assert found["since"] is None
    assert found["tainted"]["rewrites"] == ["rw-445bcc60e953"]
    assert shown(flywheel, "log", "head") == before


def test_a_withdrawn_run_is_marked_and_keeps_its_facts(flywheel: Flywheel) -> None:
    before = shown(flywheel, "runs", "show", PROPOSER)
    assert (before["withdrawn"], before["erased"]) == (None, None)
    since = shown(flywheel, "runs", "withdraw", PROPOSER, *REASON, "--yes")["since"]
    after = shown(flywheel, "runs", "show", PROPOSER)
    assert after == {**before, "withdrawn": since}
    code, out, _ = flywheel("runs", "show", PROPOSER)
    assert (code, f"since position {since}: bad grader" in out) == (0, True)
    listed = {row["run"]: row["withdrawn"] for row in shown(flywheel, "runs", "list", "--limit", "1000")}
    assert {run for run, mark in listed.items() if mark is not None} == {PROPOSER}
    earlier = shown(flywheel, "runs", "list", "--limit", "1000", "--as-of", str(since - 1))
    assert not any(row["withdrawn"] for row in earlier)


def test_later_datasets_leave_a_withdrawn_run_out_and_earlier_ones_verify_as_they_were(flywheel: Flywheel) -> None:
    old = shown(flywheel, "dataset", "list")[0]["dataset"]
    run = trained_on(flywheel)
    found = shown(flywheel, "runs", "withdraw", run, *REASON)
    assert found["tainted"]["datasets"] == [old]
    built = shown(flywheel, "dataset", "build")
    assert built["dataset"] != old
    assert built["refused"]["withdrawn"] == 1
    assert shown(flywheel, "dataset", "verify", old)["outcome"] == "equal"
    assert shown(flywheel, "dataset", "verify", built["dataset"])["outcome"] == "equal"
    assert shown(flywheel, "dataset", "build", "--as-of", "649")["dataset"] == old
    again = shown(flywheel, "runs", "withdraw", PROPOSER, *REASON, "--dry-run")["tainted"]["datasets"]
    assert again == []


def test_a_run_of_an_arm_taints_the_verdict_and_the_champion_pointed_on_it(flywheel: Flywheel) -> None:
    run = next(row["run"] for row in shown(flywheel, "runs", "list", "--sweep", "eval-1"))
    tainted = shown(flywheel, "runs", "withdraw", run, *REASON)["tainted"]
    assert (tainted["evaluations"], tainted["champions"]) == (["eval-1"], [649])
    assert flywheel("gate", "verify", "eval-1")[0] == 0


def test_the_log_verifies_and_the_projections_are_identical_afterwards(flywheel: Flywheel) -> None:
    assert flywheel("runs", "withdraw", PROPOSER, *REASON)[0] == 0
    assert flywheel("log", "verify")[0] == 0
    assert flywheel("replay", "--verify")[0] == 0
    assert flywheel("replay", "--rebuild", "--verify", "--projection", "taint")[0] == 0


def test_a_dataset_holds_the_runs_of_its_rows_and_no_other(house: House) -> None:
    runs, dataset = house.views().find(RUNS), next(iter(house.views().find(CHECKPOINTS, "dataset/").values()))
    rows = load(house.store, house.blobs, house.views, dataset.dataset).rows
    holds = holding_over(house.store, house.views)
    assert {run for run in runs if holds(dataset, frozenset({run}))} == set(rows["run"])
    assert holds(dataset, frozenset(runs))
    assert not holds(dataset, frozenset({"nobody"}))


WRONG = [
    (("nope",), "No run is called nope", 1),
    ((PROPOSER, "nope", "never"), "No run is called never, nope", 1),
    ((PROPOSER, "\udcff"), "lone surrogate", 1),
    (("",), "No run is called", 1),
    ((), "Missing argument", 64),
]


@pytest.mark.reads
@pytest.mark.parametrize(("runs", "said", "code"), WRONG, ids=[said for _, said, _ in WRONG])
def test_a_wrong_name_is_one_sentence_and_nothing_is_withdrawn(
    runs: tuple[str, ...], said: str, code: int, flywheel: Flywheel
) -> None:
    before = shown(flywheel, "log", "head")
    found, _, err = flywheel("runs", "withdraw", *runs, *REASON)
    assert found == code
    assert said in err.replace("'", "")
    assert shown(flywheel, "log", "head") == before


@pytest.mark.reads
@pytest.mark.parametrize(("reason", "said"), [("", "No reason"), (" \t", "No reason"), ("x" * 201, "at most 200")])
def test_a_reason_is_a_few_words(reason: str, said: str, flywheel: Flywheel) -> None:
    code, _, err = flywheel("runs", "withdraw", PROPOSER, "--reason", reason)
    assert code == 1
    assert said in err


def test_a_run_is_withdrawn_once(flywheel: Flywheel) -> None:
    since = shown(flywheel, "runs", "withdraw", PROPOSER, PROPOSER, *REASON)["since"]
    code, _, err = flywheel("runs", "withdraw", PROPOSER, "--reason", "another")
    assert code == 1
    assert "already withdrawn" in err
    assert str(since) in err


def test_an_operator_who_says_no_changes_nothing(flywheel: Flywheel, monkeypatch: pytest.MonkeyPatch) -> None:
    before = shown(flywheel, "log", "head")
    monkeypatch.setattr("api.cli.output.ERR._force_terminal", True)
    monkeypatch.setattr("typer.confirm", lambda *_, **__: False)
    assert flywheel("runs", "withdraw", PROPOSER, *REASON)[0] == 1
    assert flywheel("champion", "back", "--withdraw-tainted", *REASON, "--yes")[0] == 1
    assert shown(flywheel, "log", "head") == before


def test_a_retry_takes_the_same_position_and_another_reason_is_refused(house: House) -> None:
    first = withdraw_runs(house.store, (PROPOSER,), "one", "test")
    assert withdraw_runs(house.store, (PROPOSER,), "one", "somebody else") == first
    with pytest.raises(AlreadyWithdrawn) as refused:
        withdraw_runs(house.store, (PROPOSER,), "two", "test")
    assert refused.value.facts["position"] == first
    assert house.store.head() == first
    with pytest.raises(AlreadyWithdrawn):
        withdrawable(house.views(), (PROPOSER,))


def test_what_may_be_withdrawn_is_known_and_counts_each_run_once(house: House) -> None:
    assert withdrawable(house.views(), (PROPOSER, PROPOSER)) == (PROPOSER,)
    with pytest.raises(Unknown, match="a1, a2, a3, a4, a5 and 2 more"):
        withdrawable(house.views(), tuple(f"a{n}" for n in range(1, 8)))


def test_many_runs_are_several_events_of_one_append(house: House) -> None:
    runs = tuple(f"r{n:04}" for n in range(2 * MOST_IN_ONE + 1))
    since = withdraw_runs(house.store, runs, "all of them", "test")
    events = [item.event for item in house.store.read(stream=WITHDRAWALS)]
    assert [len(event.runs) for event in events if isinstance(event, RunsWithdrawn)] == [MOST_IN_ONE, MOST_IN_ONE, 1]
    assert house.store.head() == since + 2
    assert set(withdrawals(house.views())) == set(runs)
    with pytest.raises(NoReason):
        withdrawal(runs, "\n")


def test_back_withdraws_what_the_champion_that_is_left_has_played_since_it_was_pointed(
    flywheel: Flywheel, house: House
) -> None:
    promoted = shown(flywheel, "champion", "history")[1]["champion"]
    assert flywheel("champion", "point", promoted, "--reason", "again", "--yes")[0] == 0
    left, before = champion(house), house.store.head()
    same_content = left.model_copy(update={"memory": left.memory.model_copy(update={"upto": 650})})
    start(house, "ext-1", left)
    start(house, "ext-2", same_content)
    start(house, "ext-3", Artifact(weights="other", memory=left.memory))
    moved = shown(flywheel, "champion", "back", "--withdraw-tainted", *REASON, "--yes")
    assert (moved["champion"], moved["withdrawn"]) == ("base@0", ["ext-1", "ext-2"])
    assert moved["tainted"]["runs"] == ["ext-1", "ext-2"]
    events = [item for item in house.store.read(after=before) if item.event.type != "RunStarted"]
    assert [item.event.type for item in events] == ["ChampionPointed", "RunsWithdrawn"]
    assert [item.stream for item in events] == ["champion", "withdrawals"]
    assert set(withdrawals(house.views())) == {"ext-1", "ext-2"}
    assert runs_of_champion(house.views()) == ()


def test_back_says_when_there_is_nothing_to_withdraw(flywheel: Flywheel) -> None:
    promoted = shown(flywheel, "champion", "history")[1]["champion"]
    assert flywheel("champion", "point", promoted, "--reason", "again", "--yes")[0] == 0
    code, out, _ = flywheel("champion", "back", "--withdraw-tainted", *REASON, "--yes")
    assert code == 0
    assert "has played no runs" in out
    assert "base@0 is champion again" in out


def test_back_shows_what_was_learned_and_how_much_is_withdrawn(flywheel: Flywheel, house: House) -> None:
    promoted = shown(flywheel, "champion", "history")[1]["champion"]
    assert flywheel("champion", "point", promoted, "--reason", "again", "--yes")[0] == 0
    start(house, "ext-1", champion(house))
    code, out, _ = flywheel("champion", "back", "--withdraw-tainted", *REASON, "--yes")
    assert code == 0
    assert "ext-1" in out
    assert "nothing was learned from them" in out
    assert "withdrawn: 1 run" in out


@pytest.mark.parametrize(
    ("answer", "moves"), [("", False), ("n\n", False), ("y\n", True)], ids=["nothing", "no", "yes"]
)
@pytest.mark.parametrize("words", [("back",), ("point", "base@0")], ids=" ".join)
def test_a_move_that_is_piped_shows_what_changes_and_waits_for_an_answer(
    flywheel: Flywheel, house: House, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], answer: str, moves: bool
) -> None:
    promoted = shown(flywheel, "champion", "history")[1]["champion"]
    assert flywheel("champion", "point", promoted, "--reason", "again", "--yes")[0] == 0
    head = house.store.head()
    monkeypatch.setattr("sys.stdin", StringIO(answer))
    code, _, err = flywheel("champion", *words, *REASON)
    assert (code == 0, house.store.head() > head) == (moves, moves)
    assert f"{promoted} -> base@0: " in err
    assert "--yes" in err


def test_a_move_that_is_refused_withdraws_nothing(house: House) -> None:
    promoted = challenger(house)
    promote.point(house.store, house.views(), promoted, "again", "ann")
    stale = house.views()
    promote.point(house.store, house.views(), promoted, "meanwhile", "bob")
    head = house.store.head()
    with pytest.raises(ChampionMoved):
        promote.back(house.store, stale, "late", "ann", withdraw=withdrawal((PROPOSER,), "late"))
    assert house.store.head() == head
    assert withdrawals(house.views()) == {}


def test_withdrawals_are_read_over_rest_as_of_any_position(client: TestClient, house: House) -> None:
    since = withdraw_runs(house.store, (PROPOSER,), "bad grader", "test")
    listed = client.get("/v1/taint/withdrawals").json()["withdrawals"]
    assert listed == [{"since": since, "reason": "bad grader", "runs": [PROPOSER]}]
    assert client.get("/v1/taint/withdrawals", params={"as_of": since - 1}).json()["withdrawals"] == []
    assert client.get("/v1/taint/erasures").json()["erasures"] == []
    for as_of, mark in ((since, since), (since - 1, None)):
        run = client.get(f"/v1/runs/{PROPOSER}", params={"as_of": as_of}).json()["run"]
        (row,) = client.get("/v1/runs", params={"limit": 1, "after": PROPOSER[:-1], "as_of": as_of}).json()["runs"]
        assert (run["withdrawn"], run["erased"]) == (row["withdrawn"], row["erased"]) == (mark, None)


def test_taint_is_read_over_rest(client: TestClient, house: House) -> None:
    rewrite = house.views().find(REWRITES)["rw-445bcc60e953"]
    tainted = client.get(
        "/v1/taint", params={"run": [PROPOSER, "eval-1__champion__marketplace.phone_reveal__seed9000__r0"]}
    )
    assert tainted.status_code == 200, tainted.text
    found = tainted.json()["tainted"]
    assert rewrite.proposed_by == PROPOSER
    assert (found["rewrites"], found["evaluations"]) == ([rewrite.rewrite], ["eval-1"])
    assert client.get("/v1/taint", params={"subject": "nobody"}).json()["tainted"]["runs"] == []


@pytest.mark.reads
@pytest.mark.parametrize(
    ("query", "status", "kind"),
    [
        ("", 422, "Unprocessable"),
        ("run=nope", 404, "Unknown"),
        ("run=", 422, "InvalidRequest"),
        ("run=%00", 422, "InvalidRequest"),
        ("subject=" + "x" * 201, 422, "InvalidRequest"),
        ("run=r&" * 101, 422, "InvalidRequest"),
        (f"run={PROPOSER}&as_of=1", 404, "Unknown"),
    ],
)
def test_a_wrong_question_is_answered_in_the_one_shape(query: str, status: int, kind: str, client: TestClient) -> None:
    answer = client.get(f"/v1/taint?{query}")
    assert (answer.status_code, answer.json()["error"]["type"]) == (status, kind)


@pytest.mark.reads
def test_nothing_is_withdrawn_or_erased_over_http(client: TestClient) -> None:
    for event in (
        {"type": "RunsWithdrawn", "runs": [PROPOSER], "reason": "x"},
        {"type": "SubjectErased", "subject": "ann", "reason": "x"},
    ):
        answer = client.post("/v1/events", json={"stream": "withdrawals", "events": [event]})
        assert (answer.status_code, answer.json()["error"]["type"]) == (403, "ReservedEvent")


def test_a_withdrawal_in_another_project_is_none_here(
    flywheel: Flywheel, database: Database, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert database.app_url
    monkeypatch.setenv("FLYWHEEL_PROJECT", "second")
    assert run_command(["db", "migrate"]) == 0
    capsys.readouterr()
    assert run_command(["runs", "withdraw", PROPOSER, *REASON]) == 1
    assert "No run is called" in capsys.readouterr().err
    monkeypatch.delenv("FLYWHEEL_PROJECT")
    assert json.loads(flywheel("runs", "withdraw", PROPOSER, *REASON, "--json")[1])["runs"] == [PROPOSER]
