"""What an agent that is not ours sees of Flywheel's own folders behind its fence, and what is said without one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from agents.envs.contract import Instance
from agents.executors.executor import Assignment
from agents.executors.outside import fence
from agents.executors.outside.agent_spec import read_agent
from agents.executors.outside.fence import fence_words, run_fence
from api.cli import agent_options
from api.settings import Settings
from api.sweeps.agents import without_model

NOWHERE = Instance.model_validate({"seed": 0, "instance": "nowhere", "url": None})
LOOK = """
import os

def look(task):
    for found, _, files in os.walk(os.environ["LOOK_IN"]):
        print(found, files)
"""


@pytest.mark.parametrize("agents_folder", ["agents", "srv/agents"])
def test_behind_a_fence_an_agent_sees_the_keys_of_no_project_also_if_they_were_made_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, agents_folder: str
) -> None:
    if not fence_words():
        pytest.skip("bubblewrap does not work here")
    folder, keys = tmp_path / agents_folder, tmp_path / "srv"
    folder.mkdir(parents=True)
    (folder / "looker.py").write_text(LOOK, "utf-8")
    monkeypatch.setenv("LOOK_IN", str(tmp_path))
    settings = Settings(home=tmp_path / "home", keys=keys, project="mine", agent_variables="LOOK_IN")
    executor = without_model(read_agent("python:looker:look", folder), settings)
    for made in (tmp_path / "home", keys / "mine", keys / "another"):
        made.mkdir(parents=True)
        (made / f"key of {made.name}").write_text("secret", "utf-8")
    seen = executor.execute(Assignment("Look.", (), 10), NOWHERE).taken[-1].text or ""
    assert "looker.py" in seen
    assert "key of home" not in seen
    assert "key of mine" not in seen
    assert "key of another" not in seen


def test_what_plays_is_not_hidden_with_the_keys_beside_it(tmp_path: Path) -> None:
    home, own, tools = tmp_path / "home", tmp_path / "keys" / "deep" / "agent", tmp_path / "keys" / "deep" / "other"
    for folder in (home, own / "inner", tools, tmp_path / "keys" / "mine"):
        folder.mkdir(parents=True)
    (tmp_path / "keys" / "link").symlink_to(home)
    keys, code = tmp_path / "keys", Path(fence.__file__).parents[3]
    words = run_fence(("bwrap", "--"), home, (keys, own, keys / "none", code), own)
    covered = [words[place + 1] for place, word in enumerate(words) if word == "--tmpfs"]
    assert covered == [str(tools), str(tmp_path / "keys" / "mine"), str(tmp_path)]


def said_of(agent: str, folder: Path, *, without_fence: bool) -> tuple[str, str]:
    """What is printed when an option names an agent, on standard output and as an error, with no bubblewrap if so."""
    root = Path(agent_options.__file__).parents[2]
    code = f"import sys; sys.path.insert(0, {str(root)!r})\nfrom api.cli.agent_options import Telling, named_agent\n"
    code += f"named_agent({agent!r}, Telling.TASK)"
    own = fence_words()[:1]
    hiding = (*own, "--dev-bind", "/", "/", "--ro-bind", "/dev/null", *own, "--") if own and without_fence else ()
    done = subprocess.run([*hiding, sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout, done.stderr


def test_it_is_said_once_what_an_agent_sees_where_there_is_no_fence(tmp_path: Path) -> None:
    (tmp_path / "looker.py").write_text(LOOK, "utf-8")
    printed, said = said_of("python:looker:look", tmp_path, without_fence=True)
    assert printed == ""
    assert len(said.splitlines()) == 1
    assert "the agent can read Flywheel's home, the keys of all projects" in said
    assert "apt-get install bubblewrap" in said
    if fence_words():
        assert said_of("python:looker:look", tmp_path, without_fence=False) == ("", "")
