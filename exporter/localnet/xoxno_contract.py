"""The stand-ins for the code of XOXNO's contracts, computed from the chain's state alone.

The pool's views of a single hub market use the stored indexes; ``get_bulk_indexes`` alone brings them to now
(docs/protocols/xoxno.md, "Views"). The aggregator's ``quotes`` is soft: it gives every token a status, and one that it
does not know a status of zeros. The math is that of `xoxno_pool`, which is written apart from the exporter's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from exporter.ledger import scval
from exporter.ledger.scval import ContractInstance, ScVal
from exporter.ledger.scval_encode import VOID, encode_scval, i128, struct_map, symbol, u32, u64, vec
from exporter.localnet.contracts import MISSING_FUNCTION, WRONG_ARGUMENTS, Host, TrapError
from exporter.localnet.xoxno_entries import STATE_FIELDS
from exporter.localnet.xoxno_pool import HubMarket, NoResultError, Params, half_up

POOL_NOT_INITIALIZED = "Error(Contract, #30)"
MATH_OVERFLOW = "Error(Contract, #33)"
UNSAFE_PRICE = "Error(Contract, #205)"
PRICE_STALE = "Error(Contract, #206)"
ORACLE_NOT_CONFIGURED = "Error(Contract, #216)"

_WRONG_TYPE = "Error(Value, UnexpectedType)"
_BPS = 10_000
_FUTURE, _LEGS_APART = 60, 3_600  # seconds

_VIEWS: dict[str, Callable[[HubMarket], int]] = {
    "get_borrow_rate": lambda market: market.borrow_rate(),
    "get_borrowed_amount": lambda market: market.amount(market.borrowed, market.borrow_index),
    "get_deposit_rate": lambda market: market.deposit_rate(),
    "get_reserves": lambda market: market.cash,
    "get_revenue": lambda market: market.claimable(),
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
            return u64(max(now - market.last_timestamp, 0))
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
    """The code of the price aggregator: ``quotes(Vec<PriceKey>)``, and ``prices``, which fails on a bad one.

    Both give a map from the keys, each of which stands in it once.
    """
    if function not in ("quotes", "prices"):
        raise TrapError(MISSING_FUNCTION)
    if len(arguments) != 1:
        raise TrapError(WRONG_ARGUMENTS)
    kind, keys = arguments[0]
    if kind != scval.VEC:
        raise TrapError(_WRONG_TYPE)
    found: dict[ScVal, ScVal] = {}
    for key in keys:
        status, oracle = _status(host, contract, key)
        if function == "quotes":
            found[key] = struct_map(
                {name: (scval.BOOL if isinstance(value, bool) else scval.I128, value) for name, value in status.items()}
                | {"price_timestamp": u64(status["price_timestamp"])}
            )
            continue
        if oracle is None:
            raise TrapError(ORACLE_NOT_CONFIGURED)
        if not status["valid"]:
            raise TrapError(PRICE_STALE if status["stale"] else UNSAFE_PRICE)
        price = {"asset_decimals": u32(oracle["asset_decimals"]), "price_wad": i128(status["final_wad"])}
        found[key] = struct_map(price | {"timestamp": u64(status["price_timestamp"])})
    return (scval.MAP, tuple(sorted(found.items(), key=lambda pair: encode_scval(pair[0]))))


def _status(host: Host, contract: str, key: ScVal) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """``PriceStatus`` of a key, and its ``AssetOracle``; zeros that are not valid where there is no price."""
    kind, parts = key
    if kind != scval.VEC or len(parts) != 2 or parts[0][1] not in ("Token", "Ref"):
        raise TrapError(_WRONG_TYPE)
    status: dict[str, Any] = dict.fromkeys(("final_wad", "primary_wad", "secondary_wad", "price_timestamp"), 0)
    status |= dict.fromkeys(("stale", "deviation", "valid"), False)
    stored = host.data(contract, vec(symbol("Oracle"), key))
    if stored is None:
        return status, None
    oracle, now = _fields(stored), host.timestamp
    answers = host.data(contract, vec(symbol("Answers"), key)) or vec()
    said = [None if answer == VOID else _fields(answer) for answer in answers[1]]
    said = [item if item and item["price_wad"] > 0 and item["timestamp"] <= now + _FUTURE else None for item in said]
    feeds = [_fields(source[1][1]) for source in oracle["sources"]]
    got = [item for item in said if item is not None]
    if not got:
        return status, oracle
    status["price_timestamp"] = min(item["timestamp"] for item in got)
    status["stale"] = any(
        now - item["timestamp"] > min(feed["max_stale_seconds"], oracle["max_price_stale_seconds"])
        for item, feed in zip(said, feeds, strict=True)
        if item is not None
    )
    legs = [item["price_wad"] if item else 0 for item in said]
    if len(legs) == 1:
        legs *= 2
    status["primary_wad"], status["secondary_wad"] = legs
    if len(got) < len(said):
        status["deviation"] = True
        return status, oracle
    of_markets = all(_fields(feed["provider"][1])["nature"][0] == (scval.SYMBOL, "Market") for feed in feeds)
    times = [item["timestamp"] for item in got]
    status["stale"] |= of_markets and max(times) - min(times) > _LEGS_APART
    status["deviation"] = half_up(max(legs), _BPS, min(legs)) > _payloads(oracle["tolerance"])["upper_ratio_bps"]
    status["final_wad"] = sum(legs) // 2
    in_bounds = oracle["min_sanity_price_wad"] <= status["final_wad"] <= oracle["max_sanity_price_wad"]
    status["valid"] = not status["stale"] and not status["deviation"] and in_bounds
    return status, oracle


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
    return _payloads(value[1])


def _payloads(pairs: Any) -> dict[str, Any]:
    return {name: payload for (_, name), (_, payload) in pairs}
