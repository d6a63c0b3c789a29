"""The numbers of one pool, typed. Generated from `exporter/tree/pools.py` by ``python -m tools.pool_numbers``.

A protocol's math returns `PoolNumbers`. `PoolFrameRow` is a row of the pools frame while it is computed, and when it is
compared with a contract's own views; documents have `exporter.tree.pool_rows.PoolRow`. `MarketFrameRow` and
`BackstopFrameRow` are rows of the markets and backstops frames. Amounts are in base units, ``_bps`` are basis points,
times are unix seconds.
"""

from __future__ import annotations

from typing import TypedDict

from msgspec import Struct, field


class Operations(Struct, frozen=True, kw_only=True):
    """Which operations the contract allows now."""

    can_supply: bool | None = None
    """Whether the contract lets anybody supply; a cap may still leave no room; null when unknown."""
    can_withdraw: bool | None = None
    """Whether the contract lets anybody withdraw; null when unknown."""
    can_borrow: bool | None = None
    """Whether the contract lets anybody borrow; null when unknown."""
    can_repay: bool | None = None
    """Whether the contract lets anybody repay; null when unknown."""
    can_liquidate: bool | None = None
    """Whether the contract lets anybody liquidate debt of this pool; null when unknown."""
    can_reason: str | None = None
    """Why one of the five operations is not known, or is closed because there is no price; null if none is."""
    pool_status: str | None = None
    """The pool's own status in the protocol's own words; null when it has none."""


class Amounts(Struct, frozen=True, kw_only=True):
    """How much can be done at most, before the gate of each operation."""

    available_to_withdraw: int | None = None
    """Most that the pool can pay out to its suppliers, in token base units; 0 when can_withdraw is false; null when
    unknown.
    """
    available_to_borrow: int | None = None
    """Most that can be borrowed, in token base units; 0 when can_borrow is false; null when unknown."""
    available_to_supply: int | None = None
    """Most that the cap lets in, in token base units; 0 when can_supply is false; null without a cap."""
    min_first_supply: int | None = None
    """Smallest first supply of an account, in token base units; null without a minimum."""
    shortfall: int | None = None
    """How much more suppliers are owed than the pool has in tokens and loans, in token base units; above 0 the pool
    is insolvent; 0 if rounding explains it; null when the pool's tokens are not counted.
    """


class Risk(Struct, frozen=True, kw_only=True):
    """What the configuration says of collateral, debt and limits."""

    risk_scope: str | None = None
    """What the factors and caps apply to: market, reserve or spoke; null when they are unknown."""
    collateral_factor_bps: int | None = None
    """Share of the value of collateral that counts when a debt is opened; null when unknown."""
    liquidation_threshold_bps: int | None = None
    """Share of the value of collateral that counts against liquidation; null when unknown."""
    liability_factor_bps: int | None = None
    """Factor on the value of a debt, rounded up; 10000 leaves the value as it is; null when not set or unknown."""
    liquidation_bonus_bps: int | None = None
    """What a liquidator gets above the debt; null when it is not fixed."""
    liquidation_kind: str | None = None
    """How the bonus is set: fixed, range, auction or dynamic; null when unknown."""
    supply_cap: int | None = None
    """Most that may be supplied, in token base units; null is no cap, 0 is closed."""
    borrow_cap: int | None = None
    """Most that may be borrowed, in token base units; null is no cap, 0 is closed."""
    max_utilization_bps: int | None = None
    """Highest utilization that borrowing may lead to; null without a limit."""
    reserve_factor_bps: int | None = None
    """Share of the borrowers' interest that suppliers do not get; null when unknown."""
    can_be_collateral: bool | None = None
    """Whether the pool's configuration lets its supply secure a debt; null when unknown."""
    can_be_borrowed: bool | None = None
    """Whether the pool's configuration lets it be borrowed; null when unknown."""


