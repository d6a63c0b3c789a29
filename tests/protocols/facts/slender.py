"""The facts about Slender that tests need (`tests.protocols.facts`)."""

from __future__ import annotations

from exporter.ledger.codec.entries import instance_key
from exporter.ledger.codec.scval import BOOL
from exporter.ledger.codec.scval_encode import address, i128, struct_map, symbol, u32, vec
from exporter.protocols.base import AnyPool
from tests.protocols.places import FEED, RESERVE, SLENDER, SLENDER_DEBT, XLM
from tests.protocols.protocol_facts import (
    Calls,
    NoticeCase,
    PoolList,
    PriceAge,
    ProtocolFacts,
    UnreadCase,
    calls_of_market,
)
from tests.protocols.world import each, put

NO_METADATA = put(instance_key(XLM), None, "METADATA")


def getters_of(pool: AnyPool) -> Calls:
    """The getters of a pool contract that are about a reserve."""
    market, s_token = pool.market.address, address(pool.state.s_token)
    return [
        *calls_of_market(pool, "get_reserve", "collat_coeff", "debt_coeff"),
        (market, "token_total_supply", (s_token,)),
        (market, "token_total_supply", (address(pool.state.debt_token),)),
        (market, "token_balance", (address(pool.pool), s_token)),
    ]


FACTS = ProtocolFacts(
    pools=3,
    dollars=(50, 300),
    waves=[1, 10],
    admins={"Admin": "admin"},
    price_age=PriceAge(86_400),
    compared_fields=0,
    getters=getters_of,
    pool_list=PoolList(SLENDER, (vec(symbol("Reserves")),)),
    has_lending_shape=True,
    shared={},
    unread_together=("instance.(Reserves)", "instance.(PoolConfig)", "instance.(Pause)"),
    may_be_missing=("instance.(ProtocolFeeVau", "instance.(TokenSupply"),
    unread=[
        UnreadCase(put(SLENDER, None, RESERVE), "is listed, but ReserveAssetKey has none of it"),
        UnreadCase(put(SLENDER, vec(symbol("Fungible")), RESERVE, "reserve_type"), "has not two tokens"),
        UnreadCase(put(SLENDER, vec(symbol("Isolated")), RESERVE, "reserve_type"), "is Isolated, neither"),
        UnreadCase(put(SLENDER, vec(), RESERVE, "reserve_type"), "reserve_type is empty, neither"),
        UnreadCase(put(SLENDER, i128(-1), vec(symbol("TokenSupply"), SLENDER_DEBT)), "is negative"),
        UnreadCase(put(SLENDER, vec(symbol("Third")), FEED, "feeds", 0, "feed_asset"), "neither Stellar nor Other"),
        UnreadCase(put(SLENDER, u32(39), FEED, "asset_decimals"), "decimals are 39"),
        UnreadCase(
            each(NO_METADATA, put(SLENDER, None, FEED)), "decimals are None: token instance: field METADATA is missing"
        ),
    ],
    notices=[
        NoticeCase(
            put(SLENDER, vec(symbol("RWA")), RESERVE, "reserve_type"), 2, ["is of type RWA, which lends nothing"]
        )
    ],
    state=[
        (SLENDER, i128(5), vec(symbol("TokenSupply"), SLENDER_DEBT)),
        (SLENDER, (BOOL, True), "Pause", "paused"),
        (SLENDER, i128(2 * 10**9), RESERVE, "lender_ar"),
    ],
    configuration=[(SLENDER, struct_map({}), RESERVE, "configuration"), (SLENDER, None, FEED)],
    has_curve=False,  # the rate is a power of the utilization
    named_otherwise=("instance.(ReserveAssetKe",),  # a reserve's tokens are called by its type
)
