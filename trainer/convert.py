"""One conversion to GGUF as a process: `python -m trainer.convert BASE FORM OUT [CHECKPOINT DIGEST]`.

Without a checkpoint the base itself is converted. Standard output carries one JSON line, `saved` or `failed`; output of
libraries goes to standard error. Exit codes: 0 saved; 1 failed, nothing was written; 64 usage.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, cast, get_args

from eventlog.events.training import Form
from eventlog.weights_folder import read_base

from .checkpoint import load_checkpoint
from .export import export, export_base
from .process import own_output, run_and_report
from .start import Line

USAGE: Final = 64
_ALONE, _WITH_CHECKPOINT = 3, 5


def main(arguments: Sequence[str]) -> int:
    """Convert what the arguments name."""
    if len(arguments) not in {_ALONE, _WITH_CHECKPOINT} or arguments[1] not in get_args(Form):
        sys.stderr.write("usage: python -m trainer.convert BASE FORM OUT [CHECKPOINT DIGEST]\n")
        return USAGE
    with own_output() as lines:
        return run_and_report(lambda _emit: convert_weights(*arguments), lines)


def convert_weights(base: str, form: str, out: str, checkpoint: str | None = None, digest: str | None = None) -> Line:
    """Convert a base, or a checkpoint on it, to a file; the last line of the process. Raises as `export`."""
    found, place = read_base(Path(base)), Path(out)
    if checkpoint is None:
        export_base(found, cast("Form", form), place)
    else:
        export(load_checkpoint(Path(checkpoint), digest), found, cast("Form", form), place)
    return {"kind": "saved", "path": out}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
