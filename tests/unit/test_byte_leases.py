"""Bytes of bodies in flight: counted over all callers, refused beyond the bound, and given back once."""

from __future__ import annotations

import pytest

from api.routes.admission import ByteLease, Places
from api.routes.errors import TooManyBytes


def test_bytes_of_all_callers_count_together_until_they_are_released() -> None:
    places = Places()
    one, other = ByteLease(places, 100), ByteLease(places, 100)
    one.add(60)
    one.add(20)
    with pytest.raises(TooManyBytes, match="hold 80 bytes"):
        other.add(21)
    other.add(20)
    one.release()
    one.release()
    assert places.bytes_held == 20
    other.add(80)
    other.release()
    assert places.bytes_held == 0
