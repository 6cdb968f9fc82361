"""The agent that `--agent` names: a function of Python or a command, and the digest by which its runs are known.

The digest covers the text of the option and the content of the files that it names. What these files import or start
is not covered.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
import shlex
import shutil
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from projections.runs import AGENT

from .errors import AgentChanged, BadAgent

PROXY: Final = "advice=proxy "
"""Begins the recorded text of an agent whose advice goes into the requests to its model."""

PYTHON: Final = "python:"
COMMAND: Final = "command:"
LONGEST: Final = 160
"""Most characters of the option, because sweeps record it with the names before it."""

LONGEST_RECORDED: Final = 200
"""Most characters of the option with the name of its model before it, and PROXY."""

_FORMS: Final = "python:MODULE:FUNCTION or command:PROGRAM ARGUMENTS"
_TASK_PROGRAM: Final = Path(__file__).with_name("task.py")
_MODEL: Final = re.compile(r"(?!python:|command:|advice=)\S+(?= (advice=proxy )?(python|command):)")
_DOTTED: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


@dataclass(frozen=True, slots=True)
class AgentSpec:
    """An agent as it was named: `words` start it in `folder`, `files` are those that its digest covers.

    Of an agent told `by_proxy` the text says so, and with it the digest.
    """

    text: str
    words: tuple[str, ...]
    folder: Path
    files: tuple[Path, ...]
    digest: str
    by_proxy: bool = False

    @property
    def recorded_name(self) -> str:
        """Name by which sweeps and evaluations record the agent; another agent has another name."""
        return f"{AGENT}:{self.digest[:12]}"

    def with_model(self, name: str) -> AgentSpec:
        """The agent before a model, which is another agent than the same before another model.

        The model is at a server, or a base in this process.
        """
        text = f"{_short(name, LONGEST_RECORDED - 1 - len(self.text))} {self.text}"
        return replace(self, text=text, digest=_digest(text, self.files))

    def refuse_changed(self) -> None:
        """Raise AgentChanged if a file has other content than when the agent was read."""
        if _digest(self.text, self.files) != self.digest:
            raise AgentChanged(agent=self.text)


def read_agent(text: str, folder: Path, *, by_proxy: bool = False) -> AgentSpec:
    """The agent that an option names, seen from a folder. Nothing of it is run. Raises BadAgent."""
    if len(text) > LONGEST:
        raise BadAgent(actual=f"{text[:40]}…", problem=f"it has {len(text)} characters", expected=f"at most {LONGEST}")
    if text.startswith(PYTHON):
        words, files = _function(text, folder)
    elif text.startswith(COMMAND):
        words, files = _command(text, folder)
    else:
        raise BadAgent(actual=text, problem="it says neither python nor command", expected=_FORMS)
    recorded = f"{PROXY}{text}" if by_proxy else text
    return AgentSpec(recorded, words, folder, files, _digest(recorded, files), by_proxy)


def agent_options(recorded: str) -> str:
    """The options that name an agent, from its recorded text."""
    own = recorded.removeprefix(model_in(recorded)).removeprefix(" ")
    named = f"--agent {shlex.quote(own.removeprefix(PROXY))}"
    return f"{named} --advice proxy" if own.startswith(PROXY) else named


def model_in(recorded: str) -> str:
    """The name of the model that an agent was before, from its recorded text; empty if none."""
    found = _MODEL.match(recorded)
    return "" if found is None else found[0]


def _short(name: str, room: int) -> str:
    """A name as one word of at most so many characters. If it had to be changed, it ends in the digest of the name."""
    word = "_".join(name.split())
    digest = hashlib.sha256(name.encode()).hexdigest()[:12]
    return name if word == name and len(name) <= room else f"{word[: room - 13]}~{digest}"


def _function(text: str, folder: Path) -> tuple[tuple[str, ...], tuple[Path, ...]]:
    module, colon, function = text.removeprefix(PYTHON).partition(":")
    if not colon or not _DOTTED.fullmatch(module) or not function.isidentifier():
        raise BadAgent(actual=text, problem="that is no module and function", expected="python:MODULE:FUNCTION")
    source = _source_of(module, folder)
    if source is None:
        raise BadAgent(actual=text, problem=f"there is no module {module!r} in {folder}", expected="a file of Python")
    if function not in _names_in(text, source):
        raise BadAgent(actual=text, problem=f"{source} defines no {function!r}", expected="a function of one argument")
    return (sys.executable, str(_TASK_PROGRAM), module, function), (source,)


def _source_of(module: str, folder: Path) -> Path | None:
    """The module's file in the folder, else on the path of this interpreter. No package is imported."""
    parts = module.split(".")
    for root in (folder, *(Path(entry) for entry in sys.path if entry)):
        for found in (root.joinpath(*parts).with_suffix(".py"), root.joinpath(*parts, "__init__.py")):
            if found.is_file():
                return found
    return None


def _names_in(text: str, source: Path) -> set[str]:
    """Names that a file of Python defines or imports at its top level. Raises BadAgent."""
    try:
        tree = ast.parse(source.read_bytes())
    except (SyntaxError, ValueError) as problem:
        raise BadAgent(actual=text, problem=f"{source} is no Python ({problem})", expected="a module") from problem
    found: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return found


def _command(text: str, folder: Path) -> tuple[tuple[str, ...], tuple[Path, ...]]:
    try:
        words = tuple(shlex.split(text.removeprefix(COMMAND)))
    except ValueError as problem:
        raise BadAgent(actual=text, problem=f"its quotes do not match ({problem})", expected="a command") from problem
    if not words:
        raise BadAgent(actual=text, problem="it names no program", expected=_FORMS)
    own = folder / words[0]
    program = str(own) if "/" in words[0] and own.is_file() else shutil.which(words[0])
    if program is None:
        raise BadAgent(actual=text, problem=f"there is no program {words[0]!r}", expected="one that is installed")
    named = [folder / word for word in words[1:] if (folder / word).is_file()]
    files = tuple([own] if "/" in words[0] else []) + tuple(named)
    return (program, *words[1:]), files


def _digest(text: str, files: tuple[Path, ...]) -> str:
    content = [text, *(_content_digest(file) for file in files)]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def _content_digest(file: Path) -> str:
    """SHA-256 of a file; of nothing if it is gone."""
    try:
        with file.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError:
        return ""
