"""Of all protocols' markets: what changes the hash of a configuration and what does not, and endless names."""

from __future__ import annotations

from typing import Any

import pytest

from exporter.ledger.codec.entries import instance_key, variant_key
from exporter.ledger.codec.scval import BOOL, BYTES, MAP, STRING, ScVal
from exporter.ledger.codec.scval_encode import VOID, address, i128, string, struct_map, symbol, u32, u64, u128, vec
from exporter.protocols.alula import layout as alula
from exporter.protocols.k2 import layout as k2
from exporter.protocols.xoxno import layout as xoxno
from tests.protocols.places import (
    A_TOKEN,
    ALULA,
    CONFIG,
    DATA,
    DEBT_TOKEN,
    FEED,
    K2,
    LISTS,
    LOW,
    MARKET,
    PARAMETERS,
    RESERVE,
    SLENDER,
    SLENDER_DEBT,
    STATE,
    USDC,
    VAULT,
    XLM,
    field,
    vault,
)
from tests.protocols.world import World, contract

Change = tuple[Any, ...]
"""A key, a value, and the path to where it goes; see `World.put`."""

INSTANCE = {protocol: instance_key(market) for protocol, market in MARKET.items()}
OF_USDC = field(k2.reserve_key(MARKET["k2"], USDC), "interest_rate_strategy_address")
RATES = variant_key(OF_USDC, "APARAMS", address(USDC))
MODEL = str((World("peridot").value(vault("InterestModel")) or VOID)[1])
OTHER = address(contract("other"))


XOXNO_NUMBERS: list[Change] = [
    *(
        (STATE, i128(12_345), name)
        for name in ("borrow_index", "borrowed", "cash", "revenue", "supplied", "supply_index")
    ),
    (STATE, u64(12_345), "last_timestamp"),
]
ALULA_AMOUNTS = (
    *("interest_rate_modifier_bps", "take_rate_fees_sum", "total_available", "total_borrowed"),
    *("total_collateral", "total_d_tokens", "total_j_tokens"),
)
BLEND_AMOUNTS = ("b_rate", "b_supply", "d_rate", "d_supply", "ir_mod", "backstop_credit")
BLEND_FACTORS = (
    *("util", "r_base", "r_one", "r_two", "r_three", "reactivity"),
    *("max_util", "c_factor", "l_factor", "decimals"),
)
K2_RATES = ("liquidity_index", "variable_borrow_index", "current_liquidity_rate", "current_variable_borrow_rate")


def listed(protocol: str) -> tuple[ScVal, ...]:
    """A market's list of pools."""
    value: Any = World(protocol).value(LISTS[protocol][0])
    return tuple(value[1])


ALULA_POOLS, BLEND_POOLS = map(listed, ("alula", "blend"))

UNCHANGED: dict[str, list[Change]] = {
    "alula": [
        *((ALULA, i128(12_345), name) for name in ALULA_AMOUNTS),
        (ALULA, u64(12_345), "last_accrual_timestamp"),
        (ALULA, u32(9), "token_decimals"),
        (ALULA, (BYTES, bytes(32)), "farm_debt"),
        (ALULA, string("x"), "name"),
        *((INSTANCE["alula"], VOID, vec(symbol(name))) for name in sorted(alula.NOT_CONFIGURATION)),
    ],
    "blend": [
        *((DATA, i128(12_345), name) for name in BLEND_AMOUNTS),
        (DATA, u64(12_345), "last_time"),
        (DATA, None),  # the reserve is configured all the same
    ],
    "k2": [
        *((K2, u128(12_345), name) for name in K2_RATES),
        (K2, u64(12_345), "last_update_timestamp"),
        (A_TOKEN, i128(7), "State", "total_supply_scaled"),
        (DEBT_TOKEN, i128(7), "State", "total_debt_scaled"),
        (A_TOKEN, None),
        (DEBT_TOKEN, None),
        (instance_key(XLM), string("other"), "METADATA", "symbol"),
        *((INSTANCE["k2"], VOID, name) for name in sorted(k2.NOT_CONFIGURATION - {"ORACFG"})),
    ],
    "peridot": [(vault("TotalBorrowed"), u128(7)), (instance_key(VAULT), i128(5), "TotalSupply")],
    "slender": [
        (SLENDER, i128(5), vec(symbol("TokenSupply"), SLENDER_DEBT)),
        (SLENDER, (BOOL, True), "Pause", "paused"),
        (SLENDER, i128(2 * 10**9), RESERVE, "lender_ar"),
    ],
    "xoxno": [(INSTANCE["xoxno"], u64(9), "AccountCounter"), *XOXNO_NUMBERS],
}

