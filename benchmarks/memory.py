"""Peak memory of this process."""

from __future__ import annotations

import resource
import sys
from pathlib import Path


def peak_mib() -> float:
    """Peak memory of this program in MiB; on Linux `ru_maxrss` would include the parent's memory before the exec."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text(encoding="ascii").splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) / 1024
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform == "darwin" else 1)
    return kilobytes / 1024
