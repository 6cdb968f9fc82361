from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import pytest

from agents.envs.contract import Graded, Health, Instance, InstanceState, Mutation
from agents.envs.environment import Connected
from agents.envs.errors import ContractBroken, InstanceClosed, LeaseLost, LeaseTaken
from agents.envs.leases import Leased, ThreadLeases, with_lease

NONE = "sha256:" + "0" * 64


class Only(Connected):
    """A site of one instance that tells when two act on it at once."""

    admin_url = "http://only.test"
    page_headers: Mapping[str, str] = {"x": "y"}
    has_record = True

    def __init__(self, *, fails: str = "") -> None:
        self.fails = fails
        self.acting = 0
        self.most = 0
        self.made = 0

    def disconnect(self) -> None:
        self._fail("disconnect")

    def health(self) -> Health:
        return Health(site="only", instances=self.acting, tasks=())

    def reset(self, seed: int, *, instance: Instance | str | None = None, repeat: int = 0) -> Instance:
        self._fail("reset")
        if instance is None:
            self.acting += 1
            self.made += 1
        self.most = max(self.most, self.acting)
        return Instance(seed=seed, instance=f"i{self.made}", url="http://only.test/")

    def oracle(self, instance: Instance | str, task_id: str) -> Graded:
        return Graded(task_id=task_id, passed=True, score_micro=10**6, reasons=(), diff={})

    def mutations(self, instance: Instance | str, since_id: int = 0) -> tuple[Mutation, ...]:
        return ()

    def state(self, instance: Instance | str) -> InstanceState:
        return InstanceState(seed=0, counts={}, fingerprint=NONE)

    def close(self, instance: Instance | str) -> None:
        self.acting -= 1
        self._fail("close")

    def _fail(self, operation: str) -> None:
        if self.fails == operation:
            raise ContractBroken(url=self.admin_url, operation=operation, actual="no", expected="yes")


def alone(site: Only, patience_s: float = 30.0) -> Leased:
    return with_lease(site, ThreadLeases(patience_s))


def test_runs_side_by_side_take_turns() -> None:
    site = Only()
    environment = alone(site)

    def run(seed: int) -> None:
        instance = environment.reset(seed)
        environment.state(instance)
        environment.oracle(instance, "t")
        environment.close(instance)

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (site.made, site.most, site.acting) == (16, 1, 0)


def test_who_waits_too_long_is_told_who_holds_the_key() -> None:
    environment = alone(Only(), patience_s=0.01)
    environment.reset(1)
    with pytest.raises(LeaseTaken, match=r"site http://only\.test was not free within 0\.01 s.*thread MainThread"):
        environment.reset(2)


def test_other_keys_do_not_wait() -> None:
    leases = ThreadLeases(0.01)
    one, other = with_lease(Only(), leases, "a"), with_lease(Only(), leases, "b")
    one.reset(1)
    other.reset(1)
    with pytest.raises(LeaseTaken):
        with_lease(Only(), leases, "a").reset(1)


def reset_and(environment: Leased, ending: str) -> None:
    instance = environment.reset(1)
    if ending == "disconnect":
        environment.disconnect()
    environment.close(instance)


@pytest.mark.parametrize("fails", ["reset", "close", "disconnect"])
def test_a_site_that_fails_gives_the_lease_back(fails: str) -> None:
    leases = ThreadLeases(0.01)
    with pytest.raises(ContractBroken, match=f"in {fails}"):
        reset_and(with_lease(Only(fails=fails), leases, "site"), fails)
    with leases("site") as check:
        check()


def crash(environment: Leased) -> None:
    with environment:
        environment.reset(1)
        raise ZeroDivisionError


def test_leaving_gives_back_what_a_crashed_run_held() -> None:
    leases = ThreadLeases(0.01)
    environment = with_lease(Only(), leases, "site")
    with pytest.raises(ZeroDivisionError):
        crash(environment)
    with leases("site") as check:
        check()
    with pytest.raises(InstanceClosed):
        environment.oracle("i1", "t")


def test_an_instance_made_anew_stays_under_its_lease() -> None:
    environment = alone(Only(), patience_s=0.01)
    instance = environment.reset(1)
    assert environment.reset(2, instance=instance).instance == instance.instance
    with pytest.raises(InstanceClosed):
        environment.reset(2, instance="another")
    environment.close(instance)
    environment.reset(3)


def test_what_is_no_ones_needs_no_lease() -> None:
    environment = alone(Only())
    assert environment.health().site == "only"
    assert (environment.admin_url, environment.page_headers) == ("http://only.test", {"x": "y"})
    for read in (environment.state, environment.mutations, environment.close):
        with pytest.raises(InstanceClosed):
            read("i1")


def test_a_grade_under_a_lost_lease_is_none() -> None:
    @contextmanager
    def lost(key: str) -> Iterator[Callable[[], None]]:
        def check() -> None:
            raise LeaseLost(key=key, actual="gone")

        yield check

    environment = with_lease(Only(), lost)
    instance = environment.reset(1)
    for read in (environment.state, environment.mutations, lambda one: environment.oracle(one, "t")):
        with pytest.raises(LeaseLost, match=r"only\.test was lost"):
            read(instance)
