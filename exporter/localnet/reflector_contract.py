"""Reflector's oracle of release 4, and Blend's aggregator over it: their entries as on mainnet, and stand-in code.

An oracle writes all of its prices at once: each in a temporary entry under its time and the asset's index, and the
time in its instance. Layouts: docs/oracles.md. The stand-ins share nothing with what answers from storage.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import TEMPORARY
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import (
    VOID,
    address,
    i128,
    string,
    struct_map,
    symbol,
    u32,
    u64,
    vec,
)
from exporter.ledger.source import ContractCall
from exporter.localnet.contracts import (
    MISSING_FUNCTION,
    UNWRAPPED_NONE,
    WRONG_ARGUMENTS,
    Entry,
    Host,
    TrapError,
    instance_entry,
    made_wasm,
    storage_of,
    stored_entry,
    wasm_hash,
)

REFLECTOR_WASM = made_wasm("localnet reflector 4.1.0")
REFLECTOR_WASM_HASH = wasm_hash(REFLECTOR_WASM)
AGGREGATOR_WASM = made_wasm("localnet blend oracle aggregator")
AGGREGATOR_WASM_HASH = wasm_hash(AGGREGATOR_WASM)
RESOLUTION = 300  # seconds
UNKNOWN_ASSET = "Error(Contract, #105)"


def by_symbol(name: str) -> ScVal:
    """The asset of a symbol."""
    return vec(symbol("Other"), symbol(name))


def by_address(token: str) -> ScVal:
    """The asset of a token contract."""
    return vec(symbol("Stellar"), address(token))


def reflector_entries(oracle: str, decimals: int, prices: Mapping[ScVal, int | None], time: int) -> Iterator[Entry]:
    """An oracle's instance and prices after the update of the period that ``time`` is in; None is no price in it."""
    stamp = time // RESOLUTION * RESOLUTION * 1000
    storage = [
        (string("admin"), address(oracle)),
        (string("assets"), vec(*prices)),
        (string("base_asset"), by_symbol("USD")),
        (string("decimals"), u32(decimals)),
        (string("last_timestamp"), u64(stamp)),
        (string("period"), u64(86_400_000)),
        (string("resolution"), u32(RESOLUTION * 1000)),
    ]
    storage += [(asset[1][1], u32(index)) for index, asset in enumerate(prices)]
    yield instance_entry(oracle, REFLECTOR_WASM_HASH, storage)
    for index, price in enumerate(prices.values()):
        if price:
            yield stored_entry(oracle, (scval.U128, stamp << 64 | index), i128(price), TEMPORARY)


def aggregator_entry(
    aggregator: str, oracle: str, decimals: int, max_age: int, assets: Mapping[str, int], base_assets: list[str]
) -> Entry:
    """An aggregator's instance; ``assets`` has for each token by how many percent its price may move."""
    upstream = {"address": address(oracle), "decimals": u32(14), "index": u32(0), "resolution": u32(RESOLUTION)}
    configs = {
        token: struct_map({"asset": by_address(token), "max_dev": u32(limit), "oracle_index": u32(0)})
        for token, limit in assets.items()
    }
    storage = {
        "Admin": address(oracle),
        "Assets": (scval.MAP, tuple((by_address(token), configs[token]) for token in sorted(configs))),
        "Base": by_symbol("USD"),
        "BaseAssets": vec(*map(by_address, base_assets)),
        "Decimals": u32(decimals),
        "MaxAge": u64(max_age),
        "Oracles": vec(struct_map(upstream)),
    }
    return instance_entry(aggregator, AGGREGATOR_WASM_HASH, [(symbol(name), value) for name, value in storage.items()])


def run_reflector(host: Host, contract: str, function: str, arguments: tuple[ScVal, ...]) -> ScVal:
    """The code of an oracle: some functions of SEP-40, and ``last_timestamp()``."""
    instance = host.instance(contract)
    found = {name: storage_of(instance, string(name)) for name in ("decimals", "resolution", "last_timestamp")}
    if None in found.values():
        raise TrapError(UNWRAPPED_NONE)
    settings = {name: value[1] for name, value in found.items() if value is not None}
    last, step = settings["last_timestamp"], settings["resolution"]
    plain = {
        "decimals": u32(settings["decimals"]),
        "resolution": u32(step // 1000),
        "last_timestamp": u64(last // 1000),
    }
    if function not in (*plain, "lastprice", "price"):
        raise TrapError(MISSING_FUNCTION)
    if len(arguments) != {"lastprice": 1, "price": 2}.get(function, 0):
        raise TrapError(WRONG_ARGUMENTS)
    if function in plain:
        return plain[function]
    time = last if function == "lastprice" else arguments[1][1] * 1000 // step * step
    now = host.timestamp * 1000
    if function == "lastprice" and not (0 < last <= now and now - last < 2 * step):
        return VOID
    index = storage_of(instance, arguments[0][1][1])
    if index is None:
        return VOID
    price = host.data(contract, (scval.U128, time << 64 | index[1]), TEMPORARY)
    return VOID if price is None else struct_map({"price": price, "timestamp": u64(time // 1000)})


def run_aggregator(host: Host, contract: str, function: str, arguments: tuple[ScVal, ...]) -> ScVal:
    """The code of an aggregator: ``decimals()`` and ``lastprice(asset)``."""
    settings = {name[1]: value for name, value in host.instance(contract).storage or ()}
    if function == "decimals":
        return settings["Decimals"]
    if function != "lastprice":
        raise TrapError(MISSING_FUNCTION)
    if len(arguments) != 1:
        raise TrapError(WRONG_ARGUMENTS)
    (asset,) = arguments
    if asset in (settings["Base"], *settings["BaseAssets"][1]):
        return struct_map({"price": i128(10 ** settings["Decimals"][1]), "timestamp": u64(host.timestamp)})
    config = dict(settings["Assets"][1]).get(asset)
    if config is None:
        raise TrapError(UNKNOWN_ASSET)
    fields = {name[1]: value[1] for name, value in config[1]}
    upstream = {name[1]: value[1] for name, value in settings["Oracles"][1][fields["oracle_index"]][1]}
    newest: int = host.call(ContractCall(upstream["address"], "last_timestamp"))[1]
    wanted = (scval.VEC, fields["asset"])

    def price_at(time: int) -> int | None:
        found = host.call(ContractCall(upstream["address"], "price", (wanted, u64(time))))
        return None if found == VOID else dict(found[1])[symbol("price")][1]

    age, step = settings["MaxAge"][1], upstream["resolution"]
    times = range(newest, host.timestamp - age - 1, -step)
    known = next(((time, price) for time in times if (price := price_at(time)) is not None), None)
    if known is None:
        return VOID
    time, price = known
    if 0 < fields["max_dev"] < 100:
        earlier = range(time - step, time - step * (age // step) - 1, -step)
        before = next((found for at in earlier if (found := price_at(at)) is not None), None)
        if before is None or abs(price - before) > before * fields["max_dev"] // 100:
            return VOID
    scaled = price // 10 ** (upstream["decimals"] - settings["Decimals"][1])
    return struct_map({"price": i128(scaled), "timestamp": u64(time)})


REFLECTOR_CODE = {REFLECTOR_WASM_HASH: run_reflector, AGGREGATOR_WASM_HASH: run_aggregator}
"""By wasm hash."""
