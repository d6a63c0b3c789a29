"""The kinds of values on the wire, each with its form, its meaning and an example.

Token amounts, prices and money are decimal strings, because they exceed 2^53; basis points, decimals, ledgers and
counts are integers. Amounts, prices and yields are never negative: totals, debts and collateral are sums of positions
that only exist above zero, prices count only above zero, and yields follow from them.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, TypeAlias

from msgspec import Meta

from exporter.tables import RewardReason
from exporter.tree.files import KEY_SEGMENT, MAX_KEY_BYTES, FileKind

CONTRACT = "C[A-Z2-7]{55}"
"""The form of a contract's address, as a regular expression; so are the next four."""

POOL = "[A-Za-z0-9][A-Za-z0-9_-]{0,127}"
CURSOR = "[A-Za-z0-9_-]{1,128}"
PROTOCOL = "[A-Za-z0-9][A-Za-z0-9_-]{0,63}"
RUN_ID = "[A-Za-z0-9][A-Za-z0-9_-]{0,127}"

BUCKET_NAMES = ("5m", "15m", "1h", "6h", "1d", "1w")
"""The lengths of a history's buckets, ascending."""

DEFAULT_BUCKET = "1d"

ContractAddress: TypeAlias = Annotated[
    str,
    Meta(
        pattern=f"^{CONTRACT}$",
        min_length=56,
        max_length=56,
        description="A contract's address as a strkey.",
        examples=["CAS3J7GYLGXMF6TDJBBYYSE3HQ6BBSMLNUQ34T6TZMYMW2EVH34XOWMA"],
    ),
]
PoolId: TypeAlias = Annotated[
    str,
    Meta(
        pattern=f"^{POOL}$",
        min_length=1,
        max_length=128,
        description="The pool's id inside its market; the token's address wherever a market has one pool a token.",
        examples=["CAS3J7GYLGXMF6TDJBBYYSE3HQ6BBSMLNUQ34T6TZMYMW2EVH34XOWMA"],
    ),
]
TokenSymbol: TypeAlias = Annotated[
    str,
    Meta(
        description="The token's symbol as its contract gives it: any text. The native asset's is `native`.",
        examples=["native", "USDC"],
    ),
]
TokenDecimals: TypeAlias = Annotated[
    int, Meta(ge=0, le=2**32 - 1, description="The decimals of the token: 7 means 10^7 base units.", examples=[7])
]
BasisPoints: TypeAlias = Annotated[
    int,
    Meta(
        ge=0,
        le=2**53 - 1,
        description=(
            "A rate in basis points (1/10,000), rounded down. 9007199254740991 (2^53 - 1) stands for that or more, "
            "or for more than the protocol's own numbers hold."
        ),
        examples=[610],
    ),
]
Amount: TypeAlias = Annotated[
    str,
    Meta(
        pattern="^(0|[1-9][0-9]*)$",
        description="An amount in base units of the token, an exact integer in digits. Never negative.",
        examples=["126430667051058"],
    ),
]
Price: TypeAlias = Annotated[
    str,
    Meta(
        pattern=r"^(0|[1-9][0-9]*)(\.[0-9]+)?$",
        description="The price of one whole token in USD by the market's own oracle, with all of its decimals.",
        examples=["1.00000000000000"],
    ),
]
UsdCents: TypeAlias = Annotated[
    str,
    Meta(
        pattern="^(0|[1-9][0-9]*)$",
        description="Money in US cents, an exact integer in digits, rounded down. Never negative.",
        examples=["329670245"],
    ),
]
Ledger: TypeAlias = Annotated[int, Meta(ge=1, le=2**32 - 1, description="A ledger's number.", examples=[55261759])]
Count: TypeAlias = Annotated[int, Meta(ge=0, description="A count.", examples=[12])]
Positive: TypeAlias = Annotated[int, Meta(ge=1, description="A count above zero.", examples=[50])]
Version: TypeAlias = Annotated[int, Meta(ge=1, description="The version of the documents' schema.", examples=[1])]
Digest: TypeAlias = Annotated[
    str, Meta(pattern="^[0-9a-f]{64}$", min_length=64, max_length=64, description="SHA-256 in lowercase hex digits.")
]
ConfigHash: TypeAlias = Annotated[
    str,
    Meta(
        pattern="^[0-9a-f]{16}$",
        min_length=16,
        max_length=16,
        description="The start of SHA-256 over the market's configuration in the ledger, in lowercase hex digits.",
        examples=["0f1e2d3c4b5a6978"],
    ),
]
RunId: TypeAlias = Annotated[
    str, Meta(pattern=f"^{RUN_ID}$", min_length=1, max_length=128, description="The id of a run.")
]
ObjectKey: TypeAlias = Annotated[
    str,
    Meta(
        pattern=f"^{KEY_SEGMENT}(/{KEY_SEGMENT})*$",
        max_length=MAX_KEY_BYTES,
        description="The key of a file, relative to the root of the tree.",
        examples=["v1/assets/index.json"],
    ),
]
Timestamp: TypeAlias = Annotated[
    str,
    Meta(
        pattern="^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$",
        min_length=20,
        max_length=20,
        description="A time in UTC, to the second (RFC 3339).",
        examples=["2026-11-21T10:55:00Z"],
    ),
]
Cursor: TypeAlias = Annotated[
    str,
    Meta(
        pattern=f"^{CURSOR}$",
        max_length=128,
        description="The opaque cursor of the next page, for the `?cursor=` of the same path.",
    ),
]
ProtocolName: TypeAlias = Annotated[
    str,
    Meta(
        pattern=f"^{PROTOCOL}$",
        min_length=1,
        max_length=64,
        description="The lending protocol's short name.",
        examples=["blend"],
    ),
]
Reason: TypeAlias = Annotated[
    str, Meta(min_length=1, description="Why, as a fixed word that a program can tell apart.", examples=["archived"])
]
FileKindName: TypeAlias = Annotated[
    str, Meta(pattern=f"^({'|'.join(FileKind)})$", description="What may happen to the file later.")
]
FixedPoint: TypeAlias = Annotated[
    str,
    Meta(
        pattern="^(0|-?[1-9][0-9]*)$",
        description="An exact integer in digits, to be divided by 10 to the power of the `decimals` beside it.",
        examples=["1095073860"],
    ),
]
Scale: TypeAlias = Annotated[
    int, Meta(ge=0, le=2**32 - 1, description="The decimals of the integers beside it: 7 means 10^-7.", examples=[7])
]
Compounding: TypeAlias = Annotated[
    str,
    Meta(
        pattern="^(simple|[1-9][0-9]*)$",
        description="How the yield follows from the annual rate: `simple` is the rate itself, not compounded; a number "
        "is how many times a year the rate is compounded, each time for that part of the year.",
        examples=["365", "simple"],
    ),
]
RiskScope: TypeAlias = Annotated[
    str, Meta(pattern="^(market|reserve|spoke)$", description="What a risk parameter holds for.", examples=["reserve"])
]
LiquidationKind: TypeAlias = Annotated[
    str,
    Meta(
        pattern="^(fixed|range|auction|dynamic)$",
        description="How a liquidator's bonus comes about.",
        examples=["auction"],
    ),
]
RewardReasonName: TypeAlias = Annotated[
    str,
    Meta(
        pattern=f"^({'|'.join(RewardReason)})$",
        description="`valid`, or why a reward is 0 or its yield null.",
        examples=["valid", "expired"],
    ),
]
Words: TypeAlias = Annotated[str, Meta(description="Text of the protocol's or the contract's own.")]
BucketName: TypeAlias = Annotated[
    str,
    Meta(pattern=f"^({'|'.join(BUCKET_NAMES)})$", description="The length of the buckets.", examples=["1d"]),
]
Change: TypeAlias = Annotated[
    int, Meta(ge=1 - 2**53, le=2**53 - 1, description="A difference in basis points.", examples=[-12])
]
CentsChange: TypeAlias = Annotated[
    str,
    Meta(
        pattern="^(0|-?[1-9][0-9]*)$",
        description="A difference of money in US cents, an exact integer in digits.",
        examples=["-1204500"],
    ),
]
PeriodName: TypeAlias = Annotated[
    str, Meta(pattern="^(24h|7d|30d)$", description="A day, a week, or 30 days.", examples=["7d"])
]
Scope: TypeAlias = Annotated[
    str,
    Meta(pattern="^(market|token|protocol|network)$", description="What a total is of.", examples=["market"]),
]
ScopeId: TypeAlias = Annotated[
    str,
    Meta(
        pattern=f"^{PROTOCOL}$",
        max_length=64,
        description="The address of the market or token, the protocol's name, or `network`.",
        examples=["CAS3J7GYLGXMF6TDJBBYYSE3HQ6BBSMLNUQ34T6TZMYMW2EVH34XOWMA"],
    ),
]
FileReference: TypeAlias = Annotated[
    str,
    Meta(
        pattern="^\\.\\./[A-Za-z0-9_=~+@,./-]+$",
        max_length=1024,
        description="A relative reference to a file, to be resolved against the URL of the document (RFC 3986).",
        examples=["../history/pools/date=2026-11-21/65000000.parquet"],
    ),
]


def as_written(value: Any) -> Any:
    """A value out of a Parquet file as documents have it: decimals are digits, times texts."""
    if isinstance(value, Decimal):
        return str(value)
    return f"{value:%Y-%m-%dT%H:%M:%SZ}" if isinstance(value, datetime) else value
