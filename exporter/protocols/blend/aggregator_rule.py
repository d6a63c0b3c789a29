"""Blend's oracle aggregator, in two layouts (docs/oracles.md, "Blend's oracle aggregator").

The one of 2025 has everything in its instance, that of 2024 has persistent entries. A build of early 2025 keeps the
entries of 2024 but looks further back where the upstream gives no last price; entries cannot distinguish the two, so
that such a case has no answer.
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
"""The first by the newer layout, the second by the older one."""

MAX_STEPS: Final = 300
"""A contract that would look further back runs out of its budget: the settings allow 12 steps of 300 s."""


def recognises(host: StorageHost, contract: Contract) -> bool:
    """Whether a contract has the settings of the newer layout, or the entries of the older one and nothing else."""
    if contract.symbols("Base", "Decimals", "MaxAge"):
        return True
    known = set(contract.storage) == {symbol("Admin"), symbol("IsInit")}
    return known and host.data(contract.address, symbol("Assets")) is not None


def answer(host: StorageHost, contract: Contract, call: Call) -> ScVal:
    """The decimals, or a price, or the assets that either layout has."""
    if not contract.symbols("Base", "Decimals", "MaxAge"):
        return _first_answer(host, contract, call)
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
    found = _price(host, settings, oracle, config)
    return VOID if found is None else price_data(*found)


def _price(host: StorageHost, settings: Fields, oracle: Fields, config: Fields) -> tuple[int, int] | None:
    max_age, step = settings.u64("MaxAge"), oracle.u32("resolution")
    upstream, asset = oracle.address("address"), present(config.get("asset"))

    def first(time: int, steps: int) -> tuple[tuple[int, int] | None, int]:
        for taken in range(steps):
            if taken == MAX_STEPS:
                raise TrapError(BUDGET)
            found = price_parts(host.call(upstream, "price", asset, u64(time)))
            time = unsigned(time - step)
            if found is not None:
                return found, time
        return None, time

    oldest = unsigned(host.now - max_age)
    last: int = expect(host.call(upstream, "last_timestamp"), scval.U64, "last_timestamp()")
    back = (last - oldest) // step + 1 if step else MAX_STEPS + 1  # without a step it would look there for ever
    found, time = first(last, back if last >= oldest else 0)
    if found is None:
        return None
    max_dev = config.u32("max_dev")
    if 0 < max_dev < 100:
        if step == 0:
            raise TrapError(PANIC)
        older, _ = first(time, max_age // step)
        if older is None:
            return None
        allowed = truncated(signed(older[0] * max_dev), 100)
        if signed(abs(signed(found[0] - older[0]))) > allowed:
            return None
    price = rescaled(found[0], oracle.u32("decimals"), settings.u32("Decimals"))
    return (price, found[1]) if found[1] >= oldest else None


def _first_answer(host: StorageHost, contract: Contract, call: Call) -> ScVal:
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
    found = price_parts(host.call(config.address("oracle_id"), "lastprice", present(config.get("asset"))))
    if found is None:
        raise NotFromStorageError("the upstream has no last price, and releases of this aggregator differ in what then")
    decimals = expect(present(host.data(contract.address, symbol("Decimals"))), scval.U32, "Decimals")
    return price_data(rescaled(found[0], config.u32("decimals"), decimals), found[1])
