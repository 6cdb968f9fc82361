"""Admission: it rests on a report in which nothing failed, and on the tasks that were probed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from agents.envs.addresses import without_secrets
from agents.envs.admission import admit, check_admitted, record
from agents.envs.contract import TaskText
from agents.envs.errors import AdmittedOtherwise, NotAdmitted
from agents.envs.probing.probes import PROBES, EnvironmentProbe, run_probe, tasks_digest
from agents.envs.probing.target import Failed, Skipped, Target
from agents.envs.provider import known_sites
from eventlog.memory import MemoryStore
from projections.engine.views import ReplayedViews
from projections.environments import ENVIRONMENTS, EnvironmentState
from tests.admitted import admitted, report

SITE = "marketplace"
TASKS = known_sites()[SITE].tasks


def a_store() -> MemoryStore:
    return MemoryStore(lambda: datetime(2026, 1, 1, tzinfo=UTC))


def views(store: MemoryStore) -> ReplayedViews:
    return ReplayedViews(store, store.head())


def state(store: MemoryStore) -> EnvironmentState:
    return views(store).find(ENVIRONMENTS)[SITE]


def refusal(store: MemoryStore, tasks: Sequence[TaskText] = TASKS) -> str:
    with pytest.raises(NotAdmitted, match="flywheel env probe marketplace") as raised:
        check_admitted(views(store), SITE, tasks)
    return str(raised.value)


def test_what_was_probed_and_admitted_may_be_used() -> None:
    store = a_store()
    position = admitted(store, SITE)
    check_admitted(views(store), SITE, TASKS)
    found = state(store)
    assert (found.admitted_since, found.rests_on, found.probed_since) == (position, 1, 1)
    assert (found.admitted_by, found.reason) == ("test", "a test needs it")


def test_what_was_never_probed_may_not() -> None:
    assert "it was never probed" in refusal(a_store())


def test_what_was_probed_alone_may_not() -> None:
    store = a_store()
    record(store, report(SITE), "test")
    assert "it was probed at position 1 and not admitted" in refusal(store)


def test_a_report_with_a_failure_admits_nothing_and_names_it() -> None:
    store = a_store()
    record(store, report(SITE, "failed"), "test")
    with pytest.raises(NotAdmitted, match="failed: null_agent"):
        admit(store, state(store), "test", "never mind")
    assert "position 1 failed: null_agent" in refusal(store)


def test_a_later_failure_ends_an_admission_and_a_later_pass_does_not_bring_it_back() -> None:
    store = a_store()
    admitted(store, SITE)
    record(store, report(SITE), "test")
    check_admitted(views(store), SITE, TASKS)
    record(store, report(SITE, "failed"), "test")
    assert "failed: null_agent" in refusal(store)
    record(store, report(SITE), "test")
    assert "probed at position 5 and not admitted" in refusal(store)
    admit(store, state(store), "test", "mended")
    check_admitted(views(store), SITE, TASKS)


def other(task: TaskText, **changes: str) -> tuple[TaskText, ...]:
    return tuple(each.model_copy(update=changes) if each == task else each for each in TASKS)


@pytest.mark.parametrize(
    "tasks",
    [
        TASKS[1:],
        other(TASKS[0], instruction="do something else"),
        other(TASKS[0], cluster="policy"),
        other(TASKS[0], task_id="marketplace.another"),
        (*TASKS, TASKS[0].model_copy(update={"task_id": "marketplace.further"})),
    ],
    ids=["one less", "instruction", "cluster", "id", "one more"],
)
def test_with_other_tasks_the_admission_has_lapsed(tasks: tuple[TaskText, ...]) -> None:
    store = a_store()
    position = admitted(store, SITE)
    assert f"admitted at position {position}" in refusal(store, tasks)


def test_the_order_in_which_a_site_lists_its_tasks_does_not_matter() -> None:
    assert tasks_digest(TASKS) == tasks_digest(tuple(reversed(TASKS)))


def test_one_probe_admits_once_and_for_one_reason() -> None:
    store = a_store()
    position = admitted(store, SITE)
    assert admit(store, state(store), "test", "a test needs it") == position
    assert store.head() == position
    with pytest.raises(AdmittedOtherwise, match=f"position {position}"):
        admit(store, state(store), "test", "another reason")


def test_another_environment_is_not_admitted_by_it() -> None:
    store = a_store()
    admitted(store, SITE)
    with pytest.raises(NotAdmitted, match="helpdesk is not admitted: it was never probed"):
        check_admitted(views(store), "helpdesk", known_sites()["helpdesk"].tasks)


def test_an_address_is_kept_without_what_may_be_secret_in_it() -> None:
    assert (
        without_secrets("https://ann:secret@site.example:8443/admin?token=abc#top") == "https://site.example:8443/admin"
    )


def test_probes_have_names_of_their_own_and_say_what_they_mean() -> None:
    assert len({probe.name for probe in PROBES}) == len(PROBES)
    assert all(probe.meaning for probe in PROBES)


@pytest.mark.parametrize(("problem", "outcome"), [(Failed, "failed"), (Skipped, "skipped")])
def test_a_result_is_one_short_line_without_the_ids_of_instances(problem: type[Exception], outcome: str) -> None:
    def ask(_: Target) -> str:
        raise problem("at /i/" + "0123456789abcdef" * 2 + "/boats\n" + "x" * 1_000)

    target = Target("site", None, lambda _: None, TASKS, "http://x", (0,), 0)  # type: ignore[arg-type, return-value]
    found = run_probe(EnvironmentProbe("p", "m", ask), target)
    assert found.outcome == outcome
    assert found.detail.startswith("at /i/…/boats x")
    assert len(found.detail) == 500
