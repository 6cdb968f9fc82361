"""Launcher that becomes a command with more environment variables, given on standard input.

The first line is JSON, `{"variables": {...}, "command": [...]}`, so that no process list shows a token. The command
replaces this process and reads the lines after it.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Final

NOT_FOUND: Final = 127


def main() -> int:
    """Replace this process with the command; the exit status is 127 if there is no such program."""
    # Unbuffered, so that the lines after the first are left for the command.
    with open(0, "rb", buffering=0, closefd=False) as spoken:
        told = json.loads(spoken.readline())
    os.environ.update(told["variables"])
    try:
        os.execvp(told["command"][0], told["command"])  # noqa: S606 (the user's command, without a shell)
    except OSError as problem:
        sys.stderr.write(f"{told['command'][0]}: {problem.strerror}\n")
    return NOT_FOUND


if __name__ == "__main__":
    sys.exit(main())
