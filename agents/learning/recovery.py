"""Recovery: from a failed step to rewrites that were tried out in the run's own instance.

It knows nothing of any site: candidates come from the planned address itself (pattern transforms) and from the links
that the site shows, ranked by the words they share with the step.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from eventlog.events import Anchor, FollowLink, PromotionRule, ReplaceUrl, RewriteProposed, RewriteSource, Step

from ..envs.pages import Absent, Link, Page
from ..envs.session import Session
from ..plans import anchor_of, rewrite_id

MOST_LINKS = 3
MOST_PROPOSALS = 3
LEAST_OVERLAP = 250_000
START_PAGE = "/"
_WORD = re.compile(r"[a-z0-9]+")
_FILLERS = frozenset(["a", "an", "and", "at", "for", "in", "of", "on", "open", "page", "the", "to", "with", "your"])


@dataclass(frozen=True, slots=True)
class Proposal:
    """A change of one step, where it came from, and how likely it looked before it was tried (micro)."""

    anchor: Anchor
    change: ReplaceUrl | FollowLink
    source: RewriteSource
    confidence: int

    def event(self, run: str, rule: PromotionRule) -> RewriteProposed:
        """The proposal as a fact, with the rule that will decide it."""
        return RewriteProposed(
            rewrite=rewrite_id(self.anchor, self.change),
            anchor=self.anchor,
            change=self.change,
            rule=rule,
            run=run,
            source=self.source,
            confidence=self.confidence,
        )


def propose(failed: Step, following: Step | None, session: Session) -> tuple[Proposal, ...]:
    """Rewrites of a navigation that led nowhere, best first, each of them seen to work here.

    "Works" means: the page opens, and the step that follows in the plan can be done on it. Raises EnvironmentDown.
    """
    if failed.type != "navigate" or failed.url is None:
        return ()
    found: list[Proposal] = []
    for proposal in _candidates(failed, session):
        if len(found) < MOST_PROPOSALS and _works(proposal.change, following, session):
            found.append(proposal)
    return tuple(found)


def _candidates(failed: Step, session: Session) -> list[Proposal]:
    anchor = anchor_of(failed)
    proposals = [
        Proposal(anchor, ReplaceUrl(url=url), "pattern_transform", confidence)
        for url, confidence in transforms(failed.url or "/")
    ]
    for link, overlap in related_links(failed, session.open(START_PAGE)):
        confidence = min(750_000, 500_000 + overlap // 4)
        proposals.append(Proposal(anchor, FollowLink(page=START_PAGE, label=link.text), "page_links", confidence))
        proposals.append(Proposal(anchor, ReplaceUrl(url=link.path), "page_links", confidence - 100_000))
    return sorted(proposals, key=lambda p: (-p.confidence, rewrite_id(p.anchor, p.change)))


def transforms(url: str) -> Iterator[tuple[str, int]]:
    """Addresses that often stand for the same page, with a confidence (micro): slash at the end, joined slugs, case."""
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


def related_links(step: Step, page: Page) -> tuple[tuple[Link, int], ...]:
    """The page's links that share words with the step, most shared first, with the share in millionths."""
    wanted = words(f"{step.intent} {step.url or ''}")
    ranked: list[tuple[Link, int]] = []
    for link in page.links():
        overlap = len(words(link.text) & wanted) * 1_000_000 // max(1, len(wanted))
        if overlap >= LEAST_OVERLAP:
            ranked.append((link, overlap))
    unique = {link.text: (link, overlap) for link, overlap in reversed(ranked)}
    return tuple(sorted(unique.values(), key=lambda pair: (-pair[1], pair[0].text)))[:MOST_LINKS]


def words(text: str) -> frozenset[str]:
    """The words of a text that carry meaning."""
    return frozenset(_WORD.findall(text.lower())) - _FILLERS


def _works(change: ReplaceUrl | FollowLink, following: Step | None, session: Session) -> bool:
    try:
        page = _opened(change, session)
        return page.status < 400 and (following is None or is_possible(following, page))  # noqa: PLR2004 HTTP errors
    except Absent:
        return False


def _opened(change: ReplaceUrl | FollowLink, session: Session) -> Page:
    match change:
        case ReplaceUrl():
            return session.open(change.url)
        case FollowLink():
            return session.open(session.open(change.page).link(change.label).path)


def is_possible(step: Step, page: Page) -> bool:
    """Whether a step's control is on the page."""
    label = step.label or ""
    try:
        match step.type:
            case "click":
                page.link(label)
            case "submit":
                page.button(label)
            case "fill_field" | "select_option":
                page.field(label)
            case "navigate":
                pass
    except Absent:
        return False
    return True
