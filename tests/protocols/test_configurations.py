"""Of several protocols' markets: what changes the hash of a configuration, endless names, lists that are missing."""

from __future__ import annotations

from functools import partial

import pytest

from exporter.ledger.codec.scval import BOOL, BYTES
from exporter.ledger.codec.scval_encode import VOID, address, i128, string, struct_map, symbol, u32, u64, u128, vec
from exporter.protocols.xoxno.layout import CONFIGURATION as XOXNO_KEYS
from tests.protocols import alula_chain, blend_chain, k2_chain, peridot_chain, slender_chain
from tests.protocols import xoxno_ledger as xoxno
from tests.protocols.all_ledgers import ASSETS, computed, ledger_of, listed
from tests.protocols.blend_chain import BlendLedger
from tests.protocols.made_ledger import (
    NOW,
    Change,
    Written,
    account,
    candidate_of,
    contract,
    counts_of,
    entry,
    put,
    struct_of,
    token_instance,
    unread_of,
    without,
)
from tests.protocols.slender_chain import SlenderLedger, variant

A, XLM, VAULT = contract("A"), contract("XLM"), contract("XLM vault")


def hash_of(protocol: str, *changes: Written | Change) -> str:
    """The hash of a market of two pools with these changes."""
    ledger = ledger_of(protocol)
    for item in changes:
        (put(item) if isinstance(item, tuple) else item)(ledger)
    (market,) = ledger.read([candidate_of(protocol, "A")], listed(protocol)).result.markets
    return market.config_hash


def slender_pool(**reserve: object) -> Written:
    """The one entry of a Slender pool, with other debt, a pause, and changes to its first reserve."""
    ledger = SlenderLedger()
    ledger.add_market("A", ASSETS)
    data = slender_chain.reserve_data("USDC", **reserve)
    state = {variant("TokenSupply", "XLM s"): i128(5), variant("Pause"): slender_chain.pause(True)}
    ledger.change("A", {variant("ReserveAssetKey", "USDC"): data} | state)
    return ledger.instance("A")


ALULA_FLAGS = alula_chain.pool_config(status=struct_map({"flags": u32(0)}))
BLEND_CONFIG, BLEND_LIST = blend_chain.reserve_config("A", "XLM", "v2"), partial(blend_chain.reserve_list, "A")

STATE: dict[str, list[Written | Change]] = {
    "alula": [
        *(alula_chain.pool("A", "XLM", **{name: 12_345}) for name in alula_chain.STATE),
        alula_chain.pool("A", "XLM", last_accrual_timestamp=u64(NOW), farm_debt=(BYTES, bytes(32)), name=string("x")),
        *(
            alula_chain.market_instance("A", storage={name: VOID})
            for name in (
                "ProposedAdmin",
                "MarketConfigUpdate",
                "FlashReserved",
            )
        ),
    ],
    "blend": [
        *(
            blend_chain.reserve_data("A", "XLM", "v2", **{name: 1_000_000_001})
            for name in (
                "b_rate",
                "b_supply",
                "d_rate",
                "d_supply",
                "ir_mod",
                "backstop_credit",
                "last_time",
            )
        ),
        without(blend_chain.reserve_data("A", "XLM", "v2")),  # the reserve is configured all the same
    ],
    "k2": [
        k2_chain.reserve("A", "XLM", liquidity_index=2 * 10**27, current_liquidity_rate=1, last_update_timestamp=5),
        k2_chain.a_token("A", "XLM", k2_chain.SUPPLY + 1),
        k2_chain.debt_token("A", "XLM", k2_chain.DEBT + 1),
        k2_chain.router_instance("A", storage={"REENTRY": (BOOL, True), "FLACTIVE": (BOOL, True)}),
        k2_chain.router_instance("A", storage={"PPADMIN": address(account("next"))}),
        token_instance("XLM", b"other"),
        without(k2_chain.a_token("A", "XLM")),
        without(k2_chain.debt_token("A", "XLM")),
    ],
    "peridot": [
        peridot_chain.stored("XLM vault", "TotalBorrowed", u128(7)),
        peridot_chain.vault_instance("XLM vault", 5),
    ],
    "slender": [slender_pool(), slender_pool(lender_ar=2 * 10**9)],
    "xoxno": [xoxno.controller("A", storage={"AccountCounter": u64(9)}), xoxno.state("A", 1, "XLM", supplied=7)],
}

