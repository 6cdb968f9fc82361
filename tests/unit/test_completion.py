"""Shells complete commands and options, also of commands that are imported when they are called."""

from __future__ import annotations

import subprocess

import pytest

from api.cli.commands import COMMANDS, every_command
from api.cli.completion import VARIABLE
from api.cli.main import run_command


def complete(line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What bash is told to offer for the last word of a line."""
    monkeypatch.setenv(VARIABLE, "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
    with pytest.raises(SystemExit):
        every_command().main(args=[], prog_name="flywheel", standalone_mode=False)
    return capsys.readouterr().out.split()


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("flywheel champ", ["champion"]),
        ("flywheel champion ", ["show", "history", "point", "back", "mirror"]),
        ("flywheel champion back --wi", ["--withdraw-tainted"]),
        ("flywheel serve --tls-", ["--tls-certificate", "--tls-key"]),
        ("flywheel completion z", ["zsh"]),
    ],
)
def test_words_are_completed(
    line: str, offered: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert complete(line, monkeypatch, capsys) == offered


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_calls_flywheel(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert VARIABLE in script
    assert "flywheel" in script
    if shell == "bash":
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)


def test_a_shell_that_is_not_known_is_a_usage_error() -> None:
    assert run_command(["completion", "tcsh"]) == 64
    assert "completion" in COMMANDS
