from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from jinja2 import UndefinedError
from lxml import html
from markupsafe import Markup
from starlette.testclient import TestClient

from agents.envs.sites.instances import Instances
from agents.envs.sites.marketplace.app import page_app
from agents.envs.sites.marketplace.drift import CANONICAL, drift_family
from agents.envs.sites.marketplace.instance import Harbour
from agents.envs.sites.markup import site_templates

CANONICAL_SEED = next(seed for seed in range(10) if drift_family(seed) is CANONICAL)
DRIFTED = tuple({drift_family(seed).name: seed for seed in (*range(60), *range(10_000, 10_060))}.values())


@pytest.fixture
def instances() -> Instances[Harbour]:
    return Instances(Harbour, capacity=8)


@pytest.fixture
def web(instances: Instances[Harbour]) -> Iterator[TestClient]:
    with TestClient(page_app(instances)) as client:
        yield client


@pytest.mark.parametrize("seed", DRIFTED)
def test_every_page_has_its_links_inside_the_instance_and_none_is_dead(
    seed: int, instances: Instances[Harbour], web: TestClient
) -> None:
    instance = instances.mint(seed)
    prefix, todo, seen = f"/i/{instance}/", [f"/i/{instance}/"], set[str]()
    while todo and len(seen) < 25:
        address = todo.pop(0)
        if address in seen:
            continue
        seen.add(address)
        answer = web.get(address)
        assert answer.status_code == 200, address
        page = html.document_fromstring(answer.text)
        check_page(page)
        for place in (*page.xpath("//a/@href"), *page.xpath("//form/@action")):
            assert str(place).startswith(prefix), place
        todo += [str(place) for place in page.xpath("//a/@href")]
    assert instances.find(instance) is not None


def check_page(page: html.HtmlElement) -> None:
    names = [str(name) for name in page.xpath("//header//nav//a/text()")]
    assert names == ["Boats for sale", "Sell your boat", "Advice", "About"]
    assert len(page.xpath("//footer")) == len(page.xpath("//h1")) == 1
    labelled = {str(target) for target in page.xpath("//label/@for")}
    fields = {str(name) for name in page.xpath("//*[self::input or self::select or self::textarea]/@id")}
    assert labelled == fields
    assert len(page.xpath("//@id")) == len(set(page.xpath("//@id")))


@pytest.mark.parametrize("seed", [seed for seed in DRIFTED if drift_family(seed) is not CANONICAL])
def test_a_drifted_instance_has_no_canonical_address(seed: int, instances: Instances[Harbour], web: TestClient) -> None:
    instance = instances.mint(seed)
    boat = Harbour(seed).catalogue.boats[0]
    for path in ("/boats", f"/boats/{boat.slug}"):
        answer = web.get(f"/i/{instance}{path}")
        assert answer.status_code == 404
        check_page(html.document_fromstring(answer.text))
    assert web.post(f"/i/{instance}/boats/{boat.slug}/phone").status_code == 404


def test_the_form_shows_again_what_was_asked(instances: Instances[Harbour], web: TestClient) -> None:
    root = f"/i/{instances.mint(CANONICAL_SEED)}/boats"
    fields = {"mk": "sea-ray", "slr": "prv", "pmax": "$150,000", "lmin": "19", "ord": "desc"}
    page = html.document_fromstring(web.get(root, params=fields).text)
    assert page.xpath("//option[@selected]/text()") == ["Sea Ray", "Any", "Private owner", "Price: high to low"]
    assert page.xpath("//input/@value") == ["$150,000", "19"]
    following = page.xpath("//nav[@class='pages']/a[text()='Next']/@href")
    if following:
        assert "mk=sea-ray" in str(following[0])
    last = html.document_fromstring(web.get(root, params={"pg": "30"}).text)
    assert last.xpath("//nav[@class='pages']/a/text()") == ["Previous"]
    assert web.get(root, params={"pmax": "much"}).status_code == 422


def test_a_wrong_lead_is_refused_in_words_and_changes_nothing(instances: Instances[Harbour], web: TestClient) -> None:
    instance = instances.mint(CANONICAL_SEED)
    harbour = instances.find(instance)
    assert harbour is not None
    path = f"/i/{instance}/boats/{harbour.catalogue.boats[0].slug}/contact"
    said = {"who": "<b>Alex</b>", "reply_to": "nowhere", "txt": "&\"'</textarea>"}
    answer = web.post(path, data=said)
    page = html.document_fromstring(answer.text)
    assert answer.status_code == 422
    assert page.xpath("//*[@role='alert']/text()") == ["Please give an email address, such as name@example.com."]
    assert page.xpath("//input[@name='who']/@value") == ["<b>Alex</b>"]
    assert str(page.xpath("//textarea")[0].text).strip() == said["txt"]
    assert web.post(path, content=b"x" * 70_000).status_code == 413
    assert web.get(path).status_code == 405
    assert not harbour.mutations


def test_thanks_phone_and_post_then_redirect(instances: Instances[Harbour], web: TestClient) -> None:
    instance = instances.mint(CANONICAL_SEED)
    harbour = instances.find(instance)
    assert harbour is not None
    boat = harbour.catalogue.boats[5]
    path = f"/i/{instance}/boats/{boat.slug}"
    assert boat.phone not in web.get(path).text
    shown = web.post(f"{path}/phone")
    assert (shown.status_code, shown.url.path, boat.phone in shown.text) == (200, path, True)
    thanks = web.post(f"{path}/contact", data={"who": " Åsa ", "reply_to": "a@b.se", "txt": "one\r\ntwo"})
    assert "Thank you" in thanks.text
    assert [mutation.operation for mutation in harbour.mutations] == ["phone_revealed", "lead_submitted"]
    assert harbour.mutations[1].payload == {"name": "Åsa", "email": "a@b.se", "message": "one\ntwo"}


def test_wrong_addresses(instances: Instances[Harbour], web: TestClient) -> None:
    instance = instances.mint(CANONICAL_SEED)
    for path in ("/", "/boats", "/__env__/health", "/i/none/", f"/i/{instance}/__env__/health", f"/i/{instance}/x"):
        assert web.get(path).status_code == 404, path
    assert web.post("/__env__/reset", json={"seed": 1}).status_code == 404
    assert web.post(f"/i/{instance}/").status_code == 405


def test_the_oldest_unused_instance_makes_room() -> None:
    instances = Instances(Harbour, capacity=2)
    first, second = instances.mint(1), instances.mint(2)
    instances.find(first)
    third = instances.mint(3)
    assert [instances.find(each) is not None for each in (first, second, third)] == [True, False, True]
    instances.close(first)
    instances.close(first)
    assert len(instances) == 1


def test_templates_escape_values_and_drop_indentation(tmp_path: Path) -> None:
    (tmp_path / "templates").mkdir()
    text = """<a href="{{ href }}">\n  {{ words }} {{ made }}
    </a>{{ "\\n" }}
    {% macro bold(text) %}<b>{{ text }}</b>{% endmacro %}
    {{ bold(words) }}"""
    (tmp_path / "templates" / "page.html").write_text(text)
    template = site_templates(tmp_path).get_template("page.html")
    shown = template.render(href="\"'><script>", words="<&>", made=Markup("<i>"))
    assert shown == '<a href="&quot;&#x27;&gt;&lt;script&gt;">&lt;&amp;&gt; <i></a>\n<b>&lt;&amp;&gt;</b>'
    with pytest.raises(UndefinedError, match="words"):
        template.render(href="")
