"""The documents of a single asset, field for field: its detail, and its history in buckets of time."""

from __future__ import annotations

from msgspec import Struct

from exporter.api.fields import (
    Amount,
    BasisPoints,
    BucketName,
    Compounding,
    ContractAddress,
    Count,
    Cursor,
    Digest,
    FixedPoint,
    Ledger,
    PoolId,
    Positive,
    Price,
    ProtocolName,
    Scale,
    Timestamp,
    TokenDecimals,
    TokenSymbol,
    UsdCents,
    Words,
)


class AssetPrice(Struct, frozen=True, forbid_unknown_fields=True):
    """Where `oracle_price_usd` comes from, or why there is none.

    `value`, divided by 10^`decimals`, is the price of one token in USD as the contract `oracle` gave it, and `time` the
    time that it gave with it (null also beyond the year 9999). `validity` is `valid`, or says why the market itself
    would refuse to use a price; then the other three are null.
    """

    oracle: ContractAddress | None
    validity: Words
    value: FixedPoint | None
    decimals: Scale | None
    time: Timestamp | None


class AssetRates(Struct, frozen=True, forbid_unknown_fields=True):
    """Annual rates without compounding, and the utilization and modifier that they follow from.

    `stored` ones follow from the state as the contract has stored it, `accrued` ones from the state brought to the
    close time of the ledger; the two are equal where a protocol's own view does not accrue.
    """

    apr_decimals: Scale
    stored_supply_apr: FixedPoint
    stored_borrow_apr: FixedPoint
    accrued_supply_apr: FixedPoint
    accrued_borrow_apr: FixedPoint
    utilization_decimals: Scale
    stored_utilization: FixedPoint
    accrued_utilization: FixedPoint
    rate_modifier_decimals: Scale
    rate_modifier: FixedPoint


class AssetIndexes(Struct, frozen=True, forbid_unknown_fields=True):
    """What one share of supply and one share of debt are worth, in base units of the token."""

    decimals: Scale
    supply: FixedPoint
    borrow: FixedPoint


class RateModelParameter(Struct, frozen=True, forbid_unknown_fields=True):
    """One parameter of the pool's configuration, under the name that the contract has for it.

    `value` is to be divided by 10^`decimals`; a yes or no is 1 or 0. With `no_limit` the contract takes this value to
    mean that there is no limit.
    """

    name: Words
    value: FixedPoint
    decimals: Scale
    no_limit: bool


class AssetDetail(Struct, frozen=True, forbid_unknown_fields=True):
    """The pool snapshot, with what an analyst wants beside it.

    The first 13 fields are those of the snapshot in `/v1/assets`. `total_collateral` is plain collateral outside
    `total_supplied`, and `backstop_credit` what is set aside for the backstop or the protocol; both in base units.
    `contract_wasm_hash` is the SHA-256 of the market contract's code, null when it has none of its own.
    `supply_compounding` and `borrow_compounding` say how the two yields follow from the annual rates.
    """

    market: ContractAddress
    pool: PoolId
    token_address: ContractAddress
    symbol: TokenSymbol
    decimals: TokenDecimals
    supply_apy_bps: BasisPoints
    borrow_apy_bps: BasisPoints
    utilization_bps: BasisPoints
    total_supplied: Amount
    total_borrowed: Amount
    oracle_price_usd: Price | None
    tvl_usd_cents: UsdCents | None
    observed_ledger: Ledger
    ledger_close_time: Timestamp
    protocol: ProtocolName
    version: Words
    market_name: Words
    market_status: Words
    contract_wasm_hash: Digest | None
    total_collateral: Amount
    backstop_credit: FixedPoint
    last_accrual_time: Timestamp
    price: AssetPrice
    rates: AssetRates
    indexes: AssetIndexes
    rate_model: list[RateModelParameter]
    supply_compounding: Compounding
    borrow_compounding: Compounding


class HistoryBucket(Struct, frozen=True, forbid_unknown_fields=True):
    """What was observed from `start_time` to before `end_time`.

    Amounts and the value are averages over the observations, rounded down. Rates and the price are medians: the middle
    value, or for an even number the mean of the two in the middle, rounded down (a price at the most decimals that
    any price of the bucket has). The value and the price are over the `priced_count` observations that have a price,
    and null when none has.
    """

    start_time: Timestamp
    end_time: Timestamp
    total_supplied: Amount
    total_borrowed: Amount
    supply_apy_bps: BasisPoints
    borrow_apy_bps: BasisPoints
    utilization_bps: BasisPoints
    tvl_usd_cents: UsdCents | None
    oracle_price_usd: Price | None
    observation_count: Positive
    priced_count: Count
    first_ledger: Ledger
    last_ledger: Ledger


class AssetHistory(Struct, frozen=True, forbid_unknown_fields=True):
    """Buckets of one length in one pool, ascending; a bucket in which nothing was observed is left out.

    The newest document ends with the bucket that is still open. `next_cursor` leads to the page before, which holds
    older buckets, and which never changes; it is null on the oldest. `observed_ledger` is the newest ledger that the
    document knows of: of a page, the last in its buckets.
    """

    market: ContractAddress
    pool: PoolId
    bucket: BucketName
    observed_ledger: Ledger
    data: list[HistoryBucket]
    next_cursor: Cursor | None
