"""Blend's math against the vectors of the contract's own tests, and its terms by hand.

tests/host has what the deployed code computes of any state, and lets through.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest

from exporter.protocols.blend import math
from exporter.protocols.blend.emissions import Emission
from exporter.protocols.blend.layout import NO_CAP, RATE_DECIMALS, STATUS_NAMES, WASM_HASHES
from exporter.protocols.compute import row_of
from exporter.protocols.protocol import RateRow
from tests.localnet.recorded import BLEND_V1
from tests.protocols.judged import published
from tests.protocols.world import World

Numbers = dict[str, Any]
CODE = {generation: code.hex() for code, generation in WASM_HASHES.items()}

# Configuration A: the default of both contract repositories' tests.
CONFIG_A = {
    "util": 7500000,
    "r_base": 100000,
    "r_one": 500000,
    "r_two": 5000000,
    "r_three": 15000000,
    "reactivity": 20,
    "bstop_rate": 2000000,
}
FLAT = CONFIG_A | {"r_base": 2500000, "r_one": 0, "r_two": 0, "r_three": 0}
LOW_BASE = CONFIG_A | {"r_base": 1000}


UNPAID = {"supply_emission": Emission(), "borrow_emission": Emission()}


def step(generation: str, config: Numbers, u: int, ir_mod: int, dt: int) -> tuple[int, int]:
    """The growth of the debt and the new modifier."""
    modifier_scale = 10 ** math.MODIFIER_DECIMALS[generation]
    rate = math.borrow_rate(u, ir_mod, modifier_scale, *(config[name] for name in math.RATE_MODEL.parameters))
    accrual = math.loan_accrual(rate, dt, 10 ** RATE_DECIMALS[generation])
    return accrual, math.next_modifier(ir_mod, dt, u, config["util"], config["reactivity"], modifier_scale)


@pytest.mark.parametrize(
    ("generation", "config", "u", "ir_mod", "dt", "accrual", "moved"),
    [
        pytest.param("v2", CONFIG_A, 6565656, 10**7, 500, 1000000852536, 9999066, id="T1"),
        pytest.param("v2", CONFIG_A, 7979797, 10**7, 500, 1000002853078, 10000479, id="T2"),
        pytest.param("v2", CONFIG_A, 9696969, 10**7, 500, 1000018247510, 10002196, id="T3"),
        pytest.param("v2", CONFIG_A, 9696969, 99970000, 12345, None, 100000000, id="T4"),
        pytest.param("v2", CONFIG_A, 2020202, 1500000, 50000, None, 1000000, id="T5"),
        pytest.param("v2", CONFIG_A | {"reactivity": 0}, 6565656, 10**7, 500, 1000000852536, 10000000, id="T6"),
        pytest.param("v2", LOW_BASE, 5, 1000000, 1, 1000000000001, 1000000, id="T7"),
        pytest.param("v2", FLAT, 0, 10**7, 500, 1000003963724, 9992500, id="T8 at 0"),
        pytest.param("v2", FLAT, 6565656, 10**7, 500, 1000003963724, 9999066, id="T8 below the target"),
        pytest.param("v2", FLAT, 7565656, 10**7, 500, 1000003963724, 10000065, id="T8 above the target"),
        pytest.param("v2", FLAT, 9565656, 10**7, 500, 1000003963724, 10002065, id="T8 above 95 percent"),
        pytest.param("v1", CONFIG_A, 6565656, 10**9, 500, 1000000853, 999906566, id="T9"),
        pytest.param("v1", CONFIG_A, 7979797, 10**9, 500, 1000002853, 1000047979, id="T10"),
        pytest.param("v1", CONFIG_A, 9696969, 10**9, 500, 1000018247, 1000219696, id="T11"),
        pytest.param("v1", CONFIG_A, 9696969, 9997000000, 12345, None, 10000000000, id="T12 up"),
        pytest.param("v1", CONFIG_A, 2020202, 150000000, 50000, None, 100000000, id="T12 down"),
        pytest.param("v1", LOW_BASE, 500000, 100000000, 1, 1000000001, 100000000, id="T13"),
        pytest.param("v1", FLAT, 0, 10**9, 500, 1000003964, 999250000, id="T14 at 0"),
        pytest.param("v1", FLAT, 6565656, 10**9, 500, 1000003964, 999906566, id="T14 below the target"),
        pytest.param("v1", FLAT, 7565656, 10**9, 500, 1000003964, 1000006565, id="T14 above the target"),
        pytest.param("v1", FLAT, 9565656, 10**9, 500, 1000003964, 1000206565, id="T14 above 95 percent"),
    ],
)
def test_accrual_and_modifier_vectors(
    generation: str, config: Numbers, u: int, ir_mod: int, dt: int, accrual: int | None, moved: int
) -> None:
    """The debt's growth and the new modifier are those of the contracts' own tests (vectors T1 to T14)."""
    actual_accrual, actual_moved = step(generation, config, u, ir_mod, dt)

    assert moved == actual_moved
    assert accrual in (None, actual_accrual)


def reserve_of(generation: str, **changes: Any) -> Numbers:
    """The reserve of the vectors T15 (v1) or T17 (v2), with changes."""
    widen = 1 if generation == "v1" else 1000
    reserve = CONFIG_A | {
        "generation": generation,
        "d_rate": 1345678123 * widen,
        "b_rate": 1123456789 * widen,
        "d_supply": 650000000,
        "b_supply": 990000000,
        "ir_mod": 10 ** math.MODIFIER_DECIMALS[generation],
        "last_time": 0,
        "backstop_credit": 0,
        "decimals": 7,
        "enabled": True,
        "market_status": "active",
        "max_util": 9_500_000,
        "c_factor": 9_500_000,
        "l_factor": 9_000_000,
        "supply_cap": NO_CAP,
        "reward_token": "BLND",
        "wasm_hash": CODE[generation],
        **UNPAID,
    }
    return reserve | changes


STATE = ("supply_index", "borrow_index", "rate_modifier", "backstop_credit")


def state(*values: int) -> dict[str, int]:
    """What a state should be accrued to."""
    return dict(zip(STATE, values, strict=True))


RATES = {
    "stored_utilization": 7864353,
    "stored_borrow_apr": 1510883,
    "stored_supply_apr": 950569,
    "borrow_apy_bps": 1630,
    "supply_apy_bps": 996,
}
PUBLISHED = (
    *STATE,
    *("total_supplied", "total_borrowed", "utilization_bps", "stored_utilization", "stored_borrow_apr"),
    *("stored_supply_apr", "accrued_utilization", "accrued_borrow_apr", "accrued_supply_apr"),
    *("borrow_apy_bps", "supply_apy_bps"),
)
MAINNET_XLM = (
    *(1000042669, 1001137914, 100000000, 843339, 126430667051058, 1177183034145, 93, 93109, 10932),
    *(81, 93109, 10932, 81, 10, 0),
)
MAINNET_USDC = (
    *(1095073934, 1147908445, 1433460376, 1287238827, 32967024554566, 21562828886421, 6540, 6540727, 1133238),
    *(592975, 6540727, 1133230, 592971, 1199, 610),
)
EMPTY = {"stored_utilization": 0, "total_borrowed": 0, "utilization_bps": 0}
LARGE = reserve_of("v2", d_rate=1500000000000, b_rate=1300000000000, d_supply=10**26, b_supply=10**28, last_time=995)
SDK = reserve_of("v2", d_rate=10**12, b_rate=10**12, d_supply=65 * 10**18, b_supply=100 * 10**18, last_time=5)
SDK_RATES = {"stored_utilization": 6500000, "utilization_bps": 6500}
SDK_RATES |= {"stored_borrow_apr": 533334, "stored_supply_apr": 277333}
RESERVE_VECTORS: list[tuple[Numbers, int, dict[str, int], str]] = [
    (reserve_of("v1"), 617280, RATES | state(1125547124, 1349657800, 1044981563, 517358), "T15"),
    (reserve_of("v1", bstop_rate=0), 617280, state(1126069708, 1349657800, 1044981563, 0), "T16"),
    (reserve_of("v2"), 617280, RATES | state(1125547124242, 1349657798173, 10449815, 517357), "T17"),
    (reserve_of("v2", bstop_rate=0), 617280, state(1126069707070, 1349657798173, 10449815, 0), "T18"),
    (LARGE, 1000, state(1300000000020, 1500000002562, 9999927, 51240000000000000), "T19, 18 decimals"),
    *(
        (made, 617280, EMPTY | state(made["b_rate"], made["d_rate"], made["ir_mod"], 0), f"T20 {generation} {emptied}")
        for generation in ("v1", "v2")
        for emptied in ("d_supply", "b_supply")
        for made in [reserve_of(generation, **{"d_supply": 0, emptied: 0})]
    ),
    (reserve_of("v2", b_supply=0), 617280, state(1123456789000, 1345678123000, 10**7, 0), "nobody has a share"),
    (reserve_of("v2", d_supply=1), 1, state(1123456789000, 1345678123428, 9999986, 0), "a b_rate off the formula"),
    (SDK, 5, SDK_RATES, "SDK 3.3.0, 18 decimals"),
    (
        reserve_of("v2", util=0, ir_mod=15000000, d_supply=0),
        617280,
        {
            "stored_utilization": 0,
            "stored_borrow_apr": 150000,
            "borrow_apy_bps": 151,
            "stored_supply_apr": 0,
            "supply_apy_bps": 0,
            "rate_modifier": 15000000,
        },
        "SDK 3.3.0, target 0",
    ),
]


@pytest.mark.parametrize(
    ("reserve", "close_time", "expected"), [pytest.param(*vector, id=name) for *vector, name in RESERVE_VECTORS]
)
def test_reserves_come_out_as_in_the_contracts_vectors(
    reserve: Numbers, close_time: int, expected: dict[str, int]
) -> None:
    """Reserves come out as in the contracts' and the SDK's vectors."""
    actual = published("blend", reserve, close_time)

    assert expected == {name: actual[name] for name in expected}


def test_reserves_of_mainnet() -> None:
    """Mainnet's reserves at ledger 55,261,759 come out as calculated by hand, with another clock."""
    world = World("blend")
    xlm, usdc = (pool for pool in world.read().result.pools if pool.market.address == BLEND_V1)
    for pool, expected in ((xlm, MAINNET_XLM), (usdc, MAINNET_USDC)):
        actual = cast(dict[str, Any], row_of(pool, math.project(pool, world.time)))
        assert expected == tuple(actual[name] for name in PUBLISHED)


