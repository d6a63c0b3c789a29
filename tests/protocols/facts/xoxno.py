"""The facts about XOXNO that tests need (`tests.protocols.facts`)."""

from __future__ import annotations

from exporter.ledger.codec.entries import instance_key
from exporter.ledger.codec.scval_encode import VOID, address, i128, struct_map, u32, u64, vec
from exporter.protocols.base import AnyPool
from exporter.protocols.xoxno import layout
from tests.protocols.places import MARKET, PARAMETERS, STATE, USDC, XLM
from tests.protocols.protocol_facts import Calls, NoticeCase, ProtocolFacts, UnreadCase
from tests.protocols.world import contract, each, put

CONTROLLER = MARKET["xoxno"]
MARKET_INSTANCE = instance_key(CONTROLLER)
OTHER = address(contract("other"))
AMOUNTS = ("borrow_index", "borrowed", "cash", "revenue", "supplied", "supply_index")


def getters_of(pool: AnyPool) -> Calls:
    """The getters of the pool contract that are about a pool."""
    hub, token = pool.pool.split("-")
    key = struct_map({"asset": address(token), "hub_id": u32(int(hub))})
    singles = (
        "get_borrow_rate",
        "get_borrowed_amount",
        "get_deposit_rate",
        "get_reserves",
        "get_revenue",
        "get_supplied_amount",
        "get_utilisation",
    )
    contract = pool.state.pool_contract
    return [*((contract, function, (key,)) for function in singles), (contract, "get_bulk_indexes", (vec(key),))]


FACTS = ProtocolFacts(
    pools=4,
    dollars=(40_000, 150_000),
    waves=[5, 26, 8],
    admins={"Owner": "owner"},
    price_age=None,
    compared_fields=28,
    getters=getters_of,
    pool_list=None,
    has_lending_shape=True,
    shared={
        "(Hub,": "the state of a hub, which has several pools",
        "(Spoke,": "the terms of a spoke, which several pools have",
    },
    unread_together=("instance.",),
    may_be_missing=("(Hub,", "(Spoke,", "(SpokeAsset,", "(SpokeUsage,"),
    unread=[
        UnreadCase(put(instance_key(USDC), None, "METADATA"), "METADATA is missing; "),
        UnreadCase(put(PARAMETERS, address(XLM), "asset_id"), XLM, "inconsistent"),
        UnreadCase(
            each(put(STATE, i128(2**127 - 1), "supplied"), put(STATE, i128(10**28), "supply_index")), "", "overflow"
        ),
    ],
    notices=[
        NoticeCase(
            put(MARKET_INSTANCE, address(contract("p")), "Pool"),
            0,
            ["keeps its pools in contract", "announced but not deployed: 1-", "none of its pools is known"],
        ),
        NoticeCase(
            put(MARKET_INSTANCE, address(contract("a")), "PriceAggregator"),
            4,
            [f"takes its prices from contract {contract('a')}, not the"],
        ),
        NoticeCase(put(MARKET_INSTANCE, u32(1), "PriceAggregator"), 4, ["names no price aggregator"]),
        NoticeCase(put(MARKET_INSTANCE, None, "LastSpokeId"), 4, ["was not read; their number is not known"]),
        NoticeCase(
            put(MARKET_INSTANCE, u32(4_000), "LastSpokeId"),
            4,
            ["was not read; their number is 4000, too many"],
        ),
        NoticeCase(put(layout.controller_key(CONTROLLER, "Hub", 1), VOID), 4, ["whether hub 1 is active is not known"]),
    ],
    state=[
        (MARKET_INSTANCE, u64(9), "AccountCounter"),
        *((STATE, i128(12_345), name) for name in AMOUNTS),
        (STATE, u64(12_345), "last_timestamp"),
    ],
    configuration=[
        *((MARKET_INSTANCE, OTHER, name) for name in layout.CONFIGURATION),
        *((PARAMETERS, i128(1), name) for name in ("slope1", "flashloan_fee", "added_later")),
        (PARAMETERS, None),
    ],
    token=USDC,
    lender_role="pool",
)
