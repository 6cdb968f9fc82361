"""Alternative addresses for a failed navigation: pattern transforms of its URL, and links that the site shows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from eventlog.events import Change, FollowLink, ReplaceUrl, RewriteSource, Step

from ...plans import anchor_of, rewrite_id
from .failing import Failing
from .proposal import Proposal
from .sights import START, START_PAGE, Sights, rank_controls, wanted_share, words_wanted

MOST_LINKS: Final = 3
LEAST_SHARE: Final = 250_000


def other_addresses(run: Failing, number: int, sights: Sights) -> Iterator[Proposal]:
    """Proposals of another address for a navigation step, best first."""
    step, place = run.turns[number].step, run.turns[number].origin
    if step.type != "navigate" or step.url in (None, START_PAGE) or not run.is_own(number):
        return
    anchor = anchor_of(run.plan[place])
    found = [*_transform_address(step.url or ""), *_links_to(step, sights)]
    for confidence, _, change, source in sorted((-c, rewrite_id(anchor, change), change, s) for c, change, s in found):
        yield Proposal(anchor, change, source, -confidence, place=place)


def _transform_address(url: str) -> Iterator[tuple[int, Change, RewriteSource]]:
    for address, confidence in transforms(url):
        yield confidence, ReplaceUrl(url=address), "pattern_transform"


def _links_to(step: Step, sights: Sights) -> Iterator[tuple[int, Change, RewriteSource]]:
    wanted = words_wanted(step)
    links = rank_controls((each for each in sights.controls_after((START,)) if each.kind == "link"), wanted)
    for link in [each for each in links if wanted_share(each.label, wanted) >= LEAST_SHARE][:MOST_LINKS]:
        confidence = min(750_000, 500_000 + wanted_share(link.label, wanted) // 4)
        yield confidence, FollowLink(page=START_PAGE, label=link.label), "page_links"
        if link.path:
            yield confidence - 100_000, ReplaceUrl(url=link.path), "page_links"


def transforms(url: str) -> Iterator[tuple[str, int]]:
    """Addresses that often name the same page, with a confidence (millionths): trailing slash, joined slugs, case."""
    flipped = url.rstrip("/") if url.endswith("/") else url + "/"
    if flipped:
        yield flipped, 600_000
    joined = re.sub(r"/([a-z]{2})(?=/|$)", r"-\1", url)
    parted = re.sub(r"-([a-z]{2})(?=/|$)", r"/\1", url)
    for variant in (joined, parted):
        if variant != url:
            yield variant, 600_000
    if url != url.lower():
        yield url.lower(), 500_000
