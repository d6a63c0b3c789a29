"""The facts about K2 that tests need (`tests.protocols.facts`)."""

from __future__ import annotations

from exporter.ledger.codec.entries import data_key, instance_key, variant_key
from exporter.ledger.codec.scval import BOOL, ScVal
from exporter.ledger.codec.scval_encode import VOID, address, i128, string, symbol, u64, u128
from exporter.protocols.balances import balance_key
from exporter.protocols.k2 import layout
from tests.protocols.places import A_TOKEN, DEBT_TOKEN, K2, LOW, MARKET, USDC, XLM, field
from tests.protocols.protocol_facts import NoticeCase, PoolList, PriceAge, ProtocolFacts, UnreadCase, calls_of_market
from tests.protocols.world import account, contract, each, put

MARKET_INSTANCE = instance_key(MARKET["k2"])
OTHER = address(contract("other"))
OF_USDC = field(layout.reserve_key(MARKET["k2"], USDC), "interest_rate_strategy_address")
CURVE_OF_USDC = variant_key(OF_USDC, "APARAMS", address(USDC))
RATES = ("liquidity_index", "variable_borrow_index", "current_liquidity_rate", "current_variable_borrow_rate")


def bits(value: int, first: int, width: int) -> ScVal:
    """The low word of a reserve's bitmap with other bits."""
    return u128(LOW & ~((1 << width) - 1 << first) | value << first)


FACTS = ProtocolFacts(
    pools=4,
    dollars=(50, 300),
    waves=[3, 17, 18],
    admins={"PADMIN": "pool admin", "EADMIN": "emergency admin", "ADMIN": "admin of upgrades"},
    price_age=PriceAge(86_400),
    compared_fields=52,
    getters=lambda pool: calls_of_market(pool, "get_current_reserve_data", "get_current_var_borrow_idx"),
    pool_list=PoolList(data_key(MARKET["k2"], symbol("RLIST"))),
    has_lending_shape=True,
    shared={"RLIST": "the list of a market's reserves", "RCOUNT": "how many there are"},
    unread_together=("RLIST", "RCOUNT", "instance."),
    may_be_missing=(
        "(APARAMS,",
        "(Balance,",
        "(RDEBTCEIL,",
        "instance.BVR",
        "instance.OU",
        "instance.PAUSED",
        "instance.VS1",
    ),
    unread=[
        UnreadCase(put(K2, address(account("A")), "a_token_address"), "a_token_address is not a contract"),
        UnreadCase(put(K2, bits(39, 42, 8), "configuration", "data_low"), "39 decimals, more than 38"),
        UnreadCase(put(K2, bits(10_001, 57, 14), "configuration", "data_low"), "factor is 10001, above 10000"),
        UnreadCase(
            put(A_TOKEN, address(USDC), "State", "underlying_asset"), "says that it is of asset", "inconsistent"
        ),
        UnreadCase(put(DEBT_TOKEN, address(USDC), "State", "pool_address"), "says that it is of asset", "inconsistent"),
        UnreadCase(
            each(
                put(A_TOKEN, i128(10**38 - 1), "State", "total_supply_scaled"), put(K2, u128(10**28), "liquidity_index")
            ),
            "total supply",
            "overflow",
        ),
    ],
    notices=[NoticeCase(put(balance_key(XLM, field(K2, "a_token_address")), None), 4, ["cannot be determined"])],
    state=[
        *((K2, u128(12_345), name) for name in RATES),
        (K2, u64(12_345), "last_update_timestamp"),
        (A_TOKEN, i128(7), "State", "total_supply_scaled"),
        (DEBT_TOKEN, i128(7), "State", "total_debt_scaled"),
        (A_TOKEN, None),
        (DEBT_TOKEN, None),
        (instance_key(XLM), string("other"), "METADATA", "symbol"),
        *((MARKET_INSTANCE, VOID, name) for name in sorted(layout.NOT_CONFIGURATION - {"ORACFG"})),
    ],
    configuration=[
        (MARKET_INSTANCE, (BOOL, True), "PAUSED"),
        (MARKET_INSTANCE, OTHER, "ORACLE"),
        (K2, u128(LOW ^ 1 << 51), "configuration", "data_low"),
        (K2, u128(77), "configuration", "data_high"),
        (CURVE_OF_USDC, u128(1), "variable_rate_slope1"),
        (instance_key(field(K2, "interest_rate_strategy_address")), u128(8), "OU"),
        (K2, None),
    ],
)
