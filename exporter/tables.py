"""The two frames of a run, their columns and units; everything that is published is made from them.

Amounts are token base units, prices are in units of 10^-``oracle_decimals`` US dollars, times are unix seconds,
``_bps`` are basis points rounded down. A rate or index of N decimals is an integer in units of 10^-N. Rows ascend
by market, then pool; strkeys are ASCII, so the order of the strings is the order of their bytes.
"""

from __future__ import annotations

from enum import StrEnum

import polars as pl

MAX_DECIMAL = 10**38 - 1
"""The largest amount in a history file, whose type is ``decimal(38,0)``. An Int128 reaches 1.7e38."""

YEAR = 31_536_000
"""Seconds, of 365 days: what rewards and yearly rates are told for."""

MAX_TIMESTAMP_SECONDS = 253_402_300_799
"""The last second of the year 9999; later times cannot be shown by most readers of Parquet."""

PROTOCOL_COLUMNS: dict[str, pl.DataType] = {
    "market": pl.String(),  # contract strkey
    "pool": pl.String(),  # pool id inside the market
    "token_address": pl.String(),  # contract strkey
    "protocol": pl.String(),
    "version": pl.String(),  # of the market's contract: v1, v2
    "market_name": pl.String(),
    "market_status": pl.String(),
    "wasm_hash": pl.String(),  # of the market's contract, 64 hex digits; null when it has none
    "oracle": pl.String(),  # contract strkey; null when the market has none
    "decimals": pl.Int64(),  # of the token, as the market computes with
    "supply_apy_bps": pl.Int64(),
    "borrow_apy_bps": pl.Int64(),
    "utilization_bps": pl.Int64(),  # total_borrowed / total_supplied; 0 when nothing is supplied
    "total_supplied": pl.Int128(),  # token base units
    "total_borrowed": pl.Int128(),  # token base units
    "total_collateral": pl.Int128(),  # token base units of plain collateral, outside total_supplied
    "last_accrual_time": pl.Int64(),  # when the contract last brought the pool up to date
    "supply_index": pl.Int128(),  # what a supply share is worth, index_decimals
    "borrow_index": pl.Int128(),  # what a debt share is worth, index_decimals
    "index_decimals": pl.Int64(),
    "stored_supply_apr": pl.Int128(),  # a year, apr_decimals; from the state as the contract has stored it
    "stored_borrow_apr": pl.Int128(),
    "accrued_supply_apr": pl.Int128(),  # from the state brought to the ledger's close time
    "accrued_borrow_apr": pl.Int128(),
    "apr_decimals": pl.Int64(),
    "stored_utilization": pl.Int128(),  # utilization_decimals
    "accrued_utilization": pl.Int128(),
    "utilization_decimals": pl.Int64(),
    "rate_modifier": pl.Int128(),  # rate_modifier_decimals
    "rate_modifier_decimals": pl.Int64(),
    "backstop_credit": pl.Int128(),  # token base units owed to the backstop
}
"""What a protocol's `project` gives, one row a pool."""