CHANGED: dict[str, list[Change]] = {
    "alula": [
        (INSTANCE["alula"], vec(symbol("Frozen")), "MarketStatus"),
        (INSTANCE["alula"], string("other"), "Name"),
        *((INSTANCE["alula"], u32(11), name) for name in ("MaxPositions", "Farms", "Later", u32(5))),
        *((LISTS["alula"][0], vec(*pools)) for pools in (ALULA_POOLS[:1], ALULA_POOLS[::-1])),
        (ALULA, u32(1_001), "config", "fee_config", "take_rate_bps"),
        (ALULA, u32(0), "config", "status", "flags"),
        (ALULA, None, "config"),
        (ALULA, OTHER, "token_address"),
        (ALULA, VOID),
        (ALULA, None),
    ],
    "blend": [
        *((CONFIG, u32(12_345), name) for name in BLEND_FACTORS),
        (CONFIG, (BOOL, False), "enabled"),
        (CONFIG, i128(5), "supply_cap"),
        (CONFIG, VOID),
        (CONFIG, None),
        *((LISTS["blend"][0], vec(*pools)) for pools in (BLEND_POOLS[:1], (*BLEND_POOLS, OTHER))),
        *((INSTANCE["blend"], u32(5), "Config", name) for name in ("status", "bstop_rate", "max_positions")),
        (INSTANCE["blend"], OTHER, "Config", "oracle"),
        (INSTANCE["blend"], string("Test2"), "Name"),
        *((INSTANCE["blend"], VOID, name) for name in ("Admin", "Backstop", "New")),
        (INSTANCE["blend"], None, "BLNDTkn"),
    ],
    "k2": [
        (INSTANCE["k2"], (BOOL, True), "PAUSED"),
        (INSTANCE["k2"], OTHER, "ORACLE"),
        (K2, u128(LOW ^ 1 << 51), "configuration", "data_low"),
        (K2, u128(77), "configuration", "data_high"),
        (RATES, u128(1), "variable_rate_slope1"),
        (instance_key(field(K2, "interest_rate_strategy_address")), u128(8), "OU"),
        (K2, None),
    ],
    "peridot": [
        (variant_key(MARKET["peridot"], "OracleMaxAgeMultiplier"), u64(3)),
        (variant_key(MODEL, "Kink"), u128(1)),
        (vault("ReserveFactorScaled"), u128(1)),
        (variant_key(MARKET["peridot"], "MarketCF", address(VAULT)), u128(1)),
        (variant_key(MARKET["peridot"], "PauseRedeem"), (MAP, ((address(VAULT), (BOOL, True)),))),
    ],
    "slender": [(SLENDER, struct_map({}), RESERVE, "configuration"), (SLENDER, None, FEED)],
    "xoxno": [
        *((INSTANCE["xoxno"], OTHER, name) for name in xoxno.CONFIGURATION),
        *((PARAMETERS, i128(1), name) for name in ("slope1", "flashloan_fee", "added_later")),
        (PARAMETERS, None),
    ],
}


def hash_of(protocol: str, change: Change = ()) -> str:
    """The hash of a market with a change."""
    world = World(protocol)
    if change:
        world.put(*change)
    (found,) = (item for item in world.read().result.markets if item.address == MARKET[protocol])
    return found.config_hash


@pytest.mark.parametrize("protocol", UNCHANGED)
def test_config_hash(protocol: str) -> None:
    """The hash stays with the state, whatever moves or cannot be read; each change of the configuration moves it."""
    before = hash_of(protocol)
    hashes = [before, *(hash_of(protocol, item) for item in CHANGED[protocol])]

    assert [] == [change for change in UNCHANGED[protocol] if hash_of(protocol, change) != before]
    assert len(hashes) == len(set(hashes))
    assert 16 == len(before)


@pytest.mark.parametrize("protocol", ["alula", "blend"])
def test_endless_name(protocol: str) -> None:
    """A name without end is cut, in the rows of the pools too, with a notice; the hash is of the whole of it."""
    hashes = {hash_of(protocol, (INSTANCE[protocol], (STRING, b"x" * 10_000 + end), "Name")) for end in (b"a", b"b")}
    world = World(protocol)
    world.put(INSTANCE[protocol], (STRING, b"x" * 10_001), "Name")
    tables = world.compute()
    rows = tables.pools.rows(named=True)

    assert {"x" * 200} == {row["market_name"] for row in rows if row["market"] == MARKET[protocol]}
    assert [f"market {MARKET[protocol]} has a name of 10001 characters; 200 of them are shown"] == tables.notices
    assert 2 == len(hashes)
