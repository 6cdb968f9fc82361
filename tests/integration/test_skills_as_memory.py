"""Skills of delegated runs as pieces of memory: proposed, tried, withheld, promoted, judged and told."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace

import pytest

from agents.envs.clients.client import EnvClient
from agents.executors.delegation.executor import DelegationExecutor
from agents.executors.policy import PolicyExecutor
from agents.learning.occasions import lesson_id
from agents.learning.piece_content import MEDIA_TYPE, content_bytes
from agents.models.model import CompletionRequest
from agents.models.scripted import Scripted
from agents.rollouts.sweep import SeedSweep
from api.cli.main import run_command
from api.controllers.delegation import journals_of, offered_skills
from api.controllers.fast import Controller
from api.house import House
from api.sweeps.plan import first_facts, plan
from api.sweeps.play import play_sweep
from eventlog.blobs import Blob
from eventlog.events import (
    LoopConfig,
    LoopOpened,
    MemoryQuarantined,
    Occasion,
    PairedRule,
    PieceProposed,
    PieceTried,
    SkillSaved,
    Step,
    Template,
    Trials,
)
from eventlog.store import Append
from projections.pieces import SKILL_PIECES
from projections.runs import RUNS
from tests.admitted import admitted
from tests.conftest import Database
from tests.followers import Follower
from tests.golden.make import Quiet
from tests.integration.test_helpdesk_loop import COURSE as HELPDESK
from tests.integration.test_lessons_told import task_of
from tests.recomputing import every_verdict_recomputes

COURSE = replace(
    HELPDESK, seeds_per_round=4, sealed_seeds=tuple(range(10_000, 10_006)), kinds=frozenset({"skill"}), max_parallel=2
)
SKILL = (
    "# Skill: Finding The Inbox\n\n## Purpose\nWhere the inbox is.\n\n" + "Open the first page and follow Inbox. " * 5
)
NAME = "finding_the_inbox"


def cured(plan: tuple[Step, ...]) -> tuple[Step, ...]:
    """The plan of who knows where the inbox is."""
    place = next(number for number, step in enumerate(plan) if step.type == "navigate")
    way = (
        Step(type="navigate", intent="open the first page", url="/"),
        Step(type="click", intent="open the inbox", label="Inbox"),
    )
    return (*plan[:place], *way, *plan[place + 1 :])


class Staff:
    """A manager that gives a skill of its catalogue, or, drawn by seed, one of its own; a worker that follows it."""

    def __init__(self, task: Template) -> None:
        self.astray = Follower(task.plan_steps, task.instruction)
        self.knowing = Follower(cured(task.plan_steps), task.instruction)

    def __call__(self, request: CompletionRequest) -> str:
        asked = request.messages[1].text
        if not request.messages[0].text.startswith("You are the manager"):
            return (self.knowing if "follow Inbox" in asked else self.astray)(request)
        if "Iter 1:" in asked:
            return json.dumps({"decision": "complete", "reasoning": "done", "final_result": {"answer": "sorted"}})
        invents = bool(request.sampling.temperature_micro) and (request.sampling.seed or 0) % 3 == 0
        skills = [NAME] if f"`{NAME}`" in asked else [SKILL] if invents else []
        task = re.search(r"## Task\n(.*)\n", asked)
        told = {"worker_id": "clerk", "instructions": task[1] if task else "", "skills": skills}
        return json.dumps({"decision": "delegate", "delegations": [told]})


def delegating(house: House, task: Template) -> DelegationExecutor:
    return DelegationExecutor(PolicyExecutor(Scripted(Staff(task))), journals_of(house))


def openings(house: House) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each run's loop with the skills that its manager was offered."""
    for item in house.store.read(types=["LoopOpened"]):
        if isinstance(item.event, LoopOpened):
            yield item.event.loop.removesuffix(".loop"), tuple(each.skill for each in item.event.skills)