TERMS: dict[str, pl.DataType] = {
    "can_supply": pl.Boolean(),  # whether the contract lets anybody do this now; null: can_reason says why
    "can_withdraw": pl.Boolean(),
    "can_borrow": pl.Boolean(),
    "can_repay": pl.Boolean(),
    "can_liquidate": pl.Boolean(),
    "can_reason": pl.String(),
    "pool_status": pl.String(),  # in the protocol's own words; null where a pool has none beside its market's
    "available_to_withdraw": pl.Int128(),  # token base units that the pool can pay out, to all suppliers together
    "available_to_borrow": pl.Int128(),
    "available_to_supply": pl.Int128(),  # null without a bound
    "min_first_supply": pl.Int128(),  # token base units: an account's first supply of less fails; null: any amount
    "risk_scope": pl.String(),  # market, reserve or spoke: what the columns below hold for; null: not known
    "collateral_factor_bps": pl.Int64(),  # of the value of collateral, what counts when a debt is opened
    "liquidation_threshold_bps": pl.Int64(),  # of the value of collateral, what counts against liquidation
    "liability_factor_bps": pl.Int64(),  # what the value of a debt counts, rounded up: 10000 is the value itself
    "liquidation_bonus_bps": pl.Int64(),  # null where liquidation_kind does not fix it
    "liquidation_kind": pl.String(),  # fixed, range (the bonus is its least or most), auction or dynamic
    "supply_cap": pl.Int128(),  # token base units; null: no cap, 0: closed
    "borrow_cap": pl.Int128(),
    "max_utilization_bps": pl.Int64(),  # for borrowers; null: none
    "reserve_factor_bps": pl.Int64(),  # of the borrowers' interest, what suppliers do not get
    "can_be_collateral": pl.Boolean(),  # by the pool's configuration, whatever the gates say now
    "can_be_borrowed": pl.Boolean(),
    "reward_token": pl.String(),  # contract strkey; null where nothing is paid beside the interest
    "supply_reward_per_second": pl.Int128(),  # to all suppliers together; its base units, reward_decimals more
    "borrow_reward_per_second": pl.Int128(),
    "reward_decimals": pl.Int64(),  # beyond the base units of reward_token
    "supply_reward_expiration": pl.Int64(),  # unix seconds; null without an end
    "borrow_reward_expiration": pl.Int64(),
    "supply_reward_reason": pl.String(),  # a `RewardReason`
    "borrow_reward_reason": pl.String(),
}
"""What a protocol's `project` may give besides: what can be done, how much of it, at what risk, and what is paid beside
the interest; the rest is null.

An amount is only told for what can be done: `exporter.protocols.compute` makes it 0 where its gate is closed, and null
where that is not known.
"""

SPOKES = "spokes"
"""A column that a `project` may give besides and that no frame keeps: for people, each spoke's own terms."""

GATES = {
    "can_withdraw": "available_to_withdraw",
    "can_borrow": "available_to_borrow",
    "can_supply": "available_to_supply",
}
"""The gate of each amount."""

POOLS: dict[str, pl.DataType] = {
    **PROTOCOL_COLUMNS,
    **TERMS,
    "symbol": pl.String(),  # as the token contract gives it
    "oracle_decimals": pl.Int64(),  # null when there is no valid price, as the next four
    "oracle_price": pl.Int128(),
    "price_timestamp": pl.Int64(),  # as the oracle gives it
    "oracle_price_usd": pl.String(),  # the price printed with all of the oracle's decimals
    "tvl_usd_cents": pl.Int128(),  # floor((total_supplied + total_collateral) * price * 100)
    "supplied_usd_cents": pl.Int128(),  # floor(total_supplied * price * 100), and so on for the other two
    "borrowed_usd_cents": pl.Int128(),
    "available_usd_cents": pl.Int128(),  # of available_to_withdraw
    "price_reason": pl.String(),  # "valid", or why there is no price
    "supply_reward_per_year": pl.Int128(),  # base units of reward_token, at the pace of now
    "borrow_reward_per_year": pl.Int128(),
    "supply_reward_apr_bps": pl.Int64(),  # not compounded, and in no other rate
    "borrow_reward_apr_bps": pl.Int64(),  # what a borrower gets, not what he pays
    "reward_symbol": pl.String(),
    "reward_token_decimals": pl.Int64(),
    "reward_price": pl.Int128(),  # of one whole reward token, 10^-reward_price_decimals US dollars
    "reward_price_decimals": pl.Int64(),
    "reward_price_source": pl.String(),
    "observed_ledger": pl.Int64(),
    "ledger_close_time": pl.Int64(),
}
"""The pools frame: one row for each pool that was read."""