@pytest.mark.parametrize(
    ("generation", "liabilities", "supply", "shares", "expected"),
    [
        ("v2", 874690780, 1112222221, 1, 7864353),
        ("v2", 0, 0, 1, 0),
        ("v2", 0, 11234567, 1, 0),
        ("v2", 21234567, 11234567, 1, 10000000),
        ("v2", 1, 0, 1, 10000000),
        ("v1", 0, 11234567, 1, 0),
        ("v1", 21234567, 11234567, 1, 18901100),
        ("v1", 1, 0, 0, 0),
    ],
)
def test_utilization_rounds_up_and_is_capped_in_v2_alone(
    generation: str, liabilities: int, supply: int, shares: int, expected: int
) -> None:
    """The utilization is rounded up, and capped in v2 alone (docs/protocols/blend.md, "Formulas", v2 R:549-606)."""
    assert expected == math.utilization(liabilities, supply, shares, generation)


def test_the_rate_curve_at_its_kinks() -> None:
    """Both kinks belong to the lower slope, r_three is not modified, and every part is rounded up (2.3)."""
    year = 31536000  # so that the growth is the rate, with 12 decimals
    doubled = 20000000

    def rate(u: int, config: Numbers = CONFIG_A) -> int:
        accrual, _ = step("v2", config, u, doubled, year)
        return int(accrual - 10**12) // 10**5

    assert [1200000, 1200000, 1200006] == [rate(u) for u in (7499999, 7500000, 7500001)]
    assert [11199996, 11200000, 11200030] == [rate(u) for u in (9499999, 9500000, 9500001)]
    assert 1200000 == rate(9500000, CONFIG_A | {"util": 9500000})