@pytest.mark.costly(
    "the fast loop of a delegation from its failures to a verdict: rounds, trials and both arms over HTTP"
)
def test_a_delegation_loop_gets_better_by_a_skill_that_passes_trials_and_the_gate(
    empty_house: House,
    empty_database: Database,
    helpdesk: EnvClient,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    house, (task,) = empty_house, task_of(helpdesk)
    admitted(house.store, "helpdesk")
    said = Controller(house, helpdesk, "helpdesk", COURSE, Quiet(), delegating(house, task)).run()
    assert said == "eval-1 was decided: promote"
    assert every_verdict_recomputes(house) == 1
    (proposed,) = [each.event for each in house.store.read(types=["PieceProposed"])]
    assert isinstance(proposed, PieceProposed)
    assert (proposed.kind, proposed.title, proposed.occasion.cluster) == ("skill", NAME, "navigation")
    (state,) = house.views().find(SKILL_PIECES).values()
    assert (state.status, state.title) == ("promoted", NAME)
    tried = [each.event for each in house.store.read(types=["PieceTried"])]
    assert {each.kind for each in tried if isinstance(each, PieceTried)} == {"skill"}
    arms = house.views().find(RUNS, "eval-1__")
    assert {run.applied for run in arms.values()} == {(), (proposed.piece,)}
    offered = dict(openings(house))
    assert {offered[name] for name, run in arms.items() if run.applied} == {(NAME,)}
    assert {offered[name] for name, run in arms.items() if not run.applied} == {()}
    for name, value in {
        "DATABASE_URL": empty_database.app_url,
        "OWNER_URL": empty_database.owner_url,
        "KEYS": str(empty_database.keys),
    }.items():
        monkeypatch.setenv(f"FLYWHEEL_{name}", value)
    assert run_command(["skills", "list", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert [(each["status"], each["cluster"]) for each in row["memory"]] == [("promoted", "navigation")]
    assert run_command(["skills", "show", NAME]) == 0
    printed = capsys.readouterr().out
    assert "follow Inbox" in printed
    assert "wins in a row" in printed
    assert run_command(["skills", "pieces", "show", proposed.piece, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["status"] == "promoted"


def promote_skill(house: House, text: str) -> str:
    """Have memory hold a skill under the paired rule, by trials that it won."""
    occasion = Occasion(environment="helpdesk", type="navigate", intent="", page="", cluster="navigation")
    blob = Blob(MEDIA_TYPE, content_bytes(text, None))
    house.blobs.put([blob])
    piece = lesson_id("skill", occasion, None, text)
    proposed = PieceProposed(
        piece=piece,
        kind="skill",
        occasion=occasion,
        title=NAME,
        content=blob.digest,
        rule=PairedRule(),
        run=None,
        source="imported",
    )
    trials = [
        PieceTried(
            piece=piece,
            kind="skill",
            run=f"r{number}",
            control_runs=("a", "b", "c"),
            control_successes=0,
            won=True,
            withheld=False,
        )
        for number in range(10)
    ]
    house.store.append([Append(f"skill/{piece}", (proposed, *trials), "test")])
    assert house.views().find(SKILL_PIECES)[piece].status == "promoted"
    return piece


def test_a_promoted_skill_is_withheld_from_one_sibling_whose_manager_is_not_offered_it(
    empty_house: House, helpdesk: EnvClient
) -> None:
    house, (task,) = empty_house, task_of(helpdesk)
    first_facts(house)
    piece = promote_skill(house, SKILL)
    executor = delegating(house, task)
    sweep = plan(
        house,
        house.views(),
        "helpdesk",
        SeedSweep("s1", [task], [1], 4),
        rng_seed=1,
        trials=Trials(treated_micro=0, withheld_micro=1_000_000),
        executor=executor,
    )
    play_sweep(house, helpdesk, sweep, COURSE, Quiet(), executor)
    offered = dict(openings(house))
    withheld = {spec.spec_id: spec.withheld for spec in sweep.specs}
    assert sorted(withheld.values(), key=str) == [None, None, None, piece]
    assert {run: () if withheld[run] else (NAME,) for run in withheld} == offered
    (trial,) = [
        each.event
        for each in house.store.read(types=["PieceTried"])
        if isinstance(each.event, PieceTried) and each.event.withheld
    ]
    assert (trial.piece, trial.kind, len(trial.control_runs)) == (piece, "skill", 3)


def test_a_skill_that_memory_gave_up_is_offered_to_no_loop_that_a_person_starts(empty_house: House) -> None:
    house = empty_house
    first_facts(house)
    text = Blob("text/plain; charset=utf-8", SKILL.encode())
    house.blobs.put([text])
    saved = SkillSaved(
        loop=None, iteration=0, worker="person", skill=NAME, version=1, content=text.digest, line="x", words=40
    )
    house.store.append([Append(f"skill/{NAME}", (saved,), "person")])
    piece = promote_skill(house, SKILL)
    assert [each.skill for each in offered_skills(house.views(), LoopConfig())] == [NAME]
    gone = MemoryQuarantined(piece=piece, kind="skill", restored=0, reason="it misled")
    house.store.append([Append(f"skill/{piece}", (gone,), "test")])
    assert offered_skills(house.views(), LoopConfig()) == ()
