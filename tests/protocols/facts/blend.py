"""The facts about Blend that tests need (`tests.protocols.facts`)."""

from __future__ import annotations

from exporter.ledger.codec.entries import data_key, instance_key
from exporter.ledger.codec.scval import BOOL
from exporter.ledger.codec.scval_encode import VOID, address, i128, string, symbol, u32, u64, vec
from tests.localnet.recorded import BLEND_V2
from tests.protocols.places import CONFIG, DATA
from tests.protocols.protocol_facts import PoolList, PriceAge, ProtocolFacts, UnreadCase, calls_of_market, recorded_list
from tests.protocols.world import contract, each, put, token

MARKET_INSTANCE = instance_key(BLEND_V2)
LIST = PoolList(data_key(BLEND_V2, symbol("ResList")))
POOLS = recorded_list("blend", LIST)
OTHER = address(contract("other"))
AMOUNTS = ("b_rate", "b_supply", "d_rate", "d_supply", "ir_mod", "backstop_credit")
FACTORS = (
    *("util", "r_base", "r_one", "r_two", "r_three", "reactivity"),
    *("max_util", "c_factor", "l_factor", "decimals"),
)

FACTS = ProtocolFacts(
    pools=6,
    dollars=(50_000_000, 200_000_000),
    waves=[16, 54],
    admins={"Admin": "admin"},
    price_age=PriceAge(86_400, takes_future=True),
    compared_fields=0,
    getters=lambda pool: calls_of_market(pool, "get_reserve") if pool.market.version == "v2" else [],
    pool_list=LIST,
    has_lending_shape=False,  # only while somebody has a position there
    shared={
        "ResList": "the list of a market's reserves",
        "PoolEmis": "what a market's reserves are paid; rewards alone follow from it",
    },
    unread_together=("ResList", "instance."),
    may_be_missing=(),
    unread=[
        UnreadCase(put(CONFIG, None, "enabled"), "of the fields enabled and supply_cap only one is there"),
        UnreadCase(put(CONFIG, None, "supply_cap"), "of the fields enabled and supply_cap only one is there"),
        UnreadCase(put(instance_key(token("wBTC")), None, "METADATA"), "METADATA is missing; "),
        UnreadCase(
            each(put(CONFIG, None, "enabled"), put(CONFIG, None, "supply_cap")), "has the form of v1", "inconsistent"
        ),
        UnreadCase(
            each(*(put(DATA, i128(2**127 - 1), name) for name in ("b_supply", "b_rate"))),
            "the market's own math has no result: total supply: multiply_divide_floor: the result does not fit",
            "overflow",
        ),
    ],
    notices=[],
    state=[
        *((DATA, i128(12_345), name) for name in AMOUNTS),
        (DATA, u64(12_345), "last_time"),
        (DATA, None),  # the reserve is configured all the same
    ],
    configuration=[
        *((CONFIG, u32(12_345), name) for name in FACTORS),
        (CONFIG, (BOOL, False), "enabled"),
        (CONFIG, i128(5), "supply_cap"),
        (CONFIG, VOID),
        (CONFIG, None),
        *((LIST.key, vec(*pools)) for pools in (POOLS[:1], (*POOLS, OTHER))),
        *((MARKET_INSTANCE, u32(5), "Config", name) for name in ("status", "bstop_rate", "max_positions")),
        (MARKET_INSTANCE, OTHER, "Config", "oracle"),
        (MARKET_INSTANCE, string("Test2"), "Name"),
        *((MARKET_INSTANCE, VOID, name) for name in ("Admin", "Backstop", "New")),
        (MARKET_INSTANCE, None, "BLNDTkn"),
    ],
)
