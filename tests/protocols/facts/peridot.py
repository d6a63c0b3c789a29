"""The facts about Peridot that tests need (`tests.protocols.facts`)."""

from __future__ import annotations

from exporter.ledger.codec.entries import instance_key, variant_key
from exporter.ledger.codec.scval import BOOL, MAP, ScVal
from exporter.ledger.codec.scval_encode import VOID, address, i128, u32, u64, u128
from exporter.protocols.balances import balance_key
from exporter.protocols.base import AnyPool
from tests.protocols.places import MARKET, VAULT, XLM, vault
from tests.protocols.protocol_facts import Calls, NoticeCase, PriceAge, ProtocolFacts, UnreadCase
from tests.protocols.world import Change, World, account, answer, contract, each, put

CONTROLLER = MARKET["peridot"]
MODEL = str((World("peridot").value(vault("InterestModel")) or VOID)[1])
NO_METADATA = put(instance_key(XLM), None, "METADATA")
LENT = put(vault("TotalBorrowed"), u128(10**9))
FACTORS = ("ReserveFactorScaled", "AdminFeeScaled")
RATES = ("InterestModel", "BorrowYearlyRateScaled")
UNSUPPORTED = put(variant_key(CONTROLLER, "SupportedMarkets"), (BOOL, False), address(VAULT))


def boosted(given: ScVal | str) -> Change:
    """A vault of unknown code that lends and boosts, and what it says of what its suppliers own."""
    return each(
        LENT,
        put(vault("BoostedVault"), address(contract("DeFindex"))),
        lambda world: world.code(VAULT, bytes(32)),
        answer(VAULT, "get_total_underlying", given),
    )


def getters_of(pool: AnyPool) -> Calls:
    """The getters of a vault."""
    functions = "get_available_liquidity", "get_total_borrowed", "get_total_reserves", "get_exchange_rate"
    return [(pool.pool, function, ()) for function in functions]


FACTS = ProtocolFacts(
    pools=4,
    dollars=(20_000, 90_000),
    waves=[160, 37],
    admins={},
    price_age=PriceAge(600, takes_future=True),
    compared_fields=12,
    getters=getters_of,
    pool_list=None,
    has_lending_shape=True,
    shared={
        "(Supported": "the list of a market's vaults",
        "(Oracle": "the market's oracle, and how old its prices may be",
        "(Pause": "which operations a market has closed",
        "(Liquidation": "the market's bonus for liquidators",
        "(PeridotToken": "the token of a market's rewards",
    },
    unread_together=(
        "(SupportedMarke",
        "(Oracle",
        "(LiquidationInc",
        "(PeridotToken",
        "(Pause",
        "(JumpMultiplier",
        "(Kink",
        "(MultiplierPerY",
        "(BaseRatePerYea",
        "instance.",
    ),
    may_be_missing=(
        "(AdminFeeScaled)",
        "(BoostedUnderly",
        "(BoostedVault)",
        "(InterestModel)",
        "(ManagedCash)",
        "(Pause",
        "(ReserveFactorS",
        "(TotalAdminFees)",
        "(TotalReserves)",
        "instance.(TotalSupply)",
        "(BorrowCap)",
        "(LiquidationInc",
        "(MarketCF,",
        "(Peridottroller)",
        "(SupplyCap)",
        "(SupportedMarke",
    ),
    unread=[
        UnreadCase(put(vault("ReserveFactorScaled"), u128(10**6 + 1)), "is 1000001, above 1000000"),
        UnreadCase(put(vault("TotalReserves"), u128(2**127)), f"is {2**127}, above {2**127 - 1}"),
        UnreadCase(put(vault("LastUpdateTime"), u64(2**62)), f"is {2**62}, above"),
        UnreadCase(put(vault("BoostedVault"), address(account("a"))), "BoostedVault is not a contract"),
        UnreadCase(put(instance_key(VAULT), i128(-1), "TotalSupply"), "field TotalSupply is -1, below 0"),
        UnreadCase(
            each(*(put(vault(name), None) for name in RATES)), "InterestModel and BorrowYearlyRateScaled are missing"
        ),
        UnreadCase(NO_METADATA, "its token gives no decimals"),
        UnreadCase(put(instance_key(XLM), u32(39), "METADATA", "decimal"), "39 decimals, more than 38"),
        UnreadCase(each(LENT, put(balance_key(XLM, VAULT), None)), "has no balance of its token"),
        UnreadCase(each(LENT, *(put(vault(name), u128(500_001)) for name in FACTORS)), "together above 1"),
        UnreadCase(each(put(vault("ManagedCash"), None), put(vault("RatesReady"), None)), "form of before 2026"),
        UnreadCase(boosted("HostError: Error(WasmVm, InvalidAction)"), "get_total_underlying() failed: HostError"),
        UnreadCase(boosted(i128(5)), "get_total_underlying(): expected"),
        UnreadCase(boosted(u128(2**127)), "more than any token has"),
        UnreadCase(boosted(u128(1)), "what it can pay out is less than the"),
        UnreadCase(boosted(u128(0)), "what it lacks is not known"),
        UnreadCase(put(instance_key(VAULT), None, "TotalSupply"), "get_total_ptokens() failed"),
        UnreadCase(put(vault("Peridottroller"), address(contract("D"))), f"is {contract('D')}", "inconsistent"),
        UnreadCase(put(instance_key(VAULT), None), "no contract at this vault's address", "absent"),
        UnreadCase(
            each(*(put(vault(name), u128(0)) for name in ("ManagedCash", "TotalBorrowed"))),
            "receipt tokens without anything",
            "inconsistent",
        ),
        UnreadCase(boosted(u128(10**12)), "its code is not known", "overflow"),
    ],
    notices=[
        NoticeCase(put(variant_key(CONTROLLER, "OracleMaxAgeMultiplier"), u64(9)), 4, ["of up to 9 times"]),
        NoticeCase(
            put(variant_key(CONTROLLER, "OracleAssetSymbol", address(XLM)), u128(1)),
            4,
            ["its price is asked for by its address"],
        ),
        NoticeCase(UNSUPPORTED, 4, [f"market {CONTROLLER} does not list the known vault {VAULT}, or no longer"]),
        NoticeCase(each(UNSUPPORTED, put(instance_key(VAULT), None)), 3, ["does not exist, and market"]),
        NoticeCase(put(variant_key(CONTROLLER, "SupportedMarkets"), None), 4, ["has no list of its vaults"]),
        NoticeCase(put(balance_key(XLM, VAULT), None), 4, [f"what vault {VAULT} can pay out", "has no balance of"]),
    ],
    state=[(vault("TotalBorrowed"), u128(7)), (instance_key(VAULT), i128(5), "TotalSupply")],
    configuration=[
        (variant_key(CONTROLLER, "OracleMaxAgeMultiplier"), u64(3)),
        (variant_key(MODEL, "Kink"), u128(1)),
        (vault("ReserveFactorScaled"), u128(1)),
        (variant_key(CONTROLLER, "MarketCF", address(VAULT)), u128(1)),
        (variant_key(CONTROLLER, "PauseRedeem"), (MAP, ((address(VAULT), (BOOL, True)),))),
    ],
    keeps_decimals=False,
    lender_role="vault",
)
