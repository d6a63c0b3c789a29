"""The stand-ins for the code of XOXNO's contracts, computed from the chain's state alone.

The pool's views of a single hub market use the stored indexes; ``get_bulk_indexes`` alone brings them to now
(facts/other-protocols.md 2.8). The aggregator's ``quotes`` is soft: a price that is too old or whose sources differ
is given with its flags. A token it does not know fails the whole call. The math is that of `xoxno_pool`, which is
written apart from the exporter's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from exporter.ledger import scval
from exporter.ledger.scval import ContractInstance, ScVal
from exporter.ledger.scval_encode import VOID, i128, struct_map, u64, vec
from exporter.localnet.contracts import MISSING_FUNCTION, WRONG_ARGUMENTS, Host, TrapError
from exporter.localnet.xoxno_entries import STATE_FIELDS, source_key
from exporter.localnet.xoxno_pool import HubMarket, NoResultError, Params

POOL_NOT_INITIALIZED = "Error(Contract, #30)"
MATH_OVERFLOW = "Error(Contract, #31)"
ORACLE_NOT_FOUND = "Error(Contract, #210)"
PRICE_STALE = "Error(Contract, #206)"
"""The numbers of these errors are made up: no source has them, and nothing reads them."""

_WRONG_TYPE = "Error(Value, UnexpectedType)"
_OUTER_LIMIT = 57_600  # seconds
_HIGHEST_RATIO, _LOWEST_RATIO, _BPS = 11_000, 9_091, 10_000

_VIEWS: dict[str, Callable[[HubMarket], int]] = {
    "get_borrow_rate": lambda market: market.borrow_rate(),
    "get_borrowed_amount": lambda market: market.amount(market.borrowed, market.borrow_index),
    "get_deposit_rate": lambda market: market.deposit_rate(),
    "get_reserves": lambda market: market.cash,
    "get_revenue": lambda market: market.amount(market.revenue, market.supply_index),
    "get_supplied_amount": lambda market: market.amount(market.supplied, market.supply_index),
    "get_utilisation": lambda market: market.utilization(),
}


def run_pool(host: Host, contract: str, function: str, arguments: tuple[ScVal, ...]) -> ScVal:
    """The code of the pool contract: the views of a hub market, and ``get_bulk_indexes``."""
    if function not in (*_VIEWS, "get_bulk_indexes", "get_delta_time", "get_sync_data"):
        raise TrapError(MISSING_FUNCTION)
    if len(arguments) != 1:
        raise TrapError(WRONG_ARGUMENTS)
    (argument,) = arguments
    now = host.timestamp * 1_000
    try:
        if function == "get_bulk_indexes":
            if argument[0] != scval.VEC:
                raise TrapError(_WRONG_TYPE)
            return vec(*(_indexes(_hub_market(host, contract, key), now) for key in argument[1]))
        if function == "get_sync_data":
            stored = {name.lower(): _stored(host, contract, name, argument) for name in ("Params", "State")}
            return struct_map(stored)
        market = _hub_market(host, contract, argument)
        if function == "get_delta_time":
            return u64(now - market.last_timestamp)
        return i128(_VIEWS[function](market))
    except NoResultError:
        raise TrapError(MATH_OVERFLOW) from None


def run_controller(host: Host, contract: str, function: str, arguments: tuple[ScVal, ...]) -> ScVal:
    """The code of the controller: ``get_pool_address()``."""
    if function != "get_pool_address":
        raise TrapError(MISSING_FUNCTION)
    if arguments:
        raise TrapError(WRONG_ARGUMENTS)
    return _storage(host.instance(contract))["Pool"]


def run_aggregator(host: Host, contract: str, function: str, arguments: tuple[ScVal, ...]) -> ScVal:
    """The code of the price aggregator: ``quotes(Vec<PriceKey>)``, and ``prices``, which fails on a bad one."""
    if function not in ("quotes", "prices"):
        raise TrapError(MISSING_FUNCTION)
    if len(arguments) != 1:
        raise TrapError(WRONG_ARGUMENTS)
    kind, keys = arguments[0]
    if kind != scval.VEC:
        raise TrapError(_WRONG_TYPE)
    quotes = [_quote(host, contract, key) for key in keys]
    if function == "quotes":
        return vec(*quotes)
    if any(not _fields(quote)["valid"] for quote in quotes):
        raise TrapError(PRICE_STALE)
    return vec(*(i128(_fields(quote)["final_wad"]) for quote in quotes))


def _quote(host: Host, contract: str, key: ScVal) -> ScVal:
    kind, parts = key
    if kind != scval.VEC or len(parts) != 2 or parts[0] != (scval.SYMBOL, "Token") or parts[1][0] != scval.ADDRESS:
        raise TrapError(_WRONG_TYPE)
    source = host.data(contract, source_key(parts[1][1]))
    if source is None:
        raise TrapError(ORACLE_NOT_FOUND)
    said = _fields(source)
    primary, secondary, time = said["primary_wad"], said["secondary_wad"], said["timestamp"]
    age = host.timestamp - time
    stale = age > min(said["max_age"], _OUTER_LIMIT)
    deviates = False
    final = primary
    if secondary is not None:
        ratio = primary * _BPS // secondary
        deviates = not _LOWEST_RATIO <= ratio <= _HIGHEST_RATIO
        final = (primary + secondary) // 2
    return struct_map(
        {
            "deviation": (scval.BOOL, deviates),
            "final_wad": i128(final),
            "price_timestamp": u64(time),
            "primary_wad": i128(primary),
            "secondary_wad": VOID if secondary is None else i128(secondary),
            "stale": (scval.BOOL, stale),
            "valid": (scval.BOOL, not stale and not deviates and final > 0),
        }
    )


def _indexes(market: HubMarket, now: int) -> ScVal:
    market.accrue(now)
    return struct_map({"borrow_index": i128(market.borrow_index), "supply_index": i128(market.supply_index)})


def _hub_market(host: Host, contract: str, key: ScVal) -> HubMarket:
    """A hub market as its two entries have it."""
    state, params = (_fields(_stored(host, contract, name, key)) for name in ("State", "Params"))
    return HubMarket(
        hub=_fields(key)["hub_id"],
        token=params["asset_id"],
        decimals=params["asset_decimals"],
        params=Params(**{name: params[name] for name in Params.__slots__}),
        last_timestamp=state["last_timestamp"],
        **{name: state[name] for name in STATE_FIELDS},
    )


def _stored(host: Host, contract: str, name: str, key: ScVal) -> ScVal:
    if key[0] != scval.MAP:
        raise TrapError(_WRONG_TYPE)
    found = host.data(contract, vec((scval.SYMBOL, name), key))
    if found is None:
        raise TrapError(POOL_NOT_INITIALIZED)
    return found


def _storage(instance: ContractInstance) -> dict[str, ScVal]:
    """The instance storage by the variants that are its keys."""
    return {key[1][0][1]: value for key, value in instance.storage or () if key[0] == scval.VEC}


def _fields(value: ScVal) -> dict[str, Any]:
    """A struct's fields with the payloads of their values."""
    return {name: payload for (_, name), (_, payload) in value[1]}