def test_a_pool_whose_rates_cannot_be_summed_has_no_curve() -> None:
    """Above 95 % the contract adds three rates as u32; a pool without parameters has no curve either."""
    huge = {"util": 5_000_000, "r_base": 2**31, "r_one": 2**31, "r_two": 2**31, "r_three": 1}
    row = RateRow(accrued_utilization=1, rate_modifier=10**7, rate_modifier_decimals=7)

    assert [True, False, False] == [bool(math.RATE_MODEL.curve(row, own)) for own in (CONFIG_A, huge, {})]
    assert 10**7 == math.RATE_MODEL.curve(row, CONFIG_A | {"util": 2 * 10**7})[-1][0]


NOW = 617_280
V1, V2 = (reserve_of(generation, last_time=NOW) for generation in ("v1", "v2"))


def at_now(reserve: Mapping[str, Any]) -> dict[str, Any]:
    """What is published about a reserve."""
    return published("blend", reserve, NOW)


@pytest.mark.parametrize(
    ("changes", "amounts"),
    [
        # 990000000 shares at 1.1, so 1089000000 supplied, and 650000000 owed: 650000066 must stay, in 590909151 shares
        ({}, (438_999_933, 384_550_000, None)),
        ({"d_supply": 0}, (1_089_000_000, 1_034_550_000, None)),
        ({"d_supply": 1_089_000_000}, (0, 0, None)),
        ({"b_supply": 0, "d_supply": 0}, (0, 0, None)),
        ({"b_rate": 0, "supply_cap": 10**10}, (0, 0, 0)),  # all that was supplied is lost
        ({"max_util": 10_000_000}, (438_999_933, 438_999_891, None)),  # 9999999 parts of ten million at the most
        ({"max_util": 0}, (438_999_933, 0, None)),
        ({"supply_cap": 0}, (438_999_933, 384_550_000, 0)),
        ({"supply_cap": 1_089_000_000}, (438_999_933, 384_550_000, 0)),
        ({"supply_cap": 1_089_000_001}, (438_999_933, 384_550_000, 2)),
        ({"supply_cap": 10**36}, (438_999_933, 384_550_000, 10**36 - 1_088_999_999)),
    ],
)
def test_a_v2_reserves_available_amounts_are_those_by_hand(
    changes: dict[str, int], amounts: tuple[int | None, ...]
) -> None:
    """Amounts of a v2 reserve, by hand."""
    row = at_now(V2 | {"b_rate": 11 * 10**11, "d_rate": 10**12} | changes)

    assert amounts == tuple(row[f"available_to_{name}"] for name in ("withdraw", "borrow", "supply"))


