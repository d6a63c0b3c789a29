"""Tokens, oracles and price feeds of the made network: seeded, and moving with it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import Enum
from itertools import cycle
from math import isqrt
from random import Random

from exporter.deployments.made_addresses import made_address
from exporter.ledger.codec import strkey
from exporter.ledger.codec.entries import PERSISTENT, TEMPORARY
from exporter.localnet.contracts import Token, TokenLayout, price_entry, price_key

_PRICE_DIGITS = 14
_FIRST_TOKENS = (  # symbol, decimals, layout, price in USD with 14 decimals
    ("native", 7, TokenLayout.STELLAR_ASSET, 26_310_000_000_000),
    ("USDC", 7, TokenLayout.STELLAR_ASSET, 99_980_000_000_000),
    ("EURC", 7, TokenLayout.STELLAR_ASSET, 115_420_000_000_000),
    ("SolvBTC", 8, TokenLayout.WASM, 8_612_345_000_000_000_000),
    ("wETH", 18, TokenLayout.WASM, 312_744_000_000_000_000),
    ("USTRY", 6, TokenLayout.OWN, 108_770_000_000_000),
    ("USDC", 6, TokenLayout.WASM, 100_010_000_000_000),  # the same symbol, bridged
    ("AQUA", 7, TokenLayout.STELLAR_ASSET, 75_200_000_000),
)
_MORE_SYMBOLS = (
    "yUSDC",
    "CETES",
    "BLND",
    "PYUSD",
    "yXLM",
    "USDx",
    "EURx",
    "GBPx",
    "USDGLO",
    "XRP",
    "SHX",
    "VELO",
    "TESOURO",
    "KTB",
    "oUSD",
    "CPAL",
    "BTC",
    "ETH",
    "USDC",
    "sXLM",
)


class FeedKind(Enum):
    """How an oracle answers for an asset."""

    NORMAL = "normal"
    CONSTANT = "constant, always of now"
    MISSING = "no price"
    EXPIRING = "a temporary price that expires and is not renewed"
    UNKNOWN = "traps"
    STALE = "older than a day"
    ZERO = "zero"
    NEGATIVE = "negative"


_ODD_FEEDS = (
    FeedKind.STALE,
    FeedKind.MISSING,
    FeedKind.UNKNOWN,
    FeedKind.ZERO,
    FeedKind.NEGATIVE,
    FeedKind.CONSTANT,
)
_STALE_SECONDS = 90_000
_LIFE_OF_PRICES = 17_280  # ledgers: a day


@dataclass(frozen=True, slots=True)
class Oracle:
    """A price oracle: its address, the decimals of its prices, and the durability of its price entries."""

    contract: str
    decimals: int
    durability: int


@dataclass(slots=True)
class Feed:
    """What an oracle says about a token; ``price`` is in USD with 14 decimals whatever the oracle's are."""

    oracle: Oracle
    token: str
    kind: FeedKind
    price: int

    @property
    def has_price_entry(self) -> bool:
        """Whether the feed's price is in an entry of its own."""
        return self.kind not in (FeedKind.CONSTANT, FeedKind.MISSING, FeedKind.UNKNOWN)

    @property
    def key(self) -> bytes:
        """The LedgerKey XDR of its price."""
        return price_key(self.oracle.contract, self.token, self.oracle.durability)

    @property
    def renewed(self) -> bool:
        """Whether the oracle goes on writing new prices for it."""
        return self.kind in (FeedKind.NORMAL, FeedKind.ZERO, FeedKind.NEGATIVE)

    def scaled_price(self) -> int:
        """The price as the oracle gives it."""
        if self.kind is FeedKind.ZERO:
            return 0
        price = max(self.price // int(10 ** (_PRICE_DIGITS - self.oracle.decimals)), 1)
        return -price if self.kind is FeedKind.NEGATIVE else price

    def move(self, random: Random) -> None:
        """A new price, up to 0.3% away."""
        self.price = max(self.price + self.price * random.randint(-30, 30) // 10_000, 10**8)

    def entry(self, time: int) -> tuple[bytes, bytes]:
        """The price entry as the oracle writes it at ``time`` (unix seconds)."""
        timestamp = time - _STALE_SECONDS if self.kind is FeedKind.STALE else time
        return price_entry(self.oracle.contract, self.token, self.scaled_price(), timestamp, self.oracle.durability)

    def live_until(self, ledger: int) -> int:
        """The last ledger a price written at ``ledger`` lives until."""
        if self.kind is FeedKind.EXPIRING:
            return ledger + 3
        return ledger + (_LIFE_OF_PRICES if self.oracle.durability == TEMPORARY else 46 * 17_280)


def made_account(label: str) -> str:
    """The G strkey of an account that nobody has the key of."""
    return strkey.encode(strkey.ACCOUNT, hashlib.sha256(label.encode()).digest())


def make_tokens(random: Random, pools: int, at_least: int) -> tuple[list[Token], list[int]]:
    """The tokens of a network of so many pools, with their prices in USD with 14 decimals.

    The first are always the same; symbols repeat, as on the network.
    """
    count = max(len(_FIRST_TOKENS), at_least, 12 + 2 * isqrt(pools))
    tokens, prices = [], []
    for index in range(count):
        if index < len(_FIRST_TOKENS):
            name, decimals, layout, price = _FIRST_TOKENS[index]
        else:
            name = random.choice(_MORE_SYMBOLS)
            layout = random.choice((TokenLayout.STELLAR_ASSET,) * 6 + (TokenLayout.WASM, TokenLayout.OWN))
            decimals = 7 if layout is TokenLayout.STELLAR_ASSET else random.choice((6, 7, 8, 9, 18))
            price = random.randint(1, 999) * 10 ** random.randint(9, 15)
        issuer = made_account(f"localnet issuer {index}")
        tokens.append(
            Token(
                contract=made_address(f"localnet token {index}"),
                symbol=name,
                decimals=decimals,
                layout=layout,
                admin=issuer,
                issuer=issuer if layout is TokenLayout.STELLAR_ASSET and index else None,
                price=price,
            )
        )
        prices.append(price)
    return tokens, prices


def make_oracles() -> list[Oracle]:
    """Five oracles, of 7 and of 14 decimals, with persistent and with temporary prices."""
    return [
        Oracle(made_address(f"localnet oracle {index}"), decimals, durability)
        for index, (decimals, durability) in enumerate(
            ((7, PERSISTENT), (14, TEMPORARY), (7, PERSISTENT), (14, PERSISTENT), (7, TEMPORARY))
        )
    ]


def make_feeds(random: Random, oracles: list[Oracle], tokens: list[Token], prices: list[int]) -> list[Feed]:
    """A feed for every token at every oracle. One in twelve is odd, never those of the first three tokens."""
    # a persistent price would be archived when it expires, and look restored in a simulation
    odd_kinds = {TEMPORARY: cycle((FeedKind.EXPIRING, *_ODD_FEEDS)), PERSISTENT: cycle(_ODD_FEEDS)}
    feeds = []
    for oracle in oracles:
        for index, (token, price) in enumerate(zip(tokens, prices, strict=True)):
            odd = index >= 3 and random.randrange(12) == 0
            kind = next(odd_kinds[oracle.durability]) if odd else FeedKind.NORMAL
            feeds.append(Feed(oracle, token.contract, kind, price))
    return feeds
