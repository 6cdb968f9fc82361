"""The rule of where a verdict counts: three cases that went wrong, and what holds for champions of several sites."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from agents.learning.memory_scope import Content, compose_content
from gate.jurisdiction import (
    Contents,
    MemoryDifference,
    MissingVerdict,
    Sites,
    acts_elsewhere,
    challenge_on,
    compare_memories,
    describe_missing_verdicts,
    missing_verdicts,
)

SHOP, DESK, FORUM = "shop", "desk", "forum"
SITES = (SHOP, DESK, FORUM)
ACTS: Mapping[str, Sites] = {
    "s1": frozenset({SHOP}),
    "s2": frozenset({SHOP}),
    "d1": frozenset({DESK}),
    "f1": frozenset({FORUM}),
    "sd": frozenset({SHOP, DESK}),
    "all": frozenset(SITES),
    "none": frozenset(),
}


def memory(*names: str, rank: int = 0, weights: str = "base") -> Contents:
    return Contents(weights, dict.fromkeys(names, rank))


def test_what_another_site_learned_is_not_before_this_sites_benchmark() -> None:
    assert challenge_on(SHOP, memory(), memory("s1", "d1", "none"), ACTS) == MemoryDifference(("s1",))
    assert challenge_on(DESK, memory("s1"), memory("s1"), ACTS).is_none


def test_a_piece_that_its_own_site_held_does_not_enter_with_another_sites_challenger() -> None:
    held = compare_memories(memory(), memory("s1", "d1"))
    assert acts_elsewhere(held, ACTS, DESK) == ("s1",)
    assert acts_elsewhere(challenge_on(DESK, memory(), memory("s1", "d1"), ACTS), ACTS, DESK) == ()


def test_a_piece_that_acts_on_two_sites_waits_for_both_and_holds_up_no_other() -> None:
    today = memory("s1", "sd")
    assert challenge_on(SHOP, memory(), today, ACTS) == MemoryDifference(("s1",))
    alone = challenge_on(SHOP, memory("s1"), today, ACTS)
    assert alone == MemoryDifference(("sd",))
    first = missing_verdicts(SHOP, memory("s1"), memory("s1", "sd"), ACTS, sites=SITES)
    assert first == (MissingVerdict(DESK, "sd"),)
    judged = {"sd": frozenset({SHOP})}
    assert challenge_on(DESK, memory("s1"), today, ACTS, judged) == MemoryDifference(("sd",))
    assert missing_verdicts(DESK, memory("s1"), memory("s1", "sd"), ACTS, sites=SITES, judged=judged) == ()


def test_a_piece_may_leave_without_a_verdict_and_a_changed_one_is_judged_again() -> None:
    assert challenge_on(SHOP, memory("s1", "d1"), memory("d1"), ACTS) == MemoryDifference(left=("s1",))
    assert missing_verdicts(SHOP, memory("s1", "d1"), memory(), ACTS, sites=SITES) == ()
    assert challenge_on(SHOP, memory("s1", "d1", "sd"), memory("s1", "d1", "sd", rank=1), ACTS) == MemoryDifference(
        ("s1",)
    )


def test_other_weights_are_judged_on_every_site() -> None:
    found = missing_verdicts(SHOP, memory(), memory(weights="ck"), ACTS, sites=SITES, weights_judged={FORUM})
    assert found == (MissingVerdict(DESK),)
    assert describe_missing_verdicts([*found, MissingVerdict(DESK, "sd"), MissingVerdict(SHOP, "s1")]) == (
        "desk on the weights, sd; shop on s1"
    )


@dataclass
class House:
    """A log of several sites in short: what trials promoted, the champion, and the verdicts that there were."""

    learned: dict[str, int] = field(default_factory=dict)
    champion: Contents = field(default_factory=memory)
    judged: dict[str, set[str]] = field(default_factory=dict)
    weights: dict[str, set[str]] = field(default_factory=dict)
    by_hand: set[str] = field(default_factory=set)
    entered_with: dict[str, set[str]] = field(default_factory=dict)

    def sites_that_judged(self, name: str) -> Sites:
        return frozenset(self.judged.get(name, ()))

    def known(self) -> dict[str, Sites]:
        return {name: self.sites_that_judged(name) for name in ACTS}

    def learn(self, name: str, rank: int) -> None:
        self.learned[name] = rank

    def forget(self, name: str) -> None:
        """A demotion, after which an older verdict counts no more."""
        self.learned.pop(name, None)
        self.judged.pop(name, None)

    def challenge(self, site: str, weights: str, *, promotes: bool) -> None:
        today = Contents(weights, dict(self.learned))
        found = challenge_on(site, self.champion, today, ACTS, self.known())
        assert acts_elsewhere(found, ACTS, site) == ()
        pieces = {name: held for name, held in self.champion.pieces.items() if name not in found.left}
        challenger = Contents(weights, pieces | {name: self.learned[name] for name in found.entered})
        if not promotes:
            return
        missing = missing_verdicts(
            site,
            self.champion,
            challenger,
            ACTS,
            sites=SITES,
            judged=self.known(),
            weights_judged=frozenset(self.weights.get(weights, ())),
        )
        for name in found.entered:
            self.judged.setdefault(name, set()).add(site)
        self.weights.setdefault(weights, set()).add(site)
        if not missing:
            self.by_hand -= {*found.entered, *({weights} - {self.champion.weights})}
            self.champion = challenger
            self.entered_with |= {name: set(self.judged[name]) for name in found.entered}

    def point(self, weights: str) -> None:
        """An operator makes today's memory champion and answers for it."""
        self.champion = Contents(weights, dict(self.learned))
        self.by_hand = {*self.learned, weights}

    def check(self) -> None:
        """Every piece in the champion was judged where it acts, and so were its weights, or an operator answers."""
        for name in self.champion.pieces.keys() - self.by_hand:
            assert self.entered_with[name] >= ACTS[name], name
        if self.champion.weights not in {"base", *self.by_hand}:
            assert self.weights[self.champion.weights] >= {*SITES}