def test_v1_pays_what_is_not_lent() -> None:
    """v1 tests no utilization when it pays out: what is not lent is the suppliers', and one may borrow the last."""
    row = at_now(V1 | {"b_rate": 11 * 10**8, "d_rate": 10**9, "max_util": 10**7})

    assert (439_000_000, 439_000_000, None) == tuple(
        row[f"available_to_{name}"] for name in ("withdraw", "borrow", "supply")
    )
    assert 0 == at_now(V1 | {"d_supply": V1["b_supply"] * 2})["available_to_withdraw"]


GATES = {
    **dict.fromkeys(("admin_active", "active"), (True, True, True)),
    **dict.fromkeys(("admin_on_ice", "on_ice"), (True, True, False)),
    **dict.fromkeys(("admin_frozen", "frozen", "setup", "unknown_7"), (False, True, False)),
}


@pytest.mark.parametrize("status", [*STATUS_NAMES, "unknown_7"])
def test_gates_of_the_market(status: str) -> None:
    """A market on ice lends nothing, a frozen one takes nothing either; leaving, repaying and liquidating stay open."""
    for reserve in (V1, V2):
        row = at_now(reserve | {"market_status": status})

        assert GATES[status] == (row["can_supply"], row["can_withdraw"], row["can_borrow"])
        assert (True, True, None) == (row["can_repay"], row["can_liquidate"], row["can_reason"])


