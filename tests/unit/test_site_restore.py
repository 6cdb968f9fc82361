"""An instance made again from its seed and its recorded changes is graded as the one that was played."""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter

from agents.envs.contract import INSTANCE_HEADER, Mutation
from agents.envs.provider import known_sites
from agents.executors.plan import execute
from benchmarks.base_rates import room_of
from benchmarks.shipped import PLANS

MUTATIONS = TypeAdapter(tuple[Mutation, ...])
SEEDS = (0, 3, 10_001)


@pytest.mark.parametrize("site", sorted(known_sites()))
def test_a_restored_instance_has_the_grades_and_the_fingerprint_of_the_one_that_was_played(site: str) -> None:
    kind, changes = known_sites()[site], 0
    with room_of(site) as room:
        for task in kind.tasks:
            for seed in SEEDS:
                made = room.client.post("/__env__/reset", json={"seed": seed, "repeat": 1}).json()
                named = {INSTANCE_HEADER: made["instance"]}
                with room.session(made["url"]) as session:
                    execute(PLANS[task.task_id], session, max_steps=40)
                told = room.client.get("/__env__/mutations", params={"since": 0}, headers=named).json()["mutations"]
                again = kind.restore(seed, MUTATIONS.validate_python(told))
                for each in kind.tasks:
                    graded = room.client.get("/__env__/oracle", params={"task_id": each.task_id}, headers=named).json()
                    found = again.grade(each.task_id)
                    assert (found.passed, list(found.reasons)) == (graded["passed"], graded["reasons"])
                state = room.client.get("/__env__/state", headers=named).json()
                assert again.fingerprint() == state["fingerprint"]
                assert dict(again.counts()) == state["counts"]
                changes += len(told)
    assert changes > len(kind.tasks)
