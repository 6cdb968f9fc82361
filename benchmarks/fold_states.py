"""Speed of replacing one field of an immutable state: msgspec against pydantic (decision 4)."""

from __future__ import annotations

import msgspec
from pydantic import BaseModel, ConfigDict

from benchmarks.report import medians, report

N = 100_000


class Struct(msgspec.Struct, frozen=True):
    """A state as large as a run's, as a msgspec struct."""

    run: str = "r"
    sweep: str = "s"
    status: str = "started"
    steps: int = 0
    mutations: int = 0
    artifact: str = "base@0"


class Model(BaseModel):
    """The same state as a pydantic model."""

    model_config = ConfigDict(frozen=True)
    run: str = "r"
    sweep: str = "s"
    status: str = "started"
    steps: int = 0
    mutations: int = 0
    artifact: str = "base@0"


def structs() -> int:
    """Replace a field of a struct N times."""
    state = Struct()
    for _ in range(N):
        state = msgspec.structs.replace(state, steps=state.steps + 1)
    return state.steps


def models() -> int:
    """Replace a field of a model N times."""
    state = Model()
    for _ in range(N):
        state = state.model_copy(update={"steps": state.steps + 1})
    return state.steps


if __name__ == "__main__":
    rates = medians({"msgspec structs a second": structs, "pydantic models a second": models}, repeats=5)
    ratio = rates["msgspec structs a second"] / rates["pydantic models a second"]
    report("fold_states", {**rates, "ratio": ratio}, {})
