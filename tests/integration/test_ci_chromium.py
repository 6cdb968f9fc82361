"""`.ci/chromium` on machines that a test makes up: what is on the PATH, who runs it, what was asked of apt-get."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / ".ci" / "chromium"
BASH = shutil.which("bash")
ASKED = ["update -q", "install -q -y --no-install-recommends chromium-headless-shell fonts-dejavu-core"]


@dataclass(frozen=True)
class Machine:
    """A folder that is all of the PATH."""

    path: Path

    def has(self, name: str, *lines: str) -> None:
        """Put a program there."""
        program = self.path / name
        program.write_text("\n".join((f"#!{BASH}", *lines, "")))
        program.chmod(0o755)

    def has_apt(self, *, fails_at: str = "nothing") -> None:
        """Put an apt-get there that notes what it is asked for, and installs."""
        self.has(
            "apt-get",
            f'echo "$*" >> {self.path}/asked',
            f'[ "$1" != {fails_at} ] || exit 100',
            f'[ "$1" != install ] || {{ echo "#!{BASH}" > {self.path}/chromium-headless-shell; '
            f"{shutil.which('chmod')} +x {self.path}/chromium-headless-shell; }}",
        )

    def asked(self) -> list[str]:
        """What apt-get was asked for."""
        noted = self.path / "asked"
        return noted.read_text().splitlines() if noted.exists() else []

    def run(self, **more: str) -> str:
        """What the script says; it always ends well, for the other tests go on without a browser."""
        assert BASH is not None
        done = subprocess.run(
            [BASH, SCRIPT], env={"PATH": str(self.path), **more}, capture_output=True, text=True, check=True
        )
        assert done.stderr == ""
        return done.stdout


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    made = Machine(tmp_path)
    made.has("id", "echo 0")
    return made


def test_on_a_bare_machine_it_is_installed_and_the_next_time_found(machine: Machine) -> None:
    machine.has_apt()
    assert machine.run() == ""
    assert machine.asked() == ASKED
    assert (machine.path / "chromium-headless-shell").exists()
    assert machine.run() == ""
    assert machine.asked() == ASKED


@pytest.mark.parametrize("name", ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"])
def test_what_is_there_is_left_as_it_is(machine: Machine, name: str) -> None:
    machine.has_apt()
    machine.has(name)
    assert (machine.run(), machine.asked()) == ("", [])


def test_one_that_was_named_is_left_as_it_is(machine: Machine) -> None:
    machine.has_apt()
    assert (machine.run(FLYWHEEL_CHROMIUM="/opt/chrome"), machine.asked()) == ("", [])


@pytest.mark.parametrize(("fails_at", "asked"), [("update", 1), ("install", 2)])
def test_where_it_cannot_be_installed_the_others_go_on(machine: Machine, fails_at: str, asked: int) -> None:
    machine.has_apt(fails_at=fails_at)
    assert machine.run() == "Chromium could not be installed: tests in a browser are left out\n"
    assert machine.asked() == ASKED[:asked]


def test_who_is_not_root_installs_nothing(machine: Machine) -> None:
    machine.has_apt()
    machine.has("id", "echo 1000")
    assert machine.run().startswith("there is no Chromium, and installing it takes root and apt-get")
    assert machine.asked() == []


def test_without_apt_get_it_is_said(machine: Machine) -> None:
    assert machine.run().startswith("there is no Chromium, and installing it takes root and apt-get")
