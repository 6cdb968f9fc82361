"""The roots have generic names: what is imported under them must be this repository's."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
ROOTS = ("eventlog", "projections", "agents", "trainer", "gate", "api", "migrations")
HEAVY = ("torch", "transformers", "trl", "peft", "vllm", "llama_cpp")


@pytest.mark.parametrize("root", ROOTS)
def test_a_root_is_this_repositorys(root: str) -> None:
    file = importlib.import_module(root).__file__
    assert file is not None
    assert Path(file) == REPOSITORY / root / "__init__.py"


@pytest.mark.parametrize(
    "module", ["api.cli.main", "api.app", "projections", "projections.datasets.plan_rows", "gate.judge"]
)
def test_starting_up_imports_no_heavy_library(module: str) -> None:
    program = f"import sys, {module}; print([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.returncode) == ("[]", 0), done.stderr