class Rewards(Struct, frozen=True, kw_only=True):
    """What is paid in addition to interest, in another token."""

    reward_token: str | None = None
    """Token contract of the reward, a strkey; null without one."""
    supply_reward_per_second: int | None = None
    """Paid per second to all suppliers together, in base units of the reward token times 10^reward_decimals; null
    when unknown.
    """
    borrow_reward_per_second: int | None = None
    """Paid per second to all borrowers together, in base units of the reward token times 10^reward_decimals; null
    when unknown.
    """
    reward_decimals: int | None = None
    """Decimals that the two amounts per second have beyond base units of the reward token; null when unknown."""
    supply_reward_expiration: int | None = None
    """When the suppliers' reward ends; null without an end."""
    borrow_reward_expiration: int | None = None
    """When the borrowers' reward ends; null without an end."""
    supply_reward_reason: str | None = None
    """Valid, or why the suppliers' reward is 0 or its yield null."""
    borrow_reward_reason: str | None = None
    """Valid, or why the borrowers' reward is 0 or its yield null."""
    supply_reward_index: int | None = None
    """Rewards that 10^decimals shares of supply were paid since the first one, accrued, in base units of the reward
    token times 10^reward_decimals; null when unknown.
    """


class SpokeTerms(Struct, frozen=True, kw_only=True):
    """One spoke's terms for a pool."""

    spoke: int
    """The spoke's number."""
    deprecated: bool
    """Whether the spoke takes nothing new."""
    paused: bool
    """Whether the spoke takes nothing but liquidations of what secures a debt."""
    frozen: bool
    """Whether the pool takes nothing new in the spoke."""
    can_supply: bool
    """Whether the spoke takes supplies."""
    can_withdraw: bool
    """Whether the spoke lets its accounts withdraw."""
    can_borrow: bool | None
    """Whether the spoke lends; null if it is not known whether the market has a price."""
    can_repay: bool
    """Whether the spoke takes repayments."""
    can_liquidate: bool | None
    """Whether debt can be liquidated; null if it is not known whether the market has a price."""
    can_be_seized: bool
    """Whether liquidators can get the supply."""
    available_to_supply: int
    """Most that the spoke's cap lets in, in token base units."""
    available_to_borrow: int | None
    """Most that can be borrowed, in token base units; null when ``can_borrow`` is."""
    collateral_factor_bps: int
    """Share of the value of collateral that counts when a debt is opened, in basis points."""
    liquidation_threshold_bps: int
    """Share of the value of collateral that counts against liquidation, in basis points."""
    liquidation_bonus_bps: int
    """What a liquidator gets above the debt, in basis points."""
    supply_cap: int
    """Most that may be supplied, in token base units; 0 is closed."""
    borrow_cap: int
    """Most that may be borrowed, in token base units; 0 is closed."""
    can_be_collateral: bool
    """Whether the spoke's configuration lets the supply secure a debt."""
    can_be_borrowed: bool
    """Whether the spoke's configuration lets the pool be borrowed."""


