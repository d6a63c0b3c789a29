"""Positions in a Blend pool: their entries, what they are worth, and whether the contract lets them be liquidated.

The rule is the contract's, function by function (pool/src/pool/health_factor.rs and
pool/src/auctions/user_liquidation_auction.rs of blend-contracts and blend-contracts-v2; docs/protocols/blend.md,
"Positions"). Each holder has one persistent entry in each pool; an auction is a temporary entry. The two generations
differ in the scale of the rates. They also differ if effective debt and collateral are equal: v1 liquidates then, v2
does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from exporter import exact
from exporter.errors import DecodeError
from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import data_key, decode_contract_data
from exporter.ledger.codec.fields import Fields, expect
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import address, encode_scval, symbol, vec
from exporter.protocols.base import AnyPool
from exporter.protocols.blend.layout import RATE_DECIMALS, Reserve
from exporter.protocols.blend.math import S7, accrue, rates_of
from exporter.protocols.positions import Health, PoolTerms, Position, PositionRules

_POSITIONS, _AUCTION = symbol("Positions"), symbol("Auction")

USER_LIQUIDATION: Final = 0
BAD_DEBT: Final = 1
"""The numbers of the kinds of auctions that sell debt. The third kind sells interest."""


def _prefix(name: ScVal) -> bytes:
    """The ScVal XDR of a key ``[name, value]``, without the value at its end."""
    placeholder: ScVal = (scval.VOID, None)
    return encode_scval(vec(name, placeholder)).removesuffix(encode_scval(placeholder))


def positions_key(market: str, holder: str) -> bytes:
    """The ledger key of a holder's position."""
    return data_key(market, vec(_POSITIONS, address(holder)))


def decode_position(data: bytes) -> Position:
    """The position in an entry. Shares of zero or less do not count, as in the contract. Raises `DecodeError`."""
    fields = Fields.of(decode_contract_data(data).value, "Positions")
    return Position(
        debt=_shares(fields, "liabilities"),
        collateral=_shares(fields, "collateral"),
        supply=_shares(fields, "supply"),
    )


def _shares(fields: Fields, name: str) -> dict[int, int]:
    value = fields.get(name)
    if value is None:
        raise DecodeError(f"Positions: the field {name} is missing")
    pairs: Sequence[tuple[ScVal, ScVal]] = expect(value, scval.MAP, f"Positions.{name}") or ()
    shares: dict[int, int] = {}
    for index, amount in pairs:
        count: int = expect(amount, scval.I128, f"Positions.{name}")
        if count > 0:
            shares[expect(index, scval.U32, f"Positions.{name}")] = count
    return shares


def auctioned_position(data: bytes) -> bytes | None:
    """The ledger key of the position whose debt an auction sells; None if it sells interest. Raises `DecodeError`.

    The position is a user's in a liquidation, and the backstop's if the auction sells bad debt.
    """
    entry = decode_contract_data(data)
    _, parts = entry.key
    if parts is None or len(parts) != 2:
        raise DecodeError("Auction: its key has another form")
    key = Fields.of(parts[1], "Auction")
    if key.u32("auct_type") not in (USER_LIQUIDATION, BAD_DEBT):
        return None
    return positions_key(entry.contract, key.address("user"))


def terms_of(pool: AnyPool, close_time: int) -> PoolTerms:
    """The terms of a reserve at a close time. Raises `ExactError`."""
    reserve: Reserve = pool.state
    data = replace(reserve, data=accrue(reserve, rates_of(reserve), close_time)).data
    return PoolTerms(
        supply_rate=data.b_rate,
        debt_rate=data.d_rate,
        rate_scale=10 ** RATE_DECIMALS[reserve.config.generation],
        token_scale=10**reserve.config.decimals,
        collateral_factor=reserve.config.c_factor,
        liability_factor=reserve.config.l_factor,
        supply_shares=data.b_supply,
        debt_shares=data.d_supply,
    )


def health_of(position: Position, pools: Sequence[PoolTerms], prices: Sequence[int | None]) -> Health | None:
    """The worth of a position: the sums over all reserves in which it has debt or collateral.

    None if a price is missing. A reserve that is not in the pool's list does not count, as in the contract
    (PositionData::calculate_from_positions). Raises `ExactError`.
    """
    collateral = debt = effective_collateral = effective_debt = 0
    debt_by_pool: dict[int, int] = {}
    collateral_by_pool: dict[int, int] = {}
    for index in sorted({*position.collateral, *position.debt}):
        if index >= len(pools):
            continue
        price, pool = prices[index], pools[index]
        if price is None:
            return None
        if index in position.collateral:
            assets = exact.multiply_divide_floor(position.collateral[index], pool.supply_rate, pool.rate_scale)
            effective = exact.multiply_divide_floor(assets, pool.collateral_factor, S7)
            collateral_by_pool[index] = exact.multiply_divide_floor(price, effective, pool.token_scale)
            effective_collateral = exact.add(effective_collateral, collateral_by_pool[index])
            collateral = exact.add(collateral, exact.multiply_divide_floor(price, assets, pool.token_scale))
        if index in position.debt:
            assets = exact.multiply_divide_ceil(position.debt[index], pool.debt_rate, pool.rate_scale)
            effective = exact.multiply_divide_ceil(assets, S7, pool.liability_factor)
            debt_by_pool[index] = exact.multiply_divide_ceil(price, assets, pool.token_scale)
            effective_debt = exact.add(effective_debt, exact.multiply_divide_ceil(price, effective, pool.token_scale))
            debt = exact.add(debt, debt_by_pool[index])
    return Health(collateral, debt, effective_collateral, effective_debt, debt_by_pool, collateral_by_pool)


def is_liquidatable(health: Health, version: str) -> bool:
    """Whether the contract's ``new_auction`` would begin a liquidation of some part of the position.

    It refuses a position without collateral, because it divides by the collateral's worth. That debt is bad debt.
    """
    if health.debt == 0 or health.collateral == 0:
        return False
    if version == "v1":
        return health.effective_debt >= health.effective_collateral
    return health.effective_debt > health.effective_collateral


POSITION_RULES = PositionRules(
    position_prefix=_prefix(_POSITIONS),
    auction_prefix=_prefix(_AUCTION),
    decode=decode_position,
    auctioned=auctioned_position,
    terms=terms_of,
    health=health_of,
    is_liquidatable=is_liquidatable,
)
