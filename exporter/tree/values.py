"""The kinds of values in documents, each with its form, its meaning and an example.

Token amounts, prices and money are decimal strings, because they can exceed 2^53. Basis points, decimals, ledgers and
counts are integers. Amounts, prices and yields are never negative: totals, debts and collateral are sums of positions,
which are above zero; prices count only if they are above zero; and yields follow from these.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any

from msgspec import Meta

from exporter.tree.dates import TIME
from exporter.tree.files import KEY_SEGMENT, MAX_KEY_BYTES, FileKind

CONTRACT = "C[A-Z2-7]{55}"
"""The regular expression of a contract's address."""

POOL = "[A-Za-z0-9][A-Za-z0-9_-]{0,127}"
"""The regular expression of a pool's id."""

CURSOR = "[A-Za-z0-9_-]{1,128}"
"""The regular expression of a page's cursor."""

SYMBOL = "[A-Za-z0-9][A-Za-z0-9._-]{0,31}"
"""The regular expression of a symbol by which tokens can be asked for. Its file has the symbol in lower case.

Tokens with other symbols are found by their addresses.
"""

PROTOCOL = "[A-Za-z0-9][A-Za-z0-9_-]{0,31}"
"""The regular expression of a protocol's name. Names are in lower case; a query may have them in any case."""

RUN_ID = "[0-9]{1,10}-[A-Za-z0-9_-]{1,117}"
"""The regular expression of a run's id."""

PUBLIC_URL = r"https://[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*(?::[0-9]{1,5})?(?:/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*"
"""The address of a published tree, without a slash at its end, as a regular expression."""
MAX_PUBLIC_URL = 200

BUCKET_NAMES = ("5m", "1h", "1d", "1w")

DEFAULT_BUCKET = "1d"


class ParquetType(StrEnum):
    """The types of columns of a Parquet file, as docs/history.md writes it."""

    UTF8 = "utf8"
    INT64 = "int64"
    DECIMAL = "decimal(38,0)"
    TIMESTAMP = "timestamp[us, UTC]"
    BOOLEAN = "boolean"


class RewardReason(StrEnum):
    """The state of a reward's yield: valid, or why it is 0 or null."""

    VALID = "valid"
    NONE = "none"  # the yield is 0: the protocol pays no rewards
    NO_EMISSIONS = "no_emissions"  # the yield is 0: no reward was ever set up here, or its amount is 0
    EXPIRED = "expired"  # the yield is 0: the reward is over, or paused
    NOT_FUNDED = "not_funded"  # the yield is null: the reward is promised, and cannot be claimed
    NOTHING_SUPPLIED = "nothing_supplied"  # the yield is null: there are no suppliers
    NOTHING_BORROWED = "nothing_borrowed"  # the yield is null: there are no borrowers
    NO_BACKSTOP = "no_backstop"  # the yield is null: nobody deposited in the backstop
    NO_TOKEN_PRICE = "no_token_price"  # the yield is null: the pool's token has no price
    NO_REWARD_PRICE = "no_reward_price"  # the yield is null: the reward token has no price
    SEVERAL_TOKENS = "several_tokens"  # the yield is null: the reward is paid in more than one token
    UNREAD = "unread"  # the yield is null: the reward's entry cannot be decoded
    NOT_READ = "not_read"  # the yield is null: the exporter does not read the reward


class ListedReason(StrEnum):
    """Why a market is listed, or not."""

    PACKAGE_LIST = "package_list"  # the exporter's own lists: the protocol shows it to people
    CONFIGURED = "configured"  # the publisher's configuration names it
    NOT_LISTED = "not_listed"  # anybody can create such a market


class SkipReason(StrEnum):
    """Why a run has no numbers of a market that is not listed, or that the operator excludes."""

    EXCLUDED = "excluded"  # the publisher's configuration excludes it
    POOLS = "pools"  # the budget of pools had no room for it
    TIME = "time"  # there was no time left to read it
    CHANGED = "changed"  # it changed, so it is not known to hold at the run's ledger
    FAILED = "failed"  # the source gave no usable answer about it


class UnreadReason(StrEnum):
    """Why a market or pool that a run tried to read has no numbers."""

    ABSENT = "absent"  # an entry that it needs is not there
    UNDECODABLE = "undecodable"  # an entry has another form than the layout
    OVERFLOW = "overflow"  # a total has more digits than its column, or the market's own math
    # entries contradict each other, the market's own math divides by zero, or several protocols claim the market
    INCONSISTENT = "inconsistent"


_EXAMPLE = "CAS3J7GYLGXMF6TDJBBYYSE3HQ6BBSMLNUQ34T6TZMYMW2EVH34XOWMA"


def doc(meaning: str) -> Meta:
    """The meaning of a document's field, with its unit, and with the meaning of null if it can be null."""
    return Meta(description=meaning)