class PoolNumbers(Struct, frozen=True, kw_only=True):
    """What a protocol's math gives of a pool at the ledger's close time."""

    supply_apy_bps: int
    """Annual yield of suppliers, compounded or simple as the protocol does it, floor to basis points; to compare
    protocols take comparable_supply_apy_bps.
    """
    borrow_apy_bps: int
    """Annual cost of borrowers, compounded or simple as the protocol does it, floor to basis points; to compare
    protocols take comparable_borrow_apy_bps.
    """
    utilization_bps: int
    """Floor(total_borrowed * 10000 / total_supplied); 0 when nothing is supplied."""
    total_supplied: int
    """Amount lent into the pool, interest included, in token base units."""
    total_borrowed: int
    """Amount owed to the pool, interest included, in token base units."""
    total_collateral: int
    """Collateral that is not lent out and not part of total_supplied, in token base units."""
    last_accrual_time: int
    """When the contract last added interest to this pool."""
    supply_index: int
    """Base units of the token for one share of supply, accrued, times 10^index_decimals."""
    borrow_index: int
    """Base units of the token for one share of debt, accrued, times 10^index_decimals."""
    index_decimals: int
    """Decimals of supply_index and borrow_index."""
    stored_supply_apr: int
    """Annual rate of suppliers, from the stored state, times 10^apr_decimals."""
    stored_borrow_apr: int
    """Annual rate of borrowers, from the stored state, times 10^apr_decimals."""
    accrued_supply_apr: int
    """Annual rate of suppliers, accrued to ledger_close_time, times 10^apr_decimals."""
    accrued_borrow_apr: int
    """Annual rate of borrowers, accrued to ledger_close_time, times 10^apr_decimals."""
    apr_decimals: int
    """Decimals of the four rates."""
    stored_utilization: int
    """Share of supply that is lent out, from the stored state, times 10^utilization_decimals."""
    accrued_utilization: int
    """Share of supply that is lent out, accrued to ledger_close_time, times 10^utilization_decimals."""
    utilization_decimals: int
    """Decimals of the two utilizations."""
    rate_modifier: int
    """Factor by which the rate model reacts to past utilization, accrued, times 10^rate_modifier_decimals."""
    rate_modifier_decimals: int
    """Decimals of rate_modifier."""
    backstop_credit: int
    """Interest set aside for the backstop, accrued, in token base units."""
    pool_label: str | None = None
    """Tells several pools of one token in a market apart, for example Hub 1; null if the token has one pool."""
    share_token: str | None = None
    """The token that suppliers get, a strkey; null if shares are not tokens."""
    share_supply: int | None = None
    """Total supply of the share token, in its base units; null without such a token."""
    operations: Operations = field(default_factory=Operations)
    """Which operations the contract allows now."""
    amounts: Amounts = field(default_factory=Amounts)
    """How much can be done at most, before the gate of each operation."""
    risk: Risk = field(default_factory=Risk)
    """What the configuration says of collateral, debt and limits."""
    rewards: Rewards = field(default_factory=Rewards)
    """What is paid in addition to interest, in another token."""
    spokes: tuple[SpokeTerms, ...] = ()
    """The terms of each spoke, if it has any."""


class PoolFrameRow(TypedDict):
    """A row of the pools frame: each column under its name."""

    market: str
    pool: str
    token_address: str
    symbol: str
    decimals: int
    protocol: str
    version: str
    market_name: str
    market_status: str
    supply_apy_bps: int
    borrow_apy_bps: int
    utilization_bps: int
    total_supplied: int
    total_borrowed: int
    total_collateral: int
    oracle: str | None
    oracle_decimals: int | None
    oracle_price: int | None
    price_timestamp: int | None
    price_reason: str
    oracle_price_usd: str | None
    tvl_usd_cents: int | None
    observed_ledger: int
    ledger_close_time: int
    last_accrual_time: int
    supply_index: int
    borrow_index: int
    index_decimals: int
    stored_supply_apr: int
    stored_borrow_apr: int
    accrued_supply_apr: int
    accrued_borrow_apr: int
    apr_decimals: int
    stored_utilization: int
    accrued_utilization: int
    utilization_decimals: int
    rate_modifier: int
    rate_modifier_decimals: int
    backstop_credit: int
    wasm_hash: str | None
    can_supply: bool | None
    can_withdraw: bool | None
    can_borrow: bool | None
    can_repay: bool | None
    can_liquidate: bool | None
    can_reason: str | None
    pool_status: str | None
    available_to_withdraw: int | None
    available_to_borrow: int | None
    available_to_supply: int | None
    min_first_supply: int | None
    risk_scope: str | None
    collateral_factor_bps: int | None
    liquidation_threshold_bps: int | None
    liability_factor_bps: int | None
    liquidation_bonus_bps: int | None
    liquidation_kind: str | None
    supply_cap: int | None
    borrow_cap: int | None
    max_utilization_bps: int | None
    reserve_factor_bps: int | None
    can_be_collateral: bool | None
    can_be_borrowed: bool | None
    supplied_usd_cents: int | None
    borrowed_usd_cents: int | None
    available_usd_cents: int | None
    reward_token: str | None
    reward_symbol: str | None
    reward_token_decimals: int | None
    supply_reward_per_second: int | None
    borrow_reward_per_second: int | None
    reward_decimals: int | None
    supply_reward_per_year: int | None
    borrow_reward_per_year: int | None
    supply_reward_expiration: int | None
    borrow_reward_expiration: int | None
    supply_reward_apr_bps: int | None
    borrow_reward_apr_bps: int | None
    supply_reward_reason: str | None
    borrow_reward_reason: str | None
    reward_price: int | None
    reward_price_decimals: int | None
    reward_price_source: str | None
    comparable_supply_apy_bps: int
    comparable_borrow_apy_bps: int
    total_supply_apy_bps: int
    supply_compounding: str
    borrow_compounding: str
    available_to_supply_usd_cents: int | None
    available_to_borrow_usd_cents: int | None
    pool_label: str | None
    supply_cap_usd_cents: int | None
    borrow_cap_usd_cents: int | None
    share_token: str | None
    share_supply: int | None
    supply_reward_index: int | None
    listed: bool
    listed_reason: str
    archived: bool
    shortfall: int | None


