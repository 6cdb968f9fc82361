"""A hint in other words than a step's, matched by an embedding model on the real site, and pinned with the model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agents.envs.clients.client import EnvClient
from agents.learning.errors import EmbeddingsMissing, EmbeddingsOther
from agents.learning.occasions import lesson_id
from agents.learning.piece_content import MEDIA_TYPE, content_bytes
from agents.rollouts.sweep import SeedSweep
from api.course import Course
from api.history.replay import replay_run
from api.history.whatif.compose import if_rule
from api.house import House
from api.sweeps.jobs import jobs_of
from api.sweeps.plan import first_facts, plan, site_templates
from api.sweeps.play import play_sweep
from eventlog.blobs import Blob
from eventlog.events import (
    HintRecorded,
    Occasion,
    PieceTried,
    PreferTarget,
    RunStarted,
    SeedsRule,
    SweepPlanned,
    Trials,
)
from eventlog.store import Append
from projections.pieces import HINTS
from tests.embedded import MEANINGS, make_model
from tests.golden.make import Quiet

TASK = "marketplace.engine_spec"
COURSE = Course(max_parallel=4, rule=SeedsRule(), kinds=frozenset({"hint"}))
EVERY_GROUP = Trials(treated_micro=1_000_000, withheld_micro=0)
OCCASION = Occasion(environment="marketplace", type="click", intent="seek motor facts", page="")
CHANGE = PreferTarget(label="Haul-out report")
HINT = lesson_id("hint", OCCASION, CHANGE)


@pytest.fixture(scope="module")
def client(marketplace: EnvClient) -> EnvClient:
    return marketplace


def embedding(house: House, folder: Path) -> House:
    return replace(house, settings=house.settings.model_copy(update={"embeddings": folder}))


def record(house: House) -> None:
    content = Blob(MEDIA_TYPE, content_bytes("motor facts", CHANGE))
    house.blobs.put([content])
    hint = HintRecorded(
        hint=HINT,
        occasion=OCCASION,
        content=content.digest,
        rule=SeedsRule(),
        run=None,
        source="imported",
        confidence=500_000,
    )
    house.store.append([Append(f"hint/{HINT}", (hint,), "person")])


def promote(house: House) -> None:
    """Further trials, as if it had been tried elsewhere."""
    for number in range(3):
        won = PieceTried(
            piece=HINT,
            kind="hint",
            run=f"elsewhere-{number}",
            control_runs=(),
            control_successes=0,
            won=True,
            withheld=False,
        )
        house.store.append([Append(f"hint/{HINT}", (won,), "person")])
    assert house.views().find(HINTS)[HINT].status == "promoted"


def swept(house: House, client: EnvClient, name: str, seeds: range, trials: Trials | None) -> SweepPlanned:
    tasks = tuple(each for each in site_templates(client) if each.template_id == TASK)
    generator = SeedSweep(name, tasks, seeds, 2)
    return plan(
        house, house.views(), "marketplace", generator, rng_seed=3, trials=trials, kinds=COURSE.kinds, forgetting=None
    )


def written(house: House, stream: str) -> dict[str, Any]:
    return next(house.store.read(stream=stream)).event.model_dump(mode="json")


def test_a_hint_in_other_words_is_tried_and_once_promoted_applied_by_the_model_that_its_sweeps_name(
    empty_house: House, client: EnvClient, tmp_path: Path
) -> None:
    plain, house = empty_house, embedding(empty_house, make_model(tmp_path / "one"))
    first_facts(plain)
    record(plain)
    _check_that_without_the_setting_it_is_found_nowhere(plain, client)

    sweep = swept(house, client, "tried", range(1), EVERY_GROUP)
    assert house.embeddings is not None
    assert written(house, "sweep/tried")["artifact"]["memory"]["embeddings"] == house.embeddings.digest
    assert [spec.candidate for spec in sweep.specs] == [None, HINT]
    play_sweep(house, client, sweep, COURSE, Quiet())
    promote(house)
    later = swept(house, client, "after", range(1, 2), None)
    play_sweep(house, client, later, COURSE, Quiet())
    for spec in (sweep.specs[1], *later.specs):
        started = next(house.store.read(stream=f"run/{spec.spec_id}")).event
        assert isinstance(started, RunStarted)
        assert started.artifact.memory.embeddings == house.embeddings.digest
        assert HINT in {item.piece for item in started.applied}
        assert (
            replay_run(house.store, house.blobs, house.views, spec.spec_id, house.embeddings_of).outcome == "identical"
        )
    assert if_rule(house.store, house.views, SeedsRule(), house.store.head()).is_empty
    _check_that_whoever_lacks_the_model_is_told(plain, later, tmp_path)


def _check_that_without_the_setting_it_is_found_nowhere(house: House, client: EnvClient) -> None:
    sweep = swept(house, client, "unset", range(10, 13), EVERY_GROUP)
    assert {spec.candidate for spec in sweep.specs} == {None}
    assert written(house, "sweep/unset")["artifact"]["memory"].keys() == {"upto", "folds", "without", "digest"}


def _check_that_whoever_lacks_the_model_is_told(plain: House, sweep: SweepPlanned, folder: Path) -> None:
    other = embedding(plain, make_model(folder / "two", {**MEANINGS, "boat": (1.0, 1.0)}))
    run = sweep.specs[0].spec_id
    for house, error in ((plain, EmbeddingsMissing), (other, EmbeddingsOther)):
        with pytest.raises(error, match=str(sweep.artifact.memory.embeddings)):
            replay_run(house.store, house.blobs, house.views, run, house.embeddings_of)
        with pytest.raises(error):
            jobs_of(house, house.views(), sweep, sweep.specs)