def _text(
    pattern: str,
    description: str,
    *examples: str,
    lengths: tuple[int | None, int | None] = (None, None),
    column: ParquetType = ParquetType.UTF8,
) -> Meta:
    """A text that matches the pattern as a whole. ``column`` is the type of a column with such values."""
    return Meta(
        pattern=f"^{pattern}$",
        min_length=lengths[0],
        max_length=lengths[1],
        description=description,
        examples=list(examples) or None,
        extra={"column": column},
    )


ContractAddress = Annotated[str, _text(CONTRACT, "A contract's address as a strkey.", _EXAMPLE, lengths=(56, 56))]
AccountAddress = Annotated[
    str,
    _text(
        "G[A-Z2-7]{55}",
        "An account's address as a strkey.",
        "GA5ZSEJYB37JRC5AVCIA5MOP4RHTM335X2KGX3IHOJAPP5RE34K4KZVN",
        lengths=(56, 56),
    ),
]
PublicUrl = Annotated[
    str,
    _text(PUBLIC_URL, "The address of the tree.", "https://markets.example.org", lengths=(None, MAX_PUBLIC_URL)),
]
PoolId = Annotated[
    str,
    _text(
        POOL,
        "The pool's id inside its market; the token's address wherever a market has one pool a token.",
        _EXAMPLE,
        lengths=(1, 128),
    ),
]
TokenSymbol = Annotated[
    str,
    Meta(
        description="The token's symbol as its contract gives it: any text. The native asset's is `native`.",
        examples=["native", "USDC"],
    ),
]
TokenDecimals = Annotated[
    int, Meta(ge=0, le=2**32 - 1, description="The decimals of the token: 7 means 10^7 base units.", examples=[7])
]
BasisPoints = Annotated[
    int,
    Meta(
        ge=0,
        le=2**53 - 1,
        description=(
            "A rate in basis points (1/10,000), rounded down. 9007199254740991 (2^53 - 1) means that or more, "
            "or for more than the protocol's own numbers hold."
        ),
        examples=[610],
    ),
]
Amount = Annotated[
    str,
    _text(
        "(0|[1-9][0-9]*)",
        "An amount in base units of the token, an exact integer in digits. Never negative.",
        "126430667051058",
        column=ParquetType.DECIMAL,
    ),
]
Price = Annotated[
    str,
    _text(
        r"(0|[1-9][0-9]*)(\.[0-9]+)?",
        "The price of one whole token in USD by the market's own oracle, with all of its decimals.",
        "1.00000000000000",
    ),
]
UsdCents = Annotated[
    str,
    _text(
        "(0|[1-9][0-9]*)",
        "Money in US cents, an exact integer in digits, rounded down. Never negative.",
        "329670245",
        column=ParquetType.DECIMAL,
    ),
]
Ledger = Annotated[int, Meta(ge=1, le=2**32 - 1, description="A ledger's number.", examples=[55261759])]
Count = Annotated[int, Meta(ge=0, description="A count.", examples=[12])]
Positive = Annotated[int, Meta(ge=1, description="A count above zero.", examples=[50])]
Version = Annotated[int, Meta(ge=1, description="The version of the documents' schema.", examples=[2])]
Digest = Annotated[str, _text("[0-9a-f]{64}", "SHA-256 in lowercase hex digits.", lengths=(64, 64))]
ConfigHash = Annotated[
    str,
    _text(
        "[0-9a-f]{16}",
        "The start of SHA-256 over the market's configuration in the ledger, in lowercase hex digits.",
        "0f1e2d3c4b5a6978",
        lengths=(16, 16),
    ),
]
RunId = Annotated[str, _text(RUN_ID, "The id of a run.", lengths=(1, 128))]
ObjectKey = Annotated[
    str,
    _text(
        f"{KEY_SEGMENT}(/{KEY_SEGMENT})*",
        "The key of a file, relative to the root of the tree.",
        "v1/assets/index.json",
        lengths=(None, MAX_KEY_BYTES),
    ),
]


def _time(column: ParquetType) -> Meta:
    return _text(
        TIME,
        "A time in UTC, to the second (RFC 3339).",
        "2026-11-21T10:55:00Z",
        lengths=(20, 20),
        column=column,
    )


