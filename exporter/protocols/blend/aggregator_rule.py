"""Answers calls of Blend's oracle aggregator from its entries, in two layouts (docs/oracles.md).

The aggregator of 2025 has everything in its instance; that of 2024 has persistent entries. A build of early 2025 has
the entries of 2024, but looks further back if the upstream oracle has no last price. Entries do not tell these two
apart, so such a call has no answer.
"""

from __future__ import annotations

from typing import Final

from exporter.ledger.codec import scval
from exporter.ledger.codec.fields import Fields, expect
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import VOID, symbol, u64, vec
from exporter.ledger.storage_rules.host import (
    BUDGET,
    PANIC,
    Call,
    Contract,
    NotFromStorageError,
    StorageHost,
    TrapError,
    items,
    present,
    price_data,
    price_parts,
    rescaled,
    signed,
    truncated,
    unknown_function,
    unsigned,
)

ASSET_NOT_FOUND: Final = "Error(Contract, #105)"
ORACLE_NOT_FOUND: Final = "Error(Contract, #107)"
ASSET_BLOCKED: Final = "Error(Contract, #107)"
"""The errors of the contract. Code 107 means the first in the newer layout, and the second in the older one."""

MAX_STEPS: Final = 300
"""A contract that looks further back than this runs out of its budget. The settings allow 12 steps of 300 s."""


def recognises(host: StorageHost, contract: Contract) -> bool:
    """Whether a contract has the settings of the newer layout, or exactly the entries of the older one."""
    if contract.symbols("Base", "Decimals", "MaxAge"):
        return True
    has_older_instance = set(contract.storage) == {symbol("Admin"), symbol("IsInit")}
    return has_older_instance and host.data(contract.address, symbol("Assets")) is not None


def answer(host: StorageHost, contract: Contract, call: Call) -> ScVal:
    """What the aggregator answers to a call of ``decimals``, ``base``, ``assets`` or ``lastprice``.

    Raises `TrapError` or `NotFromStorageError`.
    """
    if not contract.symbols("Base", "Decimals", "MaxAge"):
        return _answer_of_older_layout(host, contract, call)
    settings = contract.fields
    base_assets = items(settings.get("BaseAssets") or vec(), "BaseAssets")
    match call:
        case ["decimals"]:
            return present(settings.get("Decimals"))
        case ["base"]:
            return present(settings.get("Base"))
        case ["assets"]:
            return vec(*base_assets, *_assets(settings))
        case ["lastprice", asset]:
            if asset in base_assets or asset == settings.get("Base"):
                decimals = settings.u32("Decimals")
                return price_data(signed(10 ** min(decimals, 39)), host.now)
            return _lastprice(host, settings, asset)
    raise unknown_function(call)


def _assets(settings: Fields) -> dict[ScVal, ScVal]:
    return dict(expect(settings.get("Assets") or (scval.MAP, ()), scval.MAP, "Assets") or ())


def _lastprice(host: StorageHost, settings: Fields, asset: ScVal) -> ScVal:
    configured = _assets(settings).get(asset)
    if configured is None:
        raise TrapError(ASSET_NOT_FOUND)
    config = Fields.of(configured, "Assets")
    oracles = items(settings.get("Oracles") or vec(), "Oracles")
    if config.u32("oracle_index") >= len(oracles):
        raise TrapError(ORACLE_NOT_FOUND)
    oracle = Fields.of(oracles[config.u32("oracle_index")], "Oracles")
    price = _price(host, settings, oracle, config)
    return VOID if price is None else price_data(*price)


def _price(host: StorageHost, settings: Fields, oracle: Fields, config: Fields) -> tuple[int, int] | None:
    """The newest price of an upstream oracle and its time (unix seconds).

    None if the oracle has none within ``MaxAge``, or if the price differs too much from the one before it.
    """
    max_age, step = settings.u64("MaxAge"), oracle.u32("resolution")
    upstream, asset = oracle.address("address"), present(config.get("asset"))

    def newest_price(time: int, steps: int) -> tuple[tuple[int, int] | None, int]:
        """The newest price at or before a time, within some steps back, and the time that is one step before it."""
        for taken in range(steps):
            if taken == MAX_STEPS:
                raise TrapError(BUDGET)
            price = price_parts(host.call(upstream, "price", asset, u64(time)))
            time = unsigned(time - step)
            if price is not None:
                return price, time
        return None, time

    oldest = unsigned(host.now - max_age)
    last: int = expect(host.call(upstream, "last_timestamp"), scval.U64, "last_timestamp()")
    # With a step of 0 the contract would ask for the same time for ever.
    steps_back = (last - oldest) // step + 1 if step else MAX_STEPS + 1
    newest, time = newest_price(last, steps_back if last >= oldest else 0)
    if newest is None:
        return None
    amount, timestamp = newest
    max_dev = config.u32("max_dev")
    if 0 < max_dev < 100:
        if step == 0:
            raise TrapError(PANIC)
        older, _ = newest_price(time, max_age // step)
        if older is None:
            return None
        allowed = truncated(signed(older[0] * max_dev), 100)
        if signed(abs(signed(amount - older[0]))) > allowed:
            return None
    price = rescaled(amount, oracle.u32("decimals"), settings.u32("Decimals"))
    return (price, timestamp) if timestamp >= oldest else None


def _answer_of_older_layout(host: StorageHost, contract: Contract, call: Call) -> ScVal:
    match call:
        case ["decimals" | "base" | "assets" as name]:
            return present(host.data(contract.address, symbol(name.capitalize())))
        case ["lastprice", asset]:
            pass
        case _:
            raise unknown_function(call)
    stored = host.data(contract.address, vec(symbol("AssetConfig"), asset))
    if stored is None:
        raise TrapError(ASSET_NOT_FOUND)
    blocked = host.data(contract.address, vec(symbol("Blocked"), asset))
    if blocked is not None and expect(blocked, scval.BOOL, "Blocked"):
        raise TrapError(ASSET_BLOCKED)
    config = Fields.of(stored, "AssetConfig")
    price = price_parts(host.call(config.address("oracle_id"), "lastprice", present(config.get("asset"))))
    if price is None:
        raise NotFromStorageError(
            "the upstream has no last price, and releases of this aggregator differ in what they do then"
        )
    amount, timestamp = price
    decimals = expect(present(host.data(contract.address, symbol("Decimals"))), scval.U32, "Decimals")
    return price_data(rescaled(amount, config.u32("decimals"), decimals), timestamp)
