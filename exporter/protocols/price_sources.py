"""Who is behind the prices of markets: the code of their oracles, which contracts these ask, and the code of those."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from exporter.errors import DecodeError, SourceError
from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import instance_key, instance_of
from exporter.ledger.codec.fields import named
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.observation import Entries, Entry
from exporter.ledger.storage_rules.redstone import ADAPTER_OF
from exporter.ledger.view import LedgerView
from exporter.protocols.base import Held, ProtocolReading
from exporter.protocols.collector import code_of, config_keys
from exporter.protocols.containment import described
from exporter.protocols.xoxno.layout import oracle_key

MAX_SOURCES = 32
"""Of one oracle; the code of further ones is not watched, as anybody can name any oracle."""

_OF_ALL = {
    frozenset({"Base", "Decimals", "MaxAge"}): ("Oracles",),
    frozenset({"ReflectorContract", "NativeXlmAddress"}): ("ReflectorContract", "FallbackOracle"),
}
"""By names of their instances, where oracles keep whom they ask for all tokens: Blend's aggregator, and K2's oracle."""

_OF_TOKEN = {"NativeXlmAddress", "IsInit"}
"""Names of the instances of oracles that keep an ``AssetConfig`` for each token: K2's, and Blend's of 2024."""


async def watch_prices(view: LedgerView, readings: Sequence[ProtocolReading]) -> None:
    """Add who is behind markets' prices; of an oracle of unknown form address and code alone. Raises `SourceError`."""
    asked: dict[str, dict[str, None]] = {}
    used: list[tuple[ProtocolReading, dict[str, set[str]]]] = []
    for reading in readings:
        own: dict[str, set[str]] = {}
        places: list[tuple[str, str | None, str | None]] = []
        places += [(market.address, market.oracle, None) for market in reading.markets]
        places += [(pool.market.address, pool.oracle, pool.token_address) for pool in reading.pools]
        for market, oracle, token in places:
            if oracle is not None and oracle.startswith("C"):
                own.setdefault(market, set()).add(oracle)
                asked.setdefault(oracle, {}).update({} if token is None else {token: None})
        used.append((reading, own))
    entries = dict(await view.read(map(instance_key, asked)))
    storages = {oracle: _storage(entries[instance_key(oracle)]) for oracle in asked}
    configs = {
        oracle: [oracle_key(oracle, token) for token in tokens]
        if "OracleKeys" in storages[oracle]
        else config_keys(oracle, tokens)
        for oracle, tokens in asked.items()
        if storages[oracle].keys() & {*_OF_TOKEN, "OracleKeys"}
    }
    late = {oracle: keys for oracle, keys in configs.items() if "IsInit" in storages[oracle]}
    entries |= await view.read(key for oracle, keys in configs.items() if oracle not in late for key in keys)
    known = {oracle: _sources(oracle, storages[oracle], configs.get(oracle, ()), entries) for oracle in asked}
    instances = {instance_key(source) for sources in known.values() for source in sources[:MAX_SOURCES]}
    entries |= await view.read([*sorted(instances), *(key for keys in late.values() for key in keys)])
    known |= {oracle: _sources(oracle, storages[oracle], keys, entries) for oracle, keys in late.items()}
    for reading, own in used:
        for market, oracles in own.items():
            reading.held += _held(market, sorted(oracles), known, entries)


async def watch_prices_contained(view: LedgerView, readings: Sequence[ProtocolReading]) -> None:
    """The same, where any other failure is a notice: nothing that is published as a number needs it."""
    try:
        await watch_prices(view, readings)
    except SourceError:
        raise
    except Exception as error:
        readings[0].notices.append(f"who is behind prices could not be compared: {described(error)}")


def _held(market: str, oracles: Sequence[str], known: Mapping[str, Sequence[str]], entries: Entries) -> Iterator[Held]:
    sources = sorted({source for oracle in oracles for source in known[oracle]})
    if sources:
        yield Held(market, "oracle", "price sources", ", ".join(sources[:MAX_SOURCES]))
    for what, contracts in (("oracle", oracles), ("price source", sources)):
        for contract in contracts:
            code = code_of(entries.get(instance_key(contract)))
            if code is not None:
                yield Held(market, "code", f"{what} {contract}", code)


def _storage(instance: Entry | None) -> dict[str, ScVal]:
    with suppress(DecodeError):
        return {} if instance is None else named(instance_of(instance.contract_data()).storage)
    return {}


def _sources(oracle: str, storage: Mapping[str, ScVal], keys: Iterable[bytes], entries: Entries) -> list[str]:
    """The contracts that an oracle asks, ascending; none where its form does not show them."""
    found: dict[str, None] = {}
    if oracle in ADAPTER_OF:
        found[ADAPTER_OF[oracle]] = None
    for marks, names in _OF_ALL.items():
        if storage.keys() >= marks:
            found |= dict.fromkeys(source for name in names for source in _contracts(storage.get(name)))
    for key in keys:
        entry = entries.get(key)
        with suppress(DecodeError):
            found |= dict.fromkeys(() if entry is None else _asked(entry.value))
    found.pop(oracle, None)
    return sorted(found)


def _asked(config: ScVal) -> Iterator[str]:
    """The contracts in a token's configuration, but for tokens, which follow the symbol of an asset or are one."""
    if config[0] == scval.MAP:
        for key, value in config[1] or ():
            if key != (scval.SYMBOL, "asset"):
                yield from _contracts(value)


def _contracts(value: ScVal | None) -> Iterator[str]:
    """The contracts in a value, but for those that an asset (``[Stellar, contract]``) names."""
    if value is None:
        return
    kind, content = value
    if kind == scval.ADDRESS and content.startswith("C"):
        yield content
    elif kind == scval.VEC and content and content[0] != (scval.SYMBOL, "Stellar"):
        for item in content:
            yield from _contracts(item)
    elif kind == scval.MAP:
        for _, item in content or ():
            yield from _contracts(item)