NAMES = st.sampled_from(sorted(ACTS))
DEEDS = st.one_of(
    st.tuples(st.just("learn"), NAMES, st.integers(0, 2)),
    st.tuples(st.just("forget"), NAMES),
    st.tuples(st.just("challenge"), st.sampled_from(SITES), st.sampled_from(["base", "ck-1", "ck-2"]), st.booleans()),
    st.tuples(st.just("point"), st.sampled_from(["base", "ck-1"])),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(DEEDS, max_size=40))
def test_every_piece_of_a_champion_was_judged_on_each_site_where_it_acts(deeds: list[tuple[object, ...]]) -> None:
    house = House()
    for deed in deeds:
        match deed:
            case ("learn", str(name), int(rank)):
                house.learn(name, rank)
            case ("forget", str(name)):
                house.forget(name)
            case ("challenge", str(site), str(weights), bool(promotes)):
                house.challenge(site, weights, promotes=promotes)
            case ("point", str(weights)):
                house.point(weights)
        house.check()


@settings(max_examples=100, deadline=None)
@given(st.sets(NAMES), st.sampled_from(SITES))
def test_what_is_learned_reaches_the_champion_when_each_site_promotes(names: set[str], first: str) -> None:
    """The rule keeps nothing out for good: after each site has judged twice and promoted, all that acts is in."""
    house = House()
    for name in sorted(names):
        house.learn(name, 0)
    for site in (first, *SITES, *SITES, *SITES):
        house.challenge(site, "base", promotes=True)
    assert house.champion.pieces.keys() == names - {"none"}


def test_a_composed_memory_keeps_every_other_entry_to_the_byte() -> None:
    base: Content = {
        "rewrites": [{"piece": "rw-a", "wins": 1}],
        "hints": [{"piece": "h-1", "rank": 1}, {"piece": "h-2", "rank": 2}],
    }
    today: Content = {
        "rewrites": [{"piece": "rw-a", "wins": 9}, {"piece": "rw-b", "wins": 1}],
        "recipes": [{"piece": "rc-1"}],
    }
    assert compose_content(base, today, {"rw-b", "rc-1"}, {"h-2"}) == {
        "rewrites": [{"piece": "rw-a", "wins": 1}, {"piece": "rw-b", "wins": 1}],
        "hints": [{"piece": "h-1", "rank": 1}],
        "recipes": [{"piece": "rc-1"}],
    }
    assert compose_content(base, {}, (), {"rw-a", "h-1", "h-2"}) == {"rewrites": []}
