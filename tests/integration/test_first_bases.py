"""Whose words the tokenizer of a first base is made of: those of the demonstrations that are imitated."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from api.history.erase import STREAM
from api.history.withdraw import withdraw_runs
from api.house import House
from api.training.first_bases import first_base
from eventlog.errors import BytesRemain
from eventlog.events import Spec, SubjectErased, SweepPlanned
from eventlog.store import Append
from projections.runs import DEMONSTRATION
from tests.golden.test_golden_samples import sample
from tests.learned import with_models
from tests.unit.test_policy_samples import MICRO, PolicyCall, PolicyRun, play
from trainer.tiny import Shape, make_tiny

pytestmark = [
    pytest.mark.timeout(300),  # the first to run imports what training needs
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

SHAPE = Shape(vocabulary=400, hidden=32, layers=1, heads=2, key_heads=1, inner=48, longest=64)


def demonstration(index: int, told: str, score: int = MICRO, subject: str | None = None) -> PolicyRun:
    call = PolicyCall(prompt=None, ids=None, logprobs=None, said=(told,))
    run = PolicyRun(f"r{index}", score, group=f"g{index}", calls=(call,), executor=DEMONSTRATION, subject=subject)
    return replace(run, env_seed=index)


def planned(runs: tuple[PolicyRun, ...]) -> SweepPlanned:
    specs = [
        Spec(
            spec_id=run.run,
            template=run.template,
            env_seed=run.env_seed,
            group_id=run.group,
            sibling_index=0,
            sweep=run.sweep,
            candidate=None,
            withheld=None,
        )
        for run in runs
    ]
    shown = sample("SweepPlanned", sweep="s", specs=[spec.model_dump(mode="json") for spec in specs])
    assert isinstance(shown, SweepPlanned)
    return shown


def test_only_demonstrations_that_passed_and_count_shape_the_tokenizer(empty_house: House, tmp_path: Path) -> None:
    house = with_models(empty_house, tmp_path / "models")
    imitated = ("open the boats page", "open the prices page", "open the page of phones")
    runs = (
        *(demonstration(index, told) for index, told in enumerate(imitated)),
        demonstration(3, "zzzz zzzz zzzz failing failing", score=0),
        demonstration(4, "yyyy yyyy yyyy withdrawn withdrawn"),
        demonstration(5, "xxxx xxxx xxxx erased erased", subject="ann"),
    )
    for run in runs:
        play(house.store, house.blobs, run)
    shown = planned(runs)
    whole = first_base(house, shown, SHAPE)
    withdraw_runs(house.store, ["r4"], "shown in error", "test")
    with suppress(BytesRemain):  # the key is gone, whoever may remove the bytes
        house.blobs.erase("ann")
    house.store.append([Append(STREAM, (SubjectErased(subject="ann", reason="asked"),), "test")])
    left = first_base(house, shown, SHAPE)

    def made_of(*texts: str) -> str:
        return make_tiny(tmp_path / "expected", texts, SHAPE, shown.rng_seed).digest

    assert whole.digest == made_of(*imitated, runs[4].calls[0].said[0], runs[5].calls[0].said[0])
    assert left.digest == made_of(*imitated)
    assert len({whole.digest, left.digest, made_of(*(run.calls[0].said[0] for run in runs))}) == 3