Timestamp = Annotated[str, _time(ParquetType.TIMESTAMP)]
PriceTime = Annotated[str, _time(ParquetType.INT64)]  # an oracle states it, so it may be beyond any calendar
Cursor = Annotated[
    str, _text(CURSOR, "The opaque cursor of the next page, for the `?cursor=` of the same path.", lengths=(None, 128))
]
ProtocolName = Annotated[str, _text(PROTOCOL, "The lending protocol's short name.", "blend", lengths=(1, 32))]
Reason = Annotated[str, Meta(min_length=1, description="Why, as a fixed word for programs.", examples=["absent"])]
FileKindName = Annotated[str, _text(f"({'|'.join(FileKind)})", "What may happen to the file later.")]
FixedPoint = Annotated[
    str,
    _text(
        "(0|-?[1-9][0-9]*)",
        "An exact integer in digits, to be divided by 10 to the power of the `decimals` next to it.",
        "1095073860",
        column=ParquetType.DECIMAL,
    ),
]
Scale = Annotated[
    int, Meta(ge=0, le=2**32 - 1, description="The decimals of the integers next to it: 7 means 10^-7.", examples=[7])
]
Compounding = Annotated[
    str,
    _text(
        "(simple|[1-9][0-9]*)",
        "How the yield follows from the annual rate: `simple` is the rate itself, not compounded; a number "
        "is how many times a year the rate is compounded, each time for that part of the year.",
        "365",
        "simple",
    ),
]
RiskScope = Annotated[str, _text("(market|reserve|spoke)", "What a risk parameter holds for.", "reserve")]
LiquidationKind = Annotated[
    str, _text("(fixed|range|auction|dynamic)", "How a liquidator's bonus comes about.", "auction")
]
RewardReasonName = Annotated[
    str, _text(f"({'|'.join(RewardReason)})", "`valid`, or why a reward is 0 or its yield null.", "valid", "expired")
]
ListedReasonName = Annotated[
    str,
    _text(
        f"({'|'.join(ListedReason)})",
        "Why the market is listed: `package_list`, the exporter's own lists, with the source that shows the market to "
        "people; `configured`, the publisher's configuration; `not_listed`: anybody can create such a market.",
        "package_list",
    ),
]
SkipReasonName = Annotated[
    str,
    _text(
        f"({'|'.join(SkipReason)})",
        "Why the run has no numbers of the market: `excluded` by the publisher's configuration; no room in the budget "
        "of unlisted markets, by their `pools` or by `time`; `changed` while it was read; `failed`: the source gave no "
        "usable answer about it.",
        "pools",
    ),
]
EmissionSourceName = Annotated[
    str, _text("(emitter|backfill|none)", "Where the BLND comes from that a backstop promises next.", "emitter")
]
CHANGE_KINDS = (
    *("new_market", "new_pool", "listed", "unlisted", "removed_pool", "paused", "resumed", "status", "parameter"),
    *("configuration", "admin", "oracle", "frozen", "code", "pending", "utilization", "archived", "price"),
    *("supply_rate", "borrow_rate", "supply_reward", "borrow_reward", "supply_cap", "borrow_cap"),
    *("supply_cap_filled", "borrow_cap_filled", "unread"),
)
"""All kinds of changes from run to run, which docs/api.md describes."""

ChangeKind = Annotated[str, _text(f"({'|'.join(CHANGE_KINDS)})", "What changed.", "price")]
ChangeUnit = Annotated[str, _text("(usd|basis_points|base_units)", "The unit of a change's two values.", "usd")]
PendingKind = Annotated[str, _text("(terms|admin|code|oracle)", "What is queued.", "terms")]
Words = Annotated[str, Meta(description="Text of the protocol's or the contract's own.")]
BucketName = Annotated[str, _text(f"({'|'.join(BUCKET_NAMES)})", "The length of the buckets.", "1d")]
Change = Annotated[int, Meta(ge=1 - 2**53, le=2**53 - 1, description="A difference in basis points.", examples=[-12])]
CentsChange = Annotated[
    str, _text("(0|-?[1-9][0-9]*)", "A difference of money in US cents, an exact integer in digits.", "-1204500")
]
AmountChange = Annotated[
    str, _text("(0|-?[1-9][0-9]*)", "A difference of amounts or shares, an exact integer in digits.", "-1204500")
]
PeriodName = Annotated[str, _text("(24h|7d|30d)", "A day, a week, or 30 days.", "7d")]
Scope = Annotated[str, _text("(market|token|protocol|network)", "What a total is of.", "market")]
ScopeId = Annotated[
    str,
    _text(
        f"({CONTRACT}|{PROTOCOL})",
        "The address of the market or token, the protocol's name, or `network`.",
        _EXAMPLE,
        lengths=(None, 64),
    ),
]
FileReference = Annotated[
    str,
    _text(
        "\\.\\./[A-Za-z0-9_=~+@,./-]+",
        "A relative reference to a file, to be resolved against the URL of the document (RFC 3986).",
        "../history/pools/date=2026-11-21/65000000.parquet",
        lengths=(None, 1024),
    ),
]


def as_written(value: Any) -> Any:
    """A value from a Parquet file in the form that documents have: decimals as digits, times as texts."""
    if isinstance(value, Decimal):
        return str(value)
    return f"{value:%Y-%m-%dT%H:%M:%SZ}" if isinstance(value, datetime) else value
