"""Finds who is behind the prices of markets: the code of their oracles, and the contracts that these ask."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from msgspec import Struct

from exporter.errors import Barrier, DecodeError
from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import instance_key, instance_of
from exporter.ledger.codec.fields import named
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.observation import Entries, Entry
from exporter.ledger.storage_rules.redstone import ADAPTER_OF
from exporter.ledger.view import LedgerView
from exporter.protocols.base import Control, ProtocolReading
from exporter.protocols.collector import code_of
from exporter.protocols.protocol import OracleForm

MAX_SOURCES = 32
"""The code of at most this many sources of an oracle is watched, because anybody can name any number."""


async def watch_prices(
    view: LedgerView, readings: Sequence[ProtocolReading], oracle_forms: Sequence[OracleForm]
) -> None:
    """Add to the readings who is behind their markets' prices. Raises `SourceError`.

    If an oracle has none of these forms, only its address and code are added.
    """
    oracles_by_market, tokens_by_oracle = _oracles_used(readings)
    entries = dict(await view.read(map(instance_key, tokens_by_oracle)))
    oracles = [
        _Oracle.recognised(oracle, _storage(entries[instance_key(oracle)]), tokens, oracle_forms)
        for oracle, tokens in tokens_by_oracle.items()
    ]
    entries |= await view.read(key for oracle in oracles for key in oracle.keys)
    sources = {oracle.address: oracle.sources(entries) for oracle in oracles}
    instances = {instance_key(source) for each in sources.values() for source in each[:MAX_SOURCES]}
    entries |= await view.read([*sorted(instances), *(key for oracle in oracles for key in oracle.late_keys)])
    sources |= {oracle.address: oracle.sources(entries) for oracle in oracles if oracle.late_keys}
    for reading, by_market in zip(readings, oracles_by_market, strict=True):
        for market, used in by_market.items():
            reading.controls += _controls(market, sorted(used), sources, entries)


async def watch_prices_contained(
    view: LedgerView, readings: Sequence[ProtocolReading], oracle_forms: Sequence[OracleForm]
) -> None:
    """Do what `watch_prices` does, and turn a failure into a notice, because no published number needs the result.

    Only errors of `NEVER_CONTAINED` are raised.
    """
    with Barrier() as barrier:
        await watch_prices(view, readings, oracle_forms)
    if barrier.failure:
        notice = f"who is behind prices was not read, so changes of it are not reported: {barrier.failure}"
        readings[0].notices.append(notice)


class _OracleUse(NamedTuple):
    """A market that asks an oracle, and the token that it asks for. The oracle or the token may be None."""

    market: str
    oracle: str | None
    token: str | None


def _oracles_used(readings: Sequence[ProtocolReading]) -> tuple[list[dict[str, set[str]]], dict[str, dict[str, None]]]:
    """The oracles of the markets of each reading, and the tokens for which each oracle is asked."""
    by_reading: list[dict[str, set[str]]] = []
    tokens_by_oracle: dict[str, dict[str, None]] = {}
    for reading in readings:
        by_market: dict[str, set[str]] = {}
        uses = [_OracleUse(market.address, market.oracle, None) for market in reading.markets]
        uses += [_OracleUse(pool.market.address, pool.oracle, pool.token_address) for pool in reading.pools]
        for market, oracle, token in uses:
            if oracle is None or not oracle.startswith("C"):
                continue
            by_market.setdefault(market, set()).add(oracle)
            tokens = tokens_by_oracle.setdefault(oracle, {})
            if token is not None:
                tokens[token] = None
        by_reading.append(by_market)
    return by_reading, tokens_by_oracle


class _Oracle(Struct, frozen=True):
    """An oracle, and where its entries name the contracts that it asks for prices."""

    address: str
    storage: Mapping[str, ScVal]
    """The storage of its instance, by name."""
    names: tuple[str, ...]
    """The names in the storage under which there are sources."""
    keys: tuple[bytes, ...]
    """The ledger keys of its other entries that name sources."""
    late_keys: tuple[bytes, ...]
    """More such keys, which are read along with the sources of other oracles (`OracleForm.is_read_late`)."""

    @classmethod
    def recognised(
        cls, address: str, storage: Mapping[str, ScVal], tokens: Iterable[str], oracle_forms: Iterable[OracleForm]
    ) -> _Oracle:
        """An oracle whose storage is compared with all forms; ``tokens`` are those for which it is asked."""
        forms = [form for form in oracle_forms if storage.keys() >= form.names]
        names = tuple(name for form in forms for name in form.sources)
        keys: dict[bool, dict[bytes, None]] = {False: {}, True: {}}
        is_late = any(form.is_read_late for form in forms)
        for form in forms:
            if form.token_key is not None:
                keys[is_late] |= dict.fromkeys(form.token_key(address, token) for token in tokens)
        return cls(address, storage, names, tuple(keys[False]), tuple(keys[True]))

    def sources(self, entries: Entries) -> list[str]:
        """The contracts that the oracle asks, in ascending order. Empty if its form does not show them."""
        sources: dict[str, None] = {}
        if self.address in ADAPTER_OF:
            sources[ADAPTER_OF[self.address]] = None
        for name in self.names:
            sources |= dict.fromkeys(_contracts(self.storage.get(name)))
        for key in (*self.keys, *self.late_keys):
            entry = entries.get(key)
            with suppress(DecodeError):
                sources |= dict.fromkeys(() if entry is None else _asked(entry.value))
        sources.pop(self.address, None)
        return sorted(sources)


def _controls(
    market: str, oracles: Sequence[str], sources_of: Mapping[str, Sequence[str]], entries: Entries
) -> Iterator[Control]:
    sources = sorted({source for oracle in oracles for source in sources_of[oracle]})
    if sources:
        yield Control(market, "oracle", "price sources", ", ".join(sources[:MAX_SOURCES]))
    for what, contracts in (("oracle", oracles), ("price source", sources)):
        for contract in contracts:
            code = code_of(entries.get(instance_key(contract)))
            if code is not None:
                yield Control(market, "code", f"{what} {contract}", code)


def _storage(instance: Entry | None) -> dict[str, ScVal]:
    with suppress(DecodeError):
        return {} if instance is None else named(instance_of(instance.contract_data()).storage)
    return {}


def _asked(config: ScVal) -> Iterator[str]:
    """The contracts in a token's configuration that the oracle asks. The tokens in it, under ``asset``, are not."""
    if config[0] == scval.MAP:
        for key, value in config[1] or ():
            if key != (scval.SYMBOL, "asset"):
                yield from _contracts(value)


def _contracts(value: ScVal | None) -> Iterator[str]:
    """The contracts in a value, without those in an asset (``[Stellar, contract]``)."""
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