MARKETS: dict[str, pl.DataType] = {
    "market": pl.String(),  # contract strkey
    "protocol": pl.String(),
    "version": pl.String(),
    "name": pl.String(),
    "status": pl.String(),
    "oracle": pl.String(),
    "config_hash": pl.String(),  # 16 hex digits
    "wasm_hash": pl.String(),
    "pool_count": pl.Int64(),  # all member pools, read or not
    "unread_count": pl.Int64(),  # of these, the ones not read
    "tvl_usd_cents": pl.Int128(),  # sum over the pools that have a price; null when none has
    "observed_ledger": pl.Int64(),
}
"""The markets frame: one row for each market that was read."""

BACKSTOPS: dict[str, pl.DataType] = {
    "market": pl.String(),  # contract strkey
    "backstop": pl.String(),  # contract strkey
    "lp_token": pl.String(),  # contract strkey of what is deposited; null where its backstop cannot be read
    "shares": pl.Int128(),  # of the market's part; null where it cannot be read, as all that hangs on it
    "lp_tokens": pl.Int128(),  # behind the shares, base units; those queued for withdrawal are among them
    "queued_shares": pl.Int128(),
    "queued_part": pl.Int128(),  # 7 decimals, rounded up
    "blnd": pl.Int128(),  # behind the tokens, base units
    "usdc": pl.Int128(),
    "lp_price_usdc": pl.Int128(),  # of one whole token, 7 decimals
    "blnd_price_usdc": pl.Int128(),
    "value_usd_cents": pl.Int128(),  # of the tokens; null without a price of USDC by the market's oracle
    "threshold_product_bps": pl.Int64(),  # of what the contract asks for; the fifth root says how far the funds are
    "threshold_met": pl.Boolean(),
    "status_after_update": pl.String(),  # what anybody's call would make of the market; null where nobody can call
    "emission_token": pl.String(),
    "emission_per_second": pl.Int128(),  # its base units, emission_decimals more
    "emission_decimals": pl.Int64(),
    "emission_per_year": pl.Int128(),  # base units
    "emission_expiration": pl.Int64(),  # unix seconds
    "emission_apr_bps": pl.Int64(),  # for the tokens that are not queued
    "emission_reason": pl.String(),  # a `RewardReason`
    "emission_source": pl.String(),  # emitter, backfill or none; null: not known
    "emission_funded": pl.Boolean(),  # whether the backstop has what it promised, so that a claim succeeds
    "backfill_remaining": pl.Int128(),  # base units of emission_token, while emission_source is backfill
}
"""The backstops frame: one row for each market that names one."""


class RewardReason(StrEnum):
    """What the yield of a reward is, or why it is 0 or null."""

    VALID = "valid"
    NONE = "none"  # 0: the protocol pays none
    NO_EMISSIONS = "no_emissions"  # 0: none was ever set up here, or it is of nothing
    EXPIRED = "expired"  # 0: it is over, or paused
    NOT_FUNDED = "not_funded"  # null: it is promised, and cannot be claimed
    NOTHING_SUPPLIED = "nothing_supplied"  # null: nobody is there to be paid
    NOTHING_BORROWED = "nothing_borrowed"
    NO_BACKSTOP = "no_backstop"
    NO_TOKEN_PRICE = "no_token_price"  # null: the amount is known, its worth beside the pool's is not
    NO_REWARD_PRICE = "no_reward_price"
    SEVERAL_TOKENS = "several_tokens"  # null: more than one token is paid
    UNREAD = "unread"  # null: the entry is archived or cannot be decoded
    NOT_READ = "not_read"  # null: the exporter does not look for it


VALID_PRICE = "valid"

ACTIVE = frozenset({"active", "admin_active", "partly_paused"})
"""Statuses of markets, in the protocols' own words, in which both lending and borrowing are open."""

LEAST_VALUE = 100_000
"""US cents that a pool must hold for its rates to be among the best: a rate of almost nothing is offered by nobody."""
