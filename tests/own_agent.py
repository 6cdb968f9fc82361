"""The agent, the suite and the commands of docs/tutorial-own-agent.md, and a scripted model for them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.model_server import Asked, Reply
from tests.own_site import PORT, OwnSite, blocks

PAGE: Final = Path(__file__).parents[1] / "docs" / "tutorial-own-agent.md"

STAND_IN: Final = '''
"""What the page uses of the client of OpenAI, without the second that importing it costs each of some hundred runs."""

import json
from types import SimpleNamespace
from urllib.request import Request, urlopen


class OpenAI:
    def __init__(self, base_url, api_key):
        self.base_url, self.api_key = base_url, api_key
        self.chat = SimpleNamespace(completions=self)

    def create(self, **body):
        headers = {"Authorization": f"Bearer {self.api_key}", "Content-Type": "application/json"}
        asked = Request(f"{self.base_url}/chat/completions", json.dumps(body).encode(), headers)
        with urlopen(asked) as answer:
            return json.load(answer, object_hook=lambda found: SimpleNamespace(**found))
'''


DEAF: Final = """
import re
from urllib.parse import urljoin
from urllib.request import urlopen

from openai import OpenAI


def play(task):
    client, page = OpenAI(base_url=task.model.openai_base_url, api_key=task.model.key), task.url
    for _ in range(4):
        text = urlopen(page).read().decode()
        if "<button>Buy" in text:
            urlopen(page, b"")
            return task.step("submit", label="Buy")
        links = {name: urljoin(page, to) for to, name in re.findall(r'<a href="(.*?)">(.*?)</a>', text)}
        message = {"role": "user", "content": f"{task.instruction}\\nLinks: {list(links)}\\nAnswer with one link."}
        drawn = {"seed": task.seed, "temperature": task.temperature}
        answer = client.chat.completions.create(model=task.model.name, messages=[message], **drawn)
        name = answer.choices[0].message.content
        task.step("click", label=name, outcome="ok" if name in links else "no_such_link")
        page = links.get(name, page)
"""
"""The agent of the page without a word about advice: it never reads any."""


def write_own_agent(folder: Path, *, has_client: bool) -> None:
    """Write the page's files into a folder; without the client, a module stands in for it."""
    (folder / "agent.py").write_text(blocks("python", PAGE)[0], "utf-8")
    (folder / "tasks.toml").write_text(blocks("toml", PAGE)[0], "utf-8")
    if not has_client:
        (folder / "openai.py").write_text(STAND_IN, "utf-8")


def commands(site: OwnSite) -> list[list[str]]:
    """The words of the commands of the page that Flywheel runs, in order, with the site's own port."""
    lines = (line for block in blocks("sh", PAGE) for line in block.splitlines())
    return [shlex.split(line.replace(PORT, site.port))[1:] for line in lines if line.startswith("flywheel ")]


def choose_link(asked: Asked) -> Reply:
    """A model that follows the link that notes quote, where there is one; else it guesses by its seed."""
    seed: int = asked.body.get("seed", 0)  # the first question has none
    notes, _, links = asked.text.partition("Links: ")
    names: list[str] = re.findall(r"'([^']+)'", links)
    quoted = [name for name in names if f"'{name}'" in notes]
    if quoted:
        return quoted[0]
    is_front = "About us" in names
    return names[seed % len(names) if is_front else 0] if names else "nothing"


def model_settings(url: str) -> Mapping[str, str]:
    """The variables that name the model server."""
    return {"FLYWHEEL_MODEL": "my-model", "FLYWHEEL_MODEL_URL": url}
