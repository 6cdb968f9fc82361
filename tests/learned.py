"""A log whose policy's runs a tiny base model drew, so that it can be trained on what they said."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from api.datasets import freeze
from api.house import House
from api.queries.datasets import find_dataset
from eventlog.events import Query
from eventlog.weights_folder import Base
from projections.frozen_datasets import DatasetState
from tests.tiny import Row, sampled
from tests.unit.test_policy_samples import PolicyCall, PolicyRun, play

OBSERVED = slice(2, 4)
"""Which tokens of a sampled row the environment said."""


def play_sampled(house: House, base: Base, sizes: Sequence[int], seed: int = 7) -> None:
    """Record groups of these sizes that the base itself drew, two calls a run; the first of each group passed."""
    for index, row in enumerate(sampled(base, sizes, seed)):
        calls = tuple(
            PolicyCall(
                prompt=[*row["prompt_ids"], *row["completion_ids"][:start]],
                ids=row["completion_ids"][start:end],
                logprobs=row["logprobs"][start:end],
                said=said,
                tokenizer=base.tokenizer,
                template=base.chat_template,
                model="tiny",
            )
            for start, end, said in (
                (0, OBSERVED.start, ("the task",)),
                (OBSERVED.stop, len(row["completion_ids"]), ("the task", "an answer", "a page")),
            )
        )
        play(house.store, house.blobs, _run(row, index, calls))


def _run(row: Row, index: int, calls: tuple[PolicyCall, ...]) -> PolicyRun:
    score = int(row["reward"])
    run = PolicyRun(row["run"], score, group=row["group"], index=int(row["run"].rpartition("s")[2]), calls=calls)
    return replace(run, value=score, shaped=score, env_seed=index)


def frozen(house: House, query: Query) -> DatasetState:
    """A dataset of the log as it is now."""
    digest = freeze.freeze_dataset(
        house.store, freeze.build_dataset(house.store, house.blobs, house.views(), query), "test"
    )
    return find_dataset(house.views(), digest)


def with_models(house: House, folder: Path) -> House:
    """The same house with a folder for weights."""
    return replace(house, settings=house.settings.model_copy(update={"models": folder, "home": folder}))


@dataclass(frozen=True)
class Attempt:
    """What somebody who may only read came to."""

    code: int
    said: str


def as_executor(program: str, *arguments: str) -> Attempt:
    """Run a Python program as an executor's role: where this is root, as a user with no rights of its own."""
    drop = "import os; os.getuid() or (os.setgroups([]), os.setgid(65534), os.setuid(65534))\n"
    done = subprocess.run(
        [sys.executable, "-I", "-c", drop + program, *arguments], capture_output=True, text=True, check=False
    )
    return Attempt(done.returncode, done.stderr)
