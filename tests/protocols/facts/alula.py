"""The facts about Alula that tests need (`tests.protocols.facts`)."""

from __future__ import annotations

from exporter.ledger.codec.entries import instance_key, variant_key
from exporter.ledger.codec.scval import BYTES
from exporter.ledger.codec.scval_encode import VOID, address, i128, string, symbol, u32, u64, vec
from exporter.protocols.alula import layout
from tests.protocols.places import ALULA, MARKET, XLM
from tests.protocols.protocol_facts import (
    NoticeCase,
    PoolList,
    PriceAge,
    ProtocolFacts,
    UnreadCase,
    calls_of_market,
    recorded_list,
)
from tests.protocols.world import account, contract, each, put

MARKET_INSTANCE = instance_key(MARKET["alula"])
LIST = PoolList(variant_key(MARKET["alula"], "AllPools"))
POOLS = recorded_list("alula", LIST)
OTHER = address(contract("other"))
AMOUNTS = (
    *("interest_rate_modifier_bps", "take_rate_fees_sum", "total_available", "total_borrowed"),
    *("total_collateral", "total_d_tokens", "total_j_tokens"),
)
NO_METADATA = put(instance_key(XLM), None, "METADATA")
SECOND_KINK = ("config", "interest_rate_model", 1, "kink2_ur_bps")

FACTS = ProtocolFacts(
    pools=3,
    dollars=(6_000, 25_000),
    waves=[2, 12],
    admins={"Admin": "admin"},
    price_age=PriceAge(360),
    compared_fields=0,
    getters=lambda pool: calls_of_market(pool, "get_pool_data"),
    pool_list=LIST,
    has_lending_shape=True,
    shared={"(AllPools)": "the list of a market's pools"},
    unread_together=("(AllPools)", "instance."),
    may_be_missing=(),
    unread=[
        UnreadCase(put(ALULA, address(account("T")), "token_address"), "token_address is not a contract"),
        UnreadCase(put(ALULA, vec(symbol("Simple")), "config", "accrual_model"), "Simple is not known"),
        UnreadCase(put(ALULA, vec(symbol("Linear"), u32(1)), "config", "interest_rate_model"), "Linear is not known"),
        UnreadCase(put(ALULA, vec(symbol("Kinked")), "config", "interest_rate_model"), "has not one value"),
        UnreadCase(each(NO_METADATA, put(ALULA, string("x" * 201), "token_symbol")), "METADATA is missing; "),
        UnreadCase(put(ALULA, address(contract("else")), "pool_address"), contract("else"), "inconsistent"),
        UnreadCase(
            each(put(ALULA, i128(0), "total_available"), put(ALULA, i128(10_000), *SECOND_KINK)),
            "kinked APR",
            "inconsistent",
        ),
    ],
    notices=[
        NoticeCase(
            put(MARKET_INSTANCE, None, "DeployerHost"),
            3,
            ["because a list or [[markets]] names it", "names no market manager"],
        ),
        NoticeCase(put(MARKET_INSTANCE, address(account("m")), "DeployerHost"), 3, ["names no market manager"]),
        NoticeCase(
            put(MARKET_INSTANCE, address(contract("m")), "DeployerHost"),
            3,
            [f"{contract('m')} has no record of it"],
        ),
        NoticeCase(put(instance_key(XLM), None, "METADATA"), 3, ["does not give its symbol", "is the copy in pool"]),
        NoticeCase(put(ALULA, None, "config", "status"), 3, ["lacks flags; what depends on that is null"]),
    ],
    state=[
        *((ALULA, i128(12_345), name) for name in AMOUNTS),
        (ALULA, u64(12_345), "last_accrual_timestamp"),
        (ALULA, u32(9), "token_decimals"),
        (ALULA, (BYTES, bytes(32)), "farm_debt"),
        (ALULA, string("x"), "name"),
        *((MARKET_INSTANCE, VOID, vec(symbol(name))) for name in sorted(layout.NOT_CONFIGURATION)),
    ],
    configuration=[
        (MARKET_INSTANCE, vec(symbol("Frozen")), "MarketStatus"),
        (MARKET_INSTANCE, string("other"), "Name"),
        *((MARKET_INSTANCE, u32(11), name) for name in ("MaxPositions", "Farms", "Later", u32(5))),
        *((LIST.key, vec(*pools)) for pools in (POOLS[:1], POOLS[::-1])),
        (ALULA, u32(1_001), "config", "fee_config", "take_rate_bps"),
        (ALULA, u32(0), "config", "status", "flags"),
        (ALULA, None, "config"),
        (ALULA, OTHER, "token_address"),
        (ALULA, VOID),
        (ALULA, None),
    ],
)
