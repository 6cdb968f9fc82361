"""Becoming a command with more environment variables: a program of its own, told by standard input.

The first line is JSON, `{"variables": {...}, "command": [...]}`, so that no list of processes shows a token. The
command replaces this process and reads what comes after that line.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Final

NOT_FOUND: Final = 127


def main() -> int:
    """Become the command; the exit status is 127 where there is no such program."""
    # Unbuffered: what comes after the line is the command's to read.
    with open(0, "rb", buffering=0, closefd=False) as spoken:
        told = json.loads(spoken.readline())
    os.environ.update(told["variables"])
    try:
        os.execvp(told["command"][0], told["command"])  # noqa: S606 (what the user named, without a shell)
    except OSError as problem:
        sys.stderr.write(f"{told['command'][0]}: {problem.strerror}\n")
    return NOT_FOUND


if __name__ == "__main__":
    sys.exit(main())