class MarketFrameRow(TypedDict):
    """A row of the markets frame: each column under its name."""

    market: str
    protocol: str
    version: str
    name: str
    status: str
    listed: bool
    listed_reason: str
    observed_ledger: int
    pool_count: int
    tvl_usd_cents: int | None
    priced_count: int
    supplied_usd_cents: int | None
    borrowed_usd_cents: int | None
    mean_supply_apy_bps: int | None
    mean_total_supply_apy_bps: int | None
    mean_borrow_apy_bps: int | None
    mean_comparable_supply_apy_bps: int | None
    mean_comparable_borrow_apy_bps: int | None
    oracle: str | None
    config_hash: str
    wasm_hash: str | None
    unread_count: int
    listed_source: str | None


class BackstopFrameRow(Struct, frozen=True, kw_only=True):
    """A row of the backstops frame: what insures a market."""

    market: str
    """The market that is insured, a strkey."""
    backstop: str
    """The backstop's contract, a strkey."""
    lp_token: str | None = None
    """The token that is deposited, a strkey; null when it could not be read."""
    shares: int | None = None
    """Shares of the market's deposits, queued ones among them, 7 decimals; null when unknown."""
    lp_tokens: int | None = None
    """Deposited tokens, queued ones among them, in base units of ``lp_token``; null when unknown."""
    queued_shares: int | None = None
    """Shares queued for withdrawal, 7 decimals; null when unknown."""
    queued_part: int | None = None
    """Part of the shares that is queued, rounded up; 10000000 is all; null when unknown."""
    blnd: int | None = None
    """BLND behind ``lp_tokens``, in its base units, 7 decimals; null when unknown."""
    usdc: int | None = None
    """USDC behind ``lp_tokens``, in its base units, 7 decimals; null when unknown."""
    lp_price_usdc: int | None = None
    """USDC for one ``lp_token``, times 10^7; null when unknown."""
    blnd_price_usdc: int | None = None
    """USDC for one BLND, times 10^7; null when unknown."""
    value_usd_cents: int | None = None
    """Worth of ``lp_tokens`` by the market's oracle, in US cents; null without a price of USDC."""
    threshold_product_bps: int | None = None
    """BLND^4 * USDC in basis points of what the contract asks for; null when unknown."""
    threshold_met: bool | None = None
    """Whether the funds are what the contract asks for; null when unknown."""
    status_after_update: str | None = None
    """The status that ``update_status`` would set now; null when it sets none or not known."""
    emission_token: str | None = None
    """The token that depositors are paid in, a strkey; null when unknown."""
    emission_decimals: int
    """Decimals of ``emission_per_second`` beyond base units."""
    emission_per_second: int | None = None
    """Paid to depositors per second, in base units times 10^``emission_decimals``; null when unknown."""
    emission_per_year: int | None = None
    """Paid to depositors per year, in base units of ``emission_token``; null when unknown."""
    emission_expiration: int | None = None
    """When the emission ends; null without one, or when unknown."""
    emission_apr_bps: int | None = None
    """Annual yield of depositors that have not queued, in basis points; null when ``emission_reason`` says why."""
    emission_reason: str
    """``valid``, or why the emission is 0 or its yield null."""
    emission_source: str | None = None
    """Where the BLND comes from that the backstop promises next; null when not known."""
    emission_funded: bool | None = None
    """Whether the backstop has the BLND that it promised; null when not known."""
    backfill_remaining: int | None = None
    """BLND left of the backfill, in base units, 7 decimals; null unless it is the source."""
    in_reward_zone: bool | None = None
    """Whether the backstop's reward zone lists the market; null when not known."""
