"""The documentation as a site: built from docs/ and the code, searchable without a network, served at /help."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from fastapi.testclient import TestClient
from mkdocs.commands.build import build
from mkdocs.config import load_config

from api.app import create_app
from api.cli.commands import COMMANDS
from api.dashboard import application
from api.house import House
from eventlog.events import EVENT_TYPES

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "mkdocs.yml"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site."""
    folder = tmp_path_factory.mktemp("help")
    build(load_config(str(SOURCE), site_dir=str(folder)))
    return folder


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_site_holds_every_page_its_reference_and_an_index_to_search(site: Path) -> None:
    assert (site / "gate" / "index.html").exists()
    commands = (site / "reference-commands" / "index.html").read_text("utf-8")
    assert [name for name in COMMANDS if f"flywheel {name}" not in commands] == []
    events = (site / "reference-events" / "index.html").read_text("utf-8")
    assert [name for name in EVENT_TYPES if name not in events] == []
    assert "/v1/champion" in (site / "reference-endpoints" / "index.html").read_text("utf-8")
    index = json.loads((site / "search" / "search_index.json").read_text("utf-8"))
    assert any(each["location"].startswith("webhooks/") for each in index["docs"])
    assert not (site / "reference.py").exists()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_site_fetches_nothing_from_elsewhere(site: Path) -> None:
    fetched = re.compile(r"<(?:script|link|img|iframe)[^>]*(?:src|href)=\"(https?:[^\"]*)")
    found = {address for page in site.rglob("*.html") for address in fetched.findall(page.read_text("utf-8"))}
    assert found == set()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_server_shows_it_where_it_was_built(
    house: House, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(application, "HELP", site)
    with TestClient(create_app(house)) as browser:
        page = browser.get("/help/gate/")
        assert page.status_code == 200
        assert "object-src 'none'" in page.headers["content-security-policy"]
        assert browser.get("/help").status_code == 200
        assert browser.get("/help/../../settings.py").status_code == 404
    monkeypatch.setattr(application, "HELP", tmp_path / "none")
    with TestClient(create_app(house)) as browser:
        for path in ("/help", "/help/", "/help/gate/"):
            missing = browser.get(path)
            assert missing.status_code == 404
            assert "make docs" in missing.text
            assert missing.headers["content-security-policy"].startswith("default-src 'none'")


def test_the_navigation_names_every_guide_once() -> None:
    text = re.sub(r"!!python\S+", "", SOURCE.read_text("utf-8"))
    named = re.findall(r"[\w/-]+\.md", str(yaml.safe_load(text)["nav"]))
    assert len(named) == len(set(named))
    guides = {page.name for page in (ROOT / "docs").glob("*.md")}
    assert guides - set(named) == set()