def test_a_reserve_that_is_disabled() -> None:
    """v2 can close one reserve for supplying and borrowing; v1 has no status of a reserve."""
    disabled, enabled, first = map(at_now, (V2 | {"enabled": False}, V2, V1))

    assert ("disabled", False, True, False) == tuple(
        disabled[name] for name in ("pool_status", "can_supply", "can_withdraw", "can_borrow")
    )
    assert ["enabled", None] == [row["pool_status"] for row in (enabled, first)]
    assert (False, True) == (disabled["can_be_borrowed"], disabled["can_be_collateral"])


def test_debt_that_weighs_without_bound() -> None:
    """If the liability factor is 0, the contract's test of health divides by zero: nobody can borrow."""
    row = at_now(V2 | {"l_factor": 0})

    assert (False, False, None) == tuple(
        row[name] for name in ("can_borrow", "can_be_borrowed", "liability_factor_bps")
    )


def test_code_that_nobody_knows() -> None:
    """If the contract's code is unknown, its gates are unknown, too, and the configuration is still shown."""
    row = at_now(V2 | {"wasm_hash": "ab" * 32})

    assert [None] * 5 == [row[f"can_{name}"] for name in ("supply", "withdraw", "borrow", "repay", "liquidate")]
    assert "the market runs code whose rules are not known" == row["can_reason"]
    assert 9_500 == row["collateral_factor_bps"]


def test_factors_round_against_the_borrower() -> None:
    """Factors and limits in basis points: what counts for the borrower down, what a debt weighs up."""
    row = at_now(V2 | {"c_factor": 9_499_999, "l_factor": 9_000_000, "supply_cap": 7, "bstop_rate": 1_999_999})

    expected = {
        "risk_scope": "reserve",
        "collateral_factor_bps": 9_499,
        "liquidation_threshold_bps": 9_499,
        "liability_factor_bps": 11_112,
        "liquidation_kind": "auction",
        "supply_cap": 7,
        "max_utilization_bps": 9_500,
        "reserve_factor_bps": 1_999,
        "can_be_collateral": True,
        "can_be_borrowed": True,
        "borrow_cap": None,
        "liquidation_bonus_bps": None,
    }
    assert expected == {name: row[name] for name in expected}
    assert not at_now(V2 | {"c_factor": 0})["can_be_collateral"]


def test_what_a_share_of_the_supply_was_paid() -> None:
    """The index of the suppliers goes by their shares."""
    paid = Emission(5, NOW + 60, stored=(7, NOW - 20))

    assert 7 + 20 * 5 * 10**7 // 3 == at_now(V2 | {"b_supply": 3, "supply_emission": paid})["supply_reward_index"]


def test_terms_beyond_128_bits_cost_nothing() -> None:
    """A reserve whose shares are worth next to nothing is read, whatever its cap is in shares."""
    reserve = V2 | {"b_rate": 1, "b_supply": 2**126, "d_supply": 0, "supply_cap": NO_CAP - 1, "d_rate": 1}

    assert 2**126 // 10**12 == at_now(reserve)["total_supplied"]