CONFIGURATION: dict[str, list[Written | Change]] = {
    "alula": [
        alula_chain.market_instance("A", "Frozen"),
        alula_chain.market_instance("A", name=b"other"),
        *(alula_chain.market_instance("A", storage={name: u32(11)}) for name in ("MaxPositions", "Farms", "Later")),
        *(alula_chain.all_pools("A", pools) for pools in (["XLM"], ["XLM", "USDC"])),
        *(alula_chain.pool("A", "XLM", config=item) for item in (None, alula_chain.pool_config(1_001), ALULA_FLAGS)),
        alula_chain.pool("A", "XLM", token_address=address(contract("other"))),
        entry(A, vec(symbol("Pool"), address(XLM)), VOID),
        without(alula_chain.pool("A", "XLM")),
    ],
    "blend": [
        *(
            blend_chain.reserve_config("A", "XLM", "v2", **{name: 12_345})
            for name in blend_chain.RESERVE_CONFIG
            if name != "index"
        ),
        *(
            blend_chain.reserve_config("A", "XLM", "v2", **item)
            for item in (
                {"enabled": (BOOL, False)},
                {"supply_cap": i128(5)},
            )
        ),
        *((BLEND_CONFIG[0], data) for data in (b"", BLEND_CONFIG[1] + b"\0\0\0\1", BLEND_CONFIG[1] + b"\0\0\0\2")),
        without(BLEND_CONFIG),
        *(BLEND_LIST(pools) for pools in (["USDC"], ["USDC", "BLND"], ["USDC", "XLM", "BLND"])),
        blend_chain.pool_instance("A", "v2", status=0),
        blend_chain.pool_instance("A", "v2", name=b"Test2"),
        blend_chain.pool_instance("A", "v2", oracle=contract("another oracle")),
        blend_chain.pool_instance("A", "v2", bstop_rate=0),
        blend_chain.pool_instance("A", "v2", config={"max_positions": u32(5)}),
        *(blend_chain.pool_instance("A", "v2", storage={name: VOID}) for name in ("Admin", "Backstop", "New")),
        blend_chain.pool_instance("A", "v2", storage={"BLNDTkn": None}),
    ],
    "k2": [
        k2_chain.router_instance("A", storage={"PAUSED": (BOOL, True)}),
        k2_chain.router_instance("A", storage={"ORACLE": address(contract("other"))}),
        k2_chain.reserve("A", "XLM", configuration=k2_chain.bitmap(reserve_factor=1)),
        k2_chain.reserve("A", "XLM", configuration=k2_chain.bitmap(caps=(1, 0))),
        k2_chain.rate_model("A", "XLM", variable_rate_slope1=1),
        k2_chain.reserve_list("A", ["USDC"]),
        k2_chain.reserve_list("A", ["XLM", "USDC"]),
        without(k2_chain.reserve("A", "XLM")),
    ],
    "peridot": [
        peridot_chain.stored("A", "OracleMaxAgeMultiplier", u64(3)),
        peridot_chain.stored("model", "Kink", u128(1)),
        peridot_chain.stored("XLM vault", "ReserveFactorScaled", u128(1)),
        entry(A, vec(symbol("MarketCF"), address(VAULT)), u128(1)),
        peridot_chain.stored("A", "PauseRedeem", peridot_chain.flags({"XLM vault": True})),
    ],
    "slender": [slender_pool(configuration=struct_of({}))],
    "xoxno": [
        *(xoxno.controller("A", storage={name: VOID if name != "Pool" else address(XLM)}) for name in XOXNO_KEYS),
        *(
            xoxno.parameters("A", 1, "XLM", **item)
            for item in (
                {"slope1": 1},
                {"flashloan_fee": u32(10)},
                {"added_later": u32(1)},
            )
        ),
        without(xoxno.parameters("A", 1, "XLM")),
    ],
}


@pytest.mark.parametrize("protocol", STATE)
def test_config_hash(protocol: str) -> None:
    """The hash stays with the state, whatever moves or cannot be read; each change of the configuration moves it."""
    before = hash_of(protocol)
    hashes = [before, *(hash_of(protocol, item) for item in CONFIGURATION[protocol])]

    assert {before} == {hash_of(protocol, item) for item in STATE[protocol]}
    assert len(hashes) == len(set(hashes))
    assert 16 == len(before)


@pytest.mark.parametrize(
    ("protocol", "named"),
    [("alula", alula_chain.market_instance), ("blend", partial(blend_chain.pool_instance, generation="v2"))],
)
def test_endless_name(protocol: str, named: object) -> None:
    """A name without end is cut, in the rows of the pools too, with a notice; the hash is of the whole of it."""
    assert callable(named)
    ledger, hashes = ledger_of(protocol), set()
    for end in (b"a", b"b"):
        written = named("A", name=b"x" * 10_000 + end)
        ledger.replace(written)
        tables = computed(protocol, ledger)
        hashes.add(tables.markets["config_hash"].item())

    assert ["x" * 200] * 3 == [*tables.markets["name"], *tables.pools["market_name"]]
    assert [f"market {A} has a name of 10001 characters; 200 of them are shown"] == tables.notices
    assert 2 == len(hashes)


@pytest.mark.parametrize(
    ("protocol", "new", "used", "status", "told"),
    [
        (
            "alula",
            alula_chain.market_instance("A", "Frozen"),
            alula_chain.market_instance("A"),
            "frozen",
            "the market is active and has no list of pools",
        ),
        (
            "blend",
            blend_chain.pool_instance("A", "v2", status=6),
            blend_chain.pool_instance("A", "v2", status=3),
            "setup",
            "the market is on_ice and has no list of reserves",
        ),
    ],
)
def test_market_without_a_list(protocol: str, new: Written, used: Written, status: str, told: str) -> None:
    """A market that has just been made has no pools yet; one that is in use lacks its list, and is unread."""
    ledger = BlendLedger() if protocol == "blend" else alula_chain.AlulaLedger()
    ledger.replace(new, alula_chain.deployed_market("A"))
    tables = computed(protocol, ledger)
    assert ([(status, None)], {A: (0, 0)}) == (
        tables.markets.select("status", "tvl_usd_cents").rows(),
        counts_of(tables),
    )
    assert ([], [f"{protocol} has 1 market without a pool: {A}"]) == (tables.unread, tables.notices)

    ledger.replace(used)
    tables = computed(protocol, ledger)
    ((place, (reason, detail)),) = unread_of(tables).items()
    assert (0, (A, None), "absent") == (tables.markets.height, place, reason)
    assert detail.startswith(told)
