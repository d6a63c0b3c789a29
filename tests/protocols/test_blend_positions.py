"""A position in a Blend pool, by small numbers; `tests.host.test_risk` asks the deployed code."""

from __future__ import annotations

import pytest

from exporter.deployments.networks import derived_address
from exporter.errors import DecodeError, ExactDivisionError
from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import ContractData, encode_contract_data
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import address, i128, struct_map, symbol, u32, vec
from exporter.protocols.blend.positions import (
    BAD_DEBT,
    POSITION_RULES,
    USER_LIQUIDATION,
    auctioned_position,
    decode_position,
    health_of,
    is_liquidatable,
    positions_key,
)
from exporter.protocols.positions import PoolTerms, Position

MARKET, HOLDER = derived_address("market"), derived_address("holder")
TERMS = PoolTerms(10**12, 10**12, 10**12, 10**7, 5_000_000, 10**7, 0, 0)
"""A share is a base unit, and half of collateral counts."""
ONE = 10**7


def written(key: ScVal, value: ScVal) -> bytes:
    """An entry of the market."""
    return encode_contract_data(ContractData(MARKET, key, 1, value))


def shares(*counts: tuple[int, int]) -> ScVal:
    """A map of shares by index."""
    return (scval.MAP, tuple((u32(index), i128(count)) for index, count in counts))


def test_an_entry_is_a_position() -> None:
    """A position has three maps; shares of zero or less count for nothing; any other form is refused."""
    key = vec(symbol("Positions"), address(HOLDER))
    maps = {"collateral": shares((0, 5), (1, 0)), "liabilities": shares((1, 7)), "supply": shares((2, -1))}
    data = written(key, struct_map(maps))

    assert Position({1: 7}, {0: 5}, {}) == decode_position(data)
    assert data[44:].startswith(POSITION_RULES.position_prefix)
    assert positions_key(MARKET, HOLDER)[40:].startswith(POSITION_RULES.position_prefix)
    for wrong in (struct_map({"collateral": shares()}), i128(1), struct_map(maps | {"supply": i128(1)})):
        with pytest.raises(DecodeError):
            decode_position(written(key, wrong))


@pytest.mark.parametrize(("kind", "sells"), [(USER_LIQUIDATION, True), (BAD_DEBT, True), (2, False)])
def test_an_auction_names_the_position_that_it_sells(kind: int, sells: bool) -> None:
    """Interest is nobody's debt."""
    key = vec(symbol("Auction"), struct_map({"auct_type": u32(kind), "user": address(HOLDER)}))
    data = written(key, struct_map({"block": u32(1)}))

    assert data[44:].startswith(POSITION_RULES.auction_prefix)
    assert (positions_key(MARKET, HOLDER) if sells else None) == auctioned_position(data)


def test_worth_rounds_against_the_borrower() -> None:
    """Collateral is rounded down and debt up, at each step."""
    terms = PoolTerms(10**12 + 1, 10**12 + 1, 10**12, 10**7, 3_333_333, 9_999_999, 0, 0)
    health = health_of(Position({0: 3}, {0: 3}, {}), [terms], [ONE])
    assert health is not None

    assert (3, 0) == (health.collateral, health.effective_collateral)
    assert (4, 5) == (health.debt, health.effective_debt)


def test_equal_debt_and_collateral() -> None:
    """v1 liquidates a position whose debt counts as much as its collateral, v2 does not; both one share later."""
    equal, more = (health_of(Position({0: debt}, {0: 20}, {}), [TERMS], [ONE]) for debt in (10, 11))
    assert equal is not None
    assert more is not None

    assert [True, False] == [is_liquidatable(equal, version) for version in ("v1", "v2")]
    assert [True, True] == [is_liquidatable(more, version) for version in ("v1", "v2")]


def test_what_the_contract_does_not_judge() -> None:
    """No position is judged without a price, and none sold without collateral; other reserves do not matter."""
    bare = health_of(Position({0: 10}, {}, {0: 100}), [TERMS], [ONE])
    beyond = health_of(Position({0: 10, 7: 5}, {0: 21, 9: 1}, {}), [TERMS], [ONE])
    assert bare is not None
    assert beyond is not None

    assert health_of(Position({0: 10}, {1: 10}, {}), [TERMS, TERMS], [ONE, None]) is None
    assert not is_liquidatable(bare, "v1")
    assert (10, 21) == (beyond.debt, beyond.collateral)
    with pytest.raises(ExactDivisionError):
        health_of(Position({0: 1}, {}, {}), [PoolTerms(1, 1, 1, 1, 1, 0, 0, 0)], [ONE])
