"""Bytes on disk: the benchmark of the blobs, run as a program, its figures beside these."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from typing import Any

from benchmarks.report import Target

_MODULE = "benchmarks.blobs"
_MISSING = "there is no benchmark of the blobs yet"


def bytes_on_disk() -> tuple[dict[str, float], dict[str, Target], dict[str, str]]:
    """Figures and targets as that program gave them; and what was left out."""
    if importlib.util.find_spec(_MODULE) is None:
        return {}, {}, {"bytes on disk": _MISSING}
    done = subprocess.run([sys.executable, "-m", _MODULE], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return {}, {}, {"bytes on disk": f"it ended with {done.returncode}: {done.stderr.strip()[-200:]}"}
    found = json.loads(done.stdout.splitlines()[-1])
    prefix = "bytes on disk: "
    figures = {prefix + name: float(value) for name, value in found["figures"].items()}
    return figures, {prefix + name: _target(bound) for name, bound in found["targets"].items()}, {}


def _target(bound: Any) -> Target:
    if "at_most" in bound:
        return Target(bound["at_most"], is_ceiling=True)
    return Target(bound["at_least"])
