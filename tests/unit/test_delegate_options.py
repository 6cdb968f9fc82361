"""Options of `flywheel delegate` that are read from a text."""

from __future__ import annotations

import pytest
import typer

from api.cli.delegate_options import command_words, read_namespaces
from eventlog.events import ToolsConfig


def test_namespaces_are_read_with_what_each_may_import() -> None:
    assert read_namespaces(None) == ToolsConfig()
    found = read_namespaces("dynamic, fetch=network+compute, plain=")
    assert found.namespaces == ("dynamic", "fetch", "plain")
    assert found.namespace_capabilities == {"fetch": ("network", "compute"), "plain": ()}
    assert found.capabilities == ToolsConfig().capabilities


@pytest.mark.parametrize("given", ["", "web", "dynamic,shell=compute", "fetch=root", "Fetch", "a b", "=compute"])
def test_what_is_no_namespace_of_ones_own_is_refused(given: str) -> None:
    with pytest.raises(typer.BadParameter, match="--namespaces"):
        read_namespaces(given)


@pytest.mark.parametrize("given", ["", "  ", "'unclosed", "/no/such/program --flag", "no-such-program-here"])
def test_a_command_that_cannot_be_run_is_refused_before_a_loop_opens(given: str) -> None:
    with pytest.raises(typer.BadParameter, match="--grader"):
        command_words("--grader", given)
    assert command_words("--grader", "sh 'a file.sh'") == ("sh", "a file.sh")
