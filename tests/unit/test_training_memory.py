"""How many rows go through the model at once: equal passes that fit, and what is said where a process ran out."""

from __future__ import annotations

import signal
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.training import stage_process
from trainer.memory import Sizes, bytes_per_row, free_bytes, plan_pass
from trainer.shares import Shares

SMOLLM2 = Sizes(layers=30, hidden=576, inner=1536, heads=9, vocabulary=49152)
GIB = 1 << 30


@given(st.integers(1, 64), st.none() | st.integers(1, 64), st.none() | st.integers(0, 1000), st.integers(0, 63))
def test_passes_are_equal_and_as_large_as_fit(step: int, asked: int | None, available: int | None, last: int) -> None:
    last = last % step
    plan = plan_pass(10, step, asked, available, last)
    assert plan.rows >= 1
    assert step % plan.rows == 0
    assert plan.rows == step or last % plan.rows == 0
    assert plan.rows <= (step if asked is None else max(1, asked))
    assert plan.needs == 10 * plan.rows
    if available is not None and plan.rows > 1:
        assert plan.needs <= available
    if asked is None and available is None:
        assert plan.rows == step


def test_the_defaults_on_a_real_model_do_not_fit_into_24_gib_at_once() -> None:
    """SFT of SmolLM2 with 16 rows of about 700 tokens was killed there; two rows a pass trained."""
    per_row = bytes_per_row(SMOLLM2, 733, is_checkpointed=False)
    assert per_row * 16 > 20 * GIB
    plan = plan_pass(per_row, 16, None, 20 * GIB)
    assert 2 <= plan.rows < 16
    assert bytes_per_row(SMOLLM2, 733, is_checkpointed=True) < per_row / 2


def test_free_memory_is_read_here() -> None:
    free = free_bytes(cast("Any", SimpleNamespace(is_cuda=False)))
    assert free is not None
    assert 0 < free < 1 << 50


def test_processes_get_their_rows_in_pieces() -> None:
    device = cast("Any", SimpleNamespace(processes=2, rank=1))
    shares = Shares(cast("Any", range(20)), 8, device, 2)
    assert list(shares) == [[4, 5], [6, 7], [12, 13], [14, 15], [18, 19]]
    assert len(shares) == 5


KILLED = "ProcessOutOfMemory"


@pytest.mark.parametrize(
    ("code", "said", "kills", "error"),
    [
        (-signal.SIGKILL, "many warnings", (3, 4), KILLED),
        (-signal.SIGKILL, "many warnings", (3, 3), "ProcessEnded"),
        (-signal.SIGKILL, "", (None, None), "ProcessEnded"),
        (1, "warning\nRuntimeError: [enforce fail] can't allocate memory: you tried", (0, 0), KILLED),
        (1, "torch.OutOfMemoryError: CUDA out of memory.", (0, 0), KILLED),
        (1, "ValueError: no", (0, 1), "ProcessEnded"),
    ],
)
def test_a_process_without_a_last_line_is_reported_by_its_cause(
    monkeypatch: pytest.MonkeyPatch, code: int, said: str, kills: tuple[int | None, int | None], error: str
) -> None:
    before, after = kills
    monkeypatch.setattr(stage_process, "_count_kills", lambda: after)
    line = stage_process._last_line(code, said, "it had planned 16 rows a pass", before)
    assert (line["kind"], line["error"]) == ("failed", error)
    assert said in line["message"]
    if error == KILLED:
        assert "--rows-per-pass 1" in line["message"]
    if code == -signal.SIGKILL:
        assert "16 rows a pass" in line["message"]
        assert "signal 9" in line["message"]
