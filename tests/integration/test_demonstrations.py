"""Demonstrations on a real site: a plan as a policy's conversation, and as rows that a model can warm up on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from agents.envs.clients.client import EnvClient
from agents.envs.provider import local_site
from agents.executors.demonstration import LONGEST_ANSWER, Demonstrator
from agents.executors.executor import Assignment, Executor
from agents.executors.policy import PolicyExecutor
from agents.models.scripted import Scripted
from agents.rollouts.sweep import SeedSweep
from api.cli.main import run_command
from api.course import Course
from api.datasets import freeze
from api.datasets.demonstrations import keep_tokens
from api.errors import SessionNotKept
from api.history.replay import replay_run
from api.house import House
from api.sweeps.jobs import refuse_session_not_kept
from api.sweeps.plan import first_facts, plan, site_templates
from api.sweeps.play import play_sweep
from benchmarks.shipped import PLANS
from eventlog.blobs.conversations import get_messages
from eventlog.errors import BlobMissing
from eventlog.events import FollowLink, GrpoQuery, ModelCalled, RunStarted, SftQuery, StepTaken, SweepPlanned, Tokens
from eventlog.references import blob_addresses
from eventlog.weights_folder import Base, read_base
from projections.groups import find_groups
from projections.runs import RUNS
from tests.conftest import Database
from tests.golden.make import Quiet
from tests.promoted import promote_rewrite
from tests.tiny import make_base
from trainer.bases import check_rows, load_tokenizer
from trainer.rows import read_rows

PHONE = "marketplace.phone_reveal"
SEEDS = range(8)


@pytest.fixture(scope="module")
def client() -> Iterator[EnvClient]:
    with local_site("marketplace") as site, EnvClient(site.admin_url, site.admin_token) as opened:
        yield opened


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Base:
    return make_base(tmp_path_factory.mktemp("bases"), longest=8192)


def played(house: House, client: EnvClient, executor: Executor, name: str = "shown") -> SweepPlanned:
    first_facts(house)
    found = [each for each in site_templates(client) if each.template_id == PHONE]
    generator = SeedSweep(name, found, tuple(SEEDS), 1)
    sweep = plan(house, house.views(), "marketplace", generator, rng_seed=1, learns=False, executor=executor)
    play_sweep(house, client, sweep, Course(max_parallel=2), Quiet(), executor)
    return sweep


def test_a_demonstration_may_be_told_what_memory_changed_in_its_plan(empty_house: House, client: EnvClient) -> None:
    house = empty_house
    first_facts(house)
    (task,) = [each for each in site_templates(client) if each.template_id == PHONE]
    step = next(each for each in task.plan_steps if each.type == "navigate")
    name = promote_rewrite(house, step, FollowLink(page="/", label="Boats"))
    prompts = {}
    for tells in (False, True):
        executor, sweep = Demonstrator(wording="brief"), f"told-{tells}".lower()
        generator = SeedSweep(sweep, [task], (1,), 1)
        event = plan(
            house, house.views(), "marketplace", generator, rng_seed=1, learns=False, executor=executor, tells=tells
        )
        play_sweep(house, client, event, Course(max_parallel=2), Quiet(), executor)
        run = event.specs[0].spec_id
        assert house.views().find(RUNS)[run].applied == (name,)
        calls = house.store.read(stream=f"run/{run}", types=("ModelCalled",))
        replayed = replay_run(house.store, house.blobs, house.views, run)
        assert (replayed.outcome, replayed.not_compared) == ("identical", ())
        assert {"plan", "calls", "steps", "end", "grade", "reward"} <= set(replayed.compared)
        prompts[tells] = turns_of(house, next(each.event for each in calls if isinstance(each.event, ModelCalled)))
    line = "- “Open /, then follow the link 'Boats', not: open"
    assert [line in prompts[tells][1]["content"] for tells in (False, True)] == [False, True]
    assert prompts[True][1]["content"].index(line) < prompts[True][1]["content"].index("No page is open yet.")
    planned = [each.event for each in house.store.read(types=("SweepPlanned",))]
    assert [("tells" in each.model_dump(mode="json")) for each in planned] == [False, True]


def query_of(tokens: Tokens) -> SftQuery:
    return SftQuery(runs="demonstration", tokens=tokens)


def test_a_demonstration_is_what_the_policy_executor_is_told_and_what_the_plan_says(
    empty_house: House, client: EnvClient
) -> None:
    """The same conversation comes of a policy that answers the same, message by message."""
    played(empty_house, client, Demonstrator(wording="brief"))
    calls = [e.event for e in empty_house.store.read(types=("ModelCalled",)) if isinstance(e.event, ModelCalled)]
    runs = sorted({call.run for call in calls})
    assert len(runs) == len(SEEDS)
    done = {run for run, state in empty_house.views().find(RUNS).items() if state.status == "completed"}
    assert done == set(runs)
    ended = {call.run: call for call in calls}
    (whole, cut), lengths = _longest_and_shortest(empty_house, runs)
    assert lengths[whole] == len(PLANS[PHONE]) + 1
    assert lengths[cut] == 2  # the first page was not there, so it says that it is done
    theirs = turns_of(empty_house, ended[whole])
    said = [turn["content"] for turn in theirs if turn["role"] == "assistant"]
    asked = Scripted([*said, '{"why": "", "action": "finish", "target": "", "value": ""}'])
    seed = empty_house.views().find(RUNS)[whole].env_seed
    again = PolicyExecutor(asked, wording="brief")
    instance = client.reset(seed)
    instruction = next(each.instruction for each in site_templates(client) if each.template_id == PHONE)
    again.execute(Assignment(instruction, (), 40), instance)
    assert [message.text for message in asked.requests[-1].messages] == [turn["content"] for turn in theirs]


def turns_of(house: House, call: ModelCalled) -> list[dict[str, str]]:
    """What a call was told, by role and content."""
    found: list[Any] = get_messages(house.blobs, call.messages)
    return [{"role": m["role"], "content": "\n".join(part["text"] for part in m["parts"])} for m in found]


def _longest_and_shortest(house: House, runs: list[str]) -> tuple[tuple[str, str], dict[str, int]]:
    steps = [e.event for e in house.store.read(types=("StepTaken",)) if isinstance(e.event, StepTaken)]
    lengths = {run: sum(step.run == run for step in steps) for run in runs}
    return (max(runs, key=lengths.__getitem__), min(runs, key=lengths.__getitem__)), lengths


def test_rows_hold_the_tokens_that_a_policy_would_have_been_prompted_with(
    empty_house: House, client: EnvClient, base: Base, tmp_path: Path
) -> None:
    house = empty_house
    played(house, client, Demonstrator(wording="brief"))
    query = query_of(keep_tokens(house.blobs, base.path))
    made = freeze.refuse_empty(
        freeze.write_dataset(house.store, house.blobs, house.views(), query, tmp_path / "r.parquet")
    )
    assert {item.reason: item.runs for item in made.refused} == {"below_score": len(SEEDS) - made.height}
    tokenizer = load_tokenizer(base)
    calls = [e.event for e in house.store.read(types=("ModelCalled",)) if isinstance(e.event, ModelCalled)]
    started = [e.event for e in house.store.read(types=("RunStarted",)) if isinstance(e.event, RunStarted)]
    artifacts = {event.run: str(event.artifact) for event in started}
    for row in pl.read_parquet(tmp_path / "r.parquet").iter_rows(named=True):
        own = [call for call in calls if call.run == row["run"]]
        assert row["calls"] == len(own)
        assert (row["truncated"], row["max_tokens"], row["artifact"]) == (False, LONGEST_ANSWER, artifacts[row["run"]])
        ids = [*row["prompt_ids"], *row["completion_ids"]]
        place = 0
        for call in own:
            prompt = tokenizer.apply_chat_template(turns_of(house, call), add_generation_prompt=True, return_dict=False)
            assert ids[: len(prompt)] == prompt
            place = len(prompt) - len(row["prompt_ids"])
            assert row["mask"][place] == 1
            assert place == 0 or row["mask"][place - 1] == 0
        said = tokenizer.decode(row["completion_ids"][place:])
        assert said.startswith('{"why": "say that it is done"')
        assert said.endswith(tokenizer.eos_token)
        assert sum(row["mask"]) + row["mask"].count(0) == len(row["completion_ids"])
    check_rows(read_rows(tmp_path / "r.parquet", "sft"), read_base(base.path))
    digest = freeze.freeze_dataset(house.store, made, "test")
    assert freeze.load(house.store, house.blobs, house.views, digest).height == made.height


def test_the_command_builds_them_with_a_base_and_refuses_one_without_the_other(
    empty_house: House,
    empty_database: Database,
    client: EnvClient,
    base: Base,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("FLYWHEEL_DATABASE_URL", empty_database.app_url)
    monkeypatch.setenv("FLYWHEEL_KEYS", str(empty_database.keys))
    played(empty_house, client, Demonstrator(wording="brief"))
    asked = ["dataset", "build", "sft", "--json", "--runs", "demonstration"]
    assert run_command([*asked, "--base", str(base.path)]) == 0
    shown = json.loads(capsys.readouterr().out)
    tokens = {"tokenizer": base.tokenizer, "chat_template": base.chat_template}
    assert (shown["kind"], shown["query"]["tokens"]) == ("sft", tokens)
    assert shown["rows"] > 0
    kept = blob_addresses(next(iter(empty_house.store.read(types=("DatasetFrozen",)))).event)
    assert kept == (base.tokenizer, base.chat_template)
    assert run_command(asked) != 0
    assert "--runs demonstration needs --base" in capsys.readouterr().err
    group = next(iter(find_groups(empty_house.views())))
    asked = ["dataset", "slice", "sft", "--json", "--group", group, "--runs", "demonstration", "--min-score", "0"]
    assert run_command([*asked, "--base", str(base.path)]) == 0
    assert json.loads(capsys.readouterr().out)["query"]["tokens"] == tokens
    assert run_command(asked) != 0


def test_a_query_that_is_refused_keeps_nothing_of_its_base(
    empty_house: House,
    empty_database: Database,
    base: Base,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("FLYWHEEL_DATABASE_URL", empty_database.app_url)
    monkeypatch.setenv("FLYWHEEL_KEYS", str(empty_database.keys))
    asked = ["dataset", "build", "grpo", "--runs", "demonstration", "--base", str(base.path)]
    assert run_command(asked) != 0
    assert "has no --runs" in capsys.readouterr().err
    with pytest.raises(BlobMissing):
        empty_house.blobs.get(base.tokenizer)


def test_what_was_drawn_is_never_tokenised_and_a_demonstration_is_no_draw(
    empty_house: House, client: EnvClient, base: Base
) -> None:
    house = empty_house
    played(house, client, Demonstrator(), "shown")
    finish = '{"why": "", "action": "finish", "target": "", "value": ""}'
    played(house, client, PolicyExecutor(Scripted(lambda _request: finish)), "drawn")
    tokens = keep_tokens(house.blobs, base.path)

    def refused(query: SftQuery | GrpoQuery) -> dict[str, int]:
        return {
            item.reason: item.runs for item in freeze.make_rows(house.store, house.blobs, house.views(), query).refused
        }

    assert refused(SftQuery(runs="demonstration", tokens=tokens, sweep="drawn", min_score=0)) == {"sampled": len(SEEDS)}
    assert refused(SftQuery(runs="policy", sweep="shown", min_score=0)) == {"no_token_ids": len(SEEDS)}
    assert refused(SftQuery(sweep="shown")) == {"no_plan": len(SEEDS)}


def test_tokens_and_demonstrations_go_together_and_a_demonstration_keeps_no_session() -> None:
    tokens = Tokens(tokenizer="a" * 64, chat_template="b" * 64)
    for wrong in ({"runs": "plan", "tokens": tokens}, {"runs": "demonstration"}, {"tokens": tokens}):
        with pytest.raises(ValueError, match="expected `tokens` with"):
            SftQuery.model_validate(wrong)
    with pytest.raises(SessionNotKept):
        refuse_session_not_kept("key", Demonstrator())
