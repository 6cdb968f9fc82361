"""Client of the process that searches by the `gepa` library: it asks for runs and for texts, and ends with the best."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Final

from .local import Reflector
from .suite import Budget, Player, Spent, propose

ENVIRONMENT: Final = Path(__file__).parents[2] / ".gepa-venv"
PROGRAM: Final = Path(__file__).with_name("peer_process.py")
MISSING: Final = "the library is not installed; `make bench-instruction` installs it where it can"
MINIBATCH: Final = 3
"""Instances on which a successor has to do better than its parent: the library's default."""


def library_version(python: Path) -> str:
    """The library's name and version."""
    code = "from importlib.metadata import version; print('gepa', version('gepa'))"
    return subprocess.run([python, "-c", code], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def spent_by(player: Player, reflect: Reflector | None) -> Spent:
    """What a search used: with a reflector the runs, and its own calls and tokens alone."""
    return player.spent if reflect is None else replace(reflect.spent, runs=player.spent.runs)


def search_by_peer(
    python: Path,
    player: Player,
    seed: int,
    budget: Budget,
    instances: int,
    val: int,
    reflect: Reflector | None = None,
) -> str:
    """The best instruction that the library finds within a budget on so many training instances.

    `val` of them are its validation set. It writes its own prompts, which `reflect` answers; None: the scripted
    reflector proposes, and its proposals are counted as calls. Between two of its steps it asks whether anything is
    left of the budget. Raises RuntimeError if it ends early.
    """
    seeds, number = list(range(1, instances + 1)), 0
    asked: dict[str, object] = {
        "train": seeds[val:],
        "val": seeds[:val],
        "runs": budget.most if budget.of == "runs" else None,
        "seed": seed,
        "minibatch": MINIBATCH,
    }
    asked["reflects"] = reflect is not None
    with subprocess.Popen(
        [python, PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as process:
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("the process of the library was started without pipes")
        process.stdin.write(json.dumps(asked) + "\n")
        for line in process.stdout:
            question = json.loads(line)
            if "best" in question:
                return str(question["best"])
            if "left" in question:
                answer: object = budget.left(spent_by(player, reflect)) > 0
            elif "play" in question:
                played = player.watch(question["play"], question["seeds"])
                answer = [{"score": float(each.passed), "did": each.did} for each in played]
            elif reflect is not None:
                answer = reflect(str(question["complete"]))
            else:
                text = str(question["propose"])
                answer = propose(player.desk, seed, number, text)
                number += 1
                player.spent.calls += 1
                player.spent.tokens += len(str(answer).encode())
            process.stdin.write(json.dumps(answer) + "\n")
    raise RuntimeError("the process of the library ended; see its error above")
