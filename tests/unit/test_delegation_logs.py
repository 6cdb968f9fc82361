"""What a delegation loop's log says: skills of one heading, how prompts were worded, what older logs did not record."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agents.delegation import prompts, wording
from agents.delegation.prompts import WorkOrder
from agents.delegation.skills import catalogue_section, free_name, skills_in
from agents.executors.delegation.errors import LoopPlayedOtherwise
from agents.executors.delegation.journal import LoopJournal
from agents.executors.delegation.replay import replay_loop
from agents.executors.delegation.truth import GroundTruth
from agents.executors.delegation.workers import WorkDesk
from agents.models.scripted import Scripted
from api.controllers.delegation import refuse_other_truth
from eventlog.codec import decode_event
from eventlog.events import LoopConfig, LoopOpened
from tests.looping import a_journal, a_loop, complete, delegate, events_of, prompt_of

SAMPLES = Path(__file__).parents[1] / "golden" / "events"
NO_ONES = " ".join(["word"] * 30)


def found(order: WorkOrder, _desk: WorkDesk) -> dict[str, Any]:
    return {"findings": f"{order.worker} did it", "confidence": 0.1}


def a_skill(name: str, text: str) -> str:
    return f"# Skill: {name}\n\n## Purpose\n{text}\n\n{NO_ONES}"


def catalogue(journal: LoopJournal) -> dict[str, str]:
    """The catalogue of a loop: the purpose of each skill by its name."""
    return {name: entry.line for name, entry in journal.skills.skills.items()}


@pytest.mark.parametrize("first_back", ["a", "b"])
def test_two_workers_of_one_iteration_that_write_one_heading_get_names_that_no_thread_decides(first_back: str) -> None:
    import threading  # noqa: PLC0415

    is_back = threading.Event()

    def work(order: WorkOrder, _desk: WorkDesk) -> dict[str, Any]:
        if order.worker != first_back:
            is_back.wait(0.2)
        else:
            is_back.set()
        return {"findings": "x", "confidence": 0.6, "skills_created": [a_skill("Sums", f"by {order.worker}")]}

    loop = a_loop([delegate("a", "b"), complete()], work)
    loop.run()
    assert catalogue(loop.journal) == {"sums": "by a", "sums_2": "by b"}
    model = loop.means.manager
    assert isinstance(model, Scripted)
    assert "- **`sums`**: by a\n- **`sums_2`**: by b" in prompt_of(model.requests[1])


def test_a_later_iteration_replaces_a_skill_of_the_same_heading_and_both_names_resolve() -> None:
    orders: list[WorkOrder] = []
    texts = iter(["one", "two", "three"])

    def work(order: WorkOrder, _desk: WorkDesk) -> dict[str, Any]:
        orders.append(order)
        written = [] if order.worker == "reader" else [a_skill("Sums", next(texts))]
        return {"findings": order.worker, "confidence": 0.6, "skills_created": written}

    loop = a_loop(
        [delegate("a"), delegate("b"), delegate("reader", skills=["Sums"]), complete()],
        work,
    )
    loop.run()
    assert catalogue(loop.journal) == {"sums": "two"}
    assert loop.journal.skills.skills["sums"].version == 2
    assert "two" in orders[-1].skills[0]


def test_skills_without_a_heading_replace_none() -> None:
    result = {"skills_created": [f"first {NO_ONES}", f"second {NO_ONES}", f"first {NO_ONES}"]}
    assert [each.name for each in skills_in(result, 30)] == ["unnamed_skill"] * 2
    loop = a_loop(
        [delegate("a"), delegate("b"), complete()],
        lambda o, _d: {"findings": o.worker, "confidence": 0.6, "skills_created": [f"by {o.worker} {NO_ONES}"]},
    )
    loop.run()
    assert sorted(catalogue(loop.journal)) == ["unnamed_skill", "unnamed_skill_2"]


def test_a_number_fits_into_a_long_name_and_the_same_text_needs_none() -> None:
    assert free_name("x" * 60, "new", {}, {"x" * 60: "old"}) == f"{'x' * 56}_2"
    assert free_name("sums", "same", {}, {"sums": "same"}) == "sums"
    assert free_name("sums", "new", {"sums": "old"}, {}) == "sums"


def test_the_same_skill_of_two_workers_is_kept_once_and_keeping_again_adds_nothing() -> None:
    def work(order: WorkOrder, _desk: WorkDesk) -> dict[str, Any]:
        return {"findings": order.worker, "confidence": 0.6, "skills_created": [a_skill("Sums", "one")]}

    loop = a_loop([delegate("a", "b"), complete()], work)
    loop.run()
    assert [each.worker for each in events_of(loop.journal) if each.type == "SkillSaved"] == ["a"]


def test_the_wording_of_prompts_has_a_digest_that_any_sentence_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    before = wording.prompt_wording()
    for module, name in ((wording, "MANAGER"), (wording, "CRITIC"), (prompts, "LONGEST_TASK")):
        with monkeypatch.context() as changed:
            value: Any = getattr(module, name)
            changed.setattr(module, name, f"{value} Be brief." if isinstance(value, str) else 1)
            wording.prompt_wording.cache_clear()
            assert wording.prompt_wording() != before, name
    wording.prompt_wording.cache_clear()
    assert wording.prompt_wording() == before


def test_a_replay_after_a_change_of_wording_says_so_and_reads_every_answer_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop = a_loop([delegate("a"), '{"decision": "fail"}'], found)
    loop.run()
    store, blobs = loop.journal.store, loop.journal.blobs
    same = replay_loop(store, blobs, "loop-1")
    assert (same.decisions, same.divergence, same.reworded) == (2, None, 0)
    plain = catalogue_section
    with monkeypatch.context() as changed:
        changed.setattr(prompts, "catalogue_section", lambda lines: f"{plain(lines)}\nBe brief.")
        wording.prompt_wording.cache_clear()
        reworded = replay_loop(store, blobs, "loop-1")
        assert (reworded.decisions, reworded.divergence, reworded.reworded) == (2, None, 2)
    wording.prompt_wording.cache_clear()
    with monkeypatch.context() as changed:  # the same wording, and another prompt all the same: that is a divergence
        changed.setattr("agents.executors.delegation.replay.manager_prompt", lambda _view: "another")
        assert "the prompt of iteration 1 is another one" in str(replay_loop(store, blobs, "loop-1").divergence)


def opened(version: int) -> LoopOpened:
    """The first event of a loop of an older log."""
    kept = json.loads((SAMPLES / f"LoopOpened.v{version}.json").read_text("utf-8"))
    event = decode_event("LoopOpened", version, json.dumps(kept["payload"]))
    assert isinstance(event, LoopOpened)
    return event


@pytest.mark.parametrize("version", [1, 2])
def test_a_loop_of_an_older_log_is_judged_and_told_as_it_was(version: int) -> None:
    event = opened(version)
    config = event.config
    assert event.prompts is None
    assert event.commands_known == (version == 2)
    assert (config.critique.mode, config.critique.defect_category_hard_cap, config.planning.diagnose_below) == (
        "rules",
        0,
        0,
    )
    assert not config.completion.file_gates
    loop = a_loop([delegate("a"), '{"decision": "fail"}'], found, a_journal(config))
    loop.run()
    model = loop.means.manager
    assert isinstance(model, Scripted)
    assert "## Feedback\nevaluation of the last iteration: fail\n" in prompt_of(model.requests[1])


def validated(command: str | None) -> GroundTruth:
    return GroundTruth(verify=lambda _e, _r: 1, validator=command) if command else GroundTruth()


def test_a_loop_that_recorded_no_validator_takes_the_one_it_is_given_and_one_that_did_no_other() -> None:
    unknown = a_journal(commands_known=False).state
    for command in (None, "check (SHA-256 1)"):
        refuse_other_truth(unknown, validated(command))
    with pytest.raises(LoopPlayedOtherwise, match="opened with no grader"):
        refuse_other_truth(unknown, GroundTruth(grade=lambda _r: True, grader="g (SHA-256 2)"))
    known = a_journal(validator="check (SHA-256 1)").state
    refuse_other_truth(known, validated("check (SHA-256 1)"))
    with pytest.raises(LoopPlayedOtherwise, match="this command brings no validator"):
        refuse_other_truth(known, validated(None))
    with pytest.raises(LoopPlayedOtherwise, match="brings the validator 'check"):
        refuse_other_truth(a_journal().state, validated("check (SHA-256 1)"))


def test_the_default_configuration_has_every_mechanism_on() -> None:
    config = LoopConfig()
    assert (config.critique.mode, config.critique.max_repair_attempts, config.completion.file_gates) == (
        "model",
        2,
        True,
    )
    assert config.critique.defect_category_diagnose_threshold < config.critique.defect_category_hard_cap
    assert config.planning.diagnose_below == 300_000
