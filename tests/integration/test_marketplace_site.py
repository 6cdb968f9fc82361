"""Harbourline as a process: whole tasks done by visible words only, and how the process ends."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urljoin

import httpx2
import pytest
from lxml import html

from agents.envs import provider
from agents.envs.clients.client import EnvClient
from agents.envs.clients.mutations import fetch_mutations, last_mutation_id
from agents.envs.contract import Graded, Instance
from agents.envs.errors import EnvironmentDown, SiteDied, SiteNotReady, SitePortInUse, UnknownSite
from agents.envs.provider import Site, local_site
from tests.sites import SharedSite

ROOT = Path(__file__).resolve().parents[2]
LEAD = "marketplace.lead_filtered_search"
PHONE = "marketplace.phone_reveal"
REQUEST = {"Your name": "Alex Morgan", "Email": "alex.morgan@example.com", "Message": "Is it still available?"}


class Surfer:
    """Follows links by their text and fills forms by their labels, as a person would."""

    def __init__(self, web: httpx2.Client, instance: Instance) -> None:
        self.web = web
        self.root = instance.url
        self.open(instance.url)

    def open(self, address: str) -> None:
        self._show(self.web.get(urljoin(self.url, address) if hasattr(self, "url") else address))

    def _show(self, answer: httpx2.Response) -> None:
        self.status = answer.status_code
        self.url = str(answer.url)
        self.page = html.document_fromstring(answer.text)
        self.page.make_links_absolute(self.url)

    def follow(self, words: str) -> None:
        links = [link for link in self.page.iter("a") if link.text_content().strip() == words]
        self.open(str(links[0].get("href")))

    def open_first_result(self) -> None:
        self.open(str(self.page.xpath("//ol[@aria-label='Results']/li[1]/a/@href")[0]))

    def press(self, button: str, fields: dict[str, str] | None = None) -> None:
        form = next(form for form in self.page.forms if f"{button}" in form.xpath(".//button/text()"))
        for label, value in (fields or {}).items():
            self._fill(form, label, value)
        data = {str(name): str(value) for name, value in form.form_values()}
        if form.method == "GET":
            self._show(self.web.get(str(form.action), params=data))
        else:
            self._show(self.web.post(str(form.action), data=data))

    def _fill(self, form: html.FormElement, label: str, value: str) -> None:
        identity = form.xpath(f".//label[text()='{label}']/@for")[0]
        field = form.xpath(f".//*[@id='{identity}']")[0]
        if field.tag == "select":
            value = str(field.xpath(f"./option[text()='{value}']/@value")[0])
        field.value = value


@pytest.fixture(scope="module")
def site(shared_site: SharedSite) -> Site:
    return shared_site("marketplace")


@pytest.fixture(scope="module")
def env(site: Site) -> Iterator[EnvClient]:
    with EnvClient(site.admin_url, site.admin_token) as client:
        yield client


@pytest.fixture(scope="module")
def web() -> Iterator[httpx2.Client]:
    with httpx2.Client(trust_env=False, follow_redirects=True) as client:
        yield client


def search(surfer: Surfer, filters: dict[str, str]) -> None:
    surfer.follow("Boats for sale")
    surfer.press("Search", {**filters, "Sort by": "Price: low to high"})
    surfer.open_first_result()


def do_lead(web: httpx2.Client, instance: Instance) -> None:
    surfer = Surfer(web, instance)
    search(surfer, {"Make": "Bayliner", "Seller": "Private owner", "Maximum price": "40000"})
    surfer.press("Request details", REQUEST)
    assert surfer.page.xpath("//h1/text()") == ["Thank you"]


def do_phone(web: httpx2.Client, instance: Instance) -> None:
    surfer = Surfer(web, instance)
    search(surfer, {"Make": "Sea Ray", "State": "Florida", "Seller": "Private owner"})
    surfer.press("Show phone number")
    assert "Phone number:" in surfer.page.text_content()


def passes(graded: Graded) -> bool:
    return graded.passed and graded.score_micro == 1_000_000 and not graded.reasons


@pytest.mark.parametrize("seed", [*range(8), *range(10_000, 10_008)])
def test_both_tasks_can_be_done_by_visible_words_in_every_family(env: EnvClient, web: httpx2.Client, seed: int) -> None:
    lead, phone = env.reset(seed), env.reset(seed)
    do_lead(web, lead)
    do_phone(web, phone)
    assert passes(env.oracle(lead, LEAD))
    assert passes(env.oracle(phone, PHONE))
    assert not env.oracle(lead, PHONE).passed
    assert not env.oracle(phone, LEAD).passed


def test_the_literal_path_works_in_some_instances_and_is_missing_in_others(env: EnvClient, web: httpx2.Client) -> None:
    found = {seed: Surfer(web, env.reset(seed)) for seed in range(40)}
    for surfer in found.values():
        surfer.open("boats")
    canonical = [surfer for surfer in found.values() if surfer.status == 200]
    drifted = [surfer for surfer in found.values() if surfer.status == 404]
    assert (len(canonical), len(drifted)) == (10, 30)
    drifted[0].follow("Boats for sale")
    assert drifted[0].status == 200
    assert drifted[0].page.xpath("//h1/text()") == ["Boats for sale"]


def test_skipping_a_filter_fails(env: EnvClient, web: httpx2.Client) -> None:
    for skipped in ("Make", "Seller"):
        instance = env.reset(21)
        surfer = Surfer(web, instance)
        filters = {"Make": "Bayliner", "Seller": "Private owner", "Maximum price": "40000"}
        search(surfer, {name: value for name, value in filters.items() if name != skipped})
        surfer.press("Request details", REQUEST)
        graded = env.oracle(instance, LEAD)
        assert (graded.passed, graded.score_micro) == (False, 0)


def test_turning_pages_shows_every_boat_once(env: EnvClient, web: httpx2.Client) -> None:
    surfer = Surfer(web, env.reset(2))
    surfer.follow("Boats for sale")
    surfer.press("Search", {"Seller": "Private owner", "Minimum length": "25"})
    total = int(surfer.page.xpath("//p[@role='status']/text()")[0].split()[0])
    seen: list[str] = []
    while True:
        seen += [str(link) for link in surfer.page.xpath("//ol[@class='results']//a/@href")]
        if not surfer.page.xpath("//a[text()='Next']"):
            break
        surfer.follow("Next")
    assert len(seen) == len(set(seen)) == total > 20


def test_a_refused_lead_says_why_and_records_nothing(env: EnvClient, web: httpx2.Client) -> None:
    instance = env.reset(4)
    surfer = Surfer(web, instance)
    search(surfer, {"Make": "Cobalt"})
    surfer.press("Request details", {"Email": "nowhere"})
    assert surfer.status == 422
    assert len(surfer.page.xpath("//*[@role='alert']")) == 2
    assert env.mutations(instance) == ()
    surfer.press("Request details", REQUEST)
    assert surfer.status == 200
    assert len(env.mutations(instance)) == 1


def test_mutations_since_reset_and_fingerprint(site: Site, env: EnvClient, web: httpx2.Client) -> None:
    instance, twin = env.reset(12), env.reset(12)
    start = env.state(instance).fingerprint
    do_lead(web, instance)
    do_phone(web, instance)
    done = env.mutations(instance)
    assert [(each.id, each.operation) for each in done] == [(1, "lead_submitted"), (2, "phone_revealed")]
    assert env.mutations(instance, 1) == done[1:]
    fetched = fetch_mutations(site.admin_url, site.admin_token, instance=instance, since_id=1)
    assert last_mutation_id(fetched["mutations"]) == 2
    assert env.oracle(instance, LEAD).score_micro == 666_700
    assert env.mutations(twin) == ()
    assert env.state(instance).fingerprint != start == env.state(twin).fingerprint
    env.reset(12, instance=instance)
    assert env.state(instance).fingerprint == start
    do_phone(web, instance)
    assert env.mutations(instance)[0].id == 1


def test_many_agents_at_once_do_not_meet(env: EnvClient, web: httpx2.Client) -> None:
    instances = [env.reset(seed) for seed in (30, 30, 31, 31, 32, 32)]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda instance: do_lead(web, instance), instances))
    assert all(passes(env.oracle(instance, LEAD)) for instance in instances)
    assert len({env.state(instance).fingerprint for instance in instances}) == 3


def test_a_site_that_stopped_is_down_and_that_is_no_ones_failure() -> None:
    with local_site("marketplace") as site, EnvClient(site.admin_url, site.admin_token) as env:
        instance = env.reset(1)
        pid = site.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(EnvironmentDown):
            env.oracle(instance, LEAD)
    assert gone(pid)


def test_a_site_dies_with_a_parent_that_was_killed() -> None:
    script = (
        "import time\nfrom agents.envs.provider import local_site\n"
        "with local_site('marketplace') as site:\n    print(site.pid, flush=True)\n    time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert not gone(pid, within_s=0)
        parent.kill()
    assert gone(pid)


def test_the_token_is_seen_neither_in_the_arguments_nor_in_the_environment(site: Site) -> None:
    process = Path(f"/proc/{site.pid}")
    if not process.exists():
        pytest.skip("no /proc on this system")
    shown = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
    assert site.admin_token.encode() not in shown


def test_a_taken_port_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(SitePortInUse, match=str(port)), local_site("marketplace", admin_port=port):
            pass


def test_a_child_that_dies_or_is_silent_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    package = tmp_path / "agents" / "envs"
    package.mkdir(parents=True)
    (tmp_path / "agents" / "__init__.py").touch()
    (package / "__init__.py").touch()
    monkeypatch.setattr(provider, "CODE_ROOT", tmp_path)
    (package / "serve.py").write_text("raise SystemExit('the keel broke')\n")
    with pytest.raises(SiteDied, match=r"status 1 .*the keel broke"), local_site("marketplace"):
        pass
    (package / "serve.py").write_text("import sys\nsys.stdin.read()\n")
    with pytest.raises(SiteNotReady, match="nothing"), local_site("marketplace", ready_within_s=0.3):
        pass
    (package / "serve.py").write_text("print('{}')\n")
    with pytest.raises(SiteNotReady), local_site("marketplace"):
        pass


def test_unknown_sites_and_weak_tokens_are_refused() -> None:
    with pytest.raises(UnknownSite, match="marketplace"), local_site("nowhere"):
        pass
    command = [sys.executable, "-m", "agents.envs.serve", "marketplace"]
    done = subprocess.run(command, cwd=ROOT, input="short\n", capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 1
    assert "has 5 characters" in done.stderr


def gone(pid: int, within_s: float = 5.0) -> bool:
    until = time.monotonic() + within_s
    while True:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        if _is_zombie(pid):
            return True
        if time.monotonic() >= until:
            return False
        time.sleep(0.02)


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return False
