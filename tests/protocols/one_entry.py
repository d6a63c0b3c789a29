"""One entry of a ledger changed in every way that a contract, an upgrade or the network could change it."""

from __future__ import annotations

import asyncio
import re
import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from exporter.deployments import deployments_of
from exporter.errors import DecodeError
from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import CONTRACT_DATA
from exporter.ledger.codec.scval import ScVal, decode_scval
from exporter.ledger.codec.scval_encode import encode_scval, symbol, u32
from exporter.ledger.source import ContractCall, EntriesAnswer, RawEntry, SimulationAnswer
from exporter.ledger.view import LedgerView
from exporter.localnet.chain import Chain
from exporter.localnet.network import LocalNetwork, PlayedAnswers
from exporter.protocols import PROTOCOLS
from exporter.protocols.base import Candidate, Origin, ProtocolReading
from exporter.protocols.compute import Tables, compute
from exporter.protocols.containment import read_contained
from exporter.tables import GATES, POOLS, TERMS
from exporter.tree.documents import Unread
from tests.entries import decode_data_key

Place = tuple[str, str]
"""Market and pool."""

PRICE_COLUMNS = {
    "oracle",
    "oracle_decimals",
    "oracle_price",
    "price_timestamp",
    "oracle_price_usd",
    "price_reason",
    "tvl_usd_cents",
    "supplied_usd_cents",
    "borrowed_usd_cents",
    "available_usd_cents",
}
ROOM_COLUMNS = {name for name in POOLS if re.fullmatch("(available_to|supply_cap|borrow_cap)_.*usd_cents", name)}
PRICE_COLUMNS |= ROOM_COLUMNS
TERM_COLUMNS = {*TERMS, *ROOM_COLUMNS, "available_usd_cents"}
REWARD_COLUMNS = {name for name in POOLS if "reward" in name} | {"total_supply_apy_bps"}
ANOTHER = "another's value"
_UNKNOWN_KIND = 99
_MOST_OTHERS = 4
_MORE = (symbol("zz_a_later_field"), u32(1))


class OneChanged(Chain):
    """A chain that does not move, and of which one entry can be exchanged."""

    def __init__(self, network: LocalNetwork) -> None:
        latest = network.chain.latest
        super().__init__(network.chain.state(latest), start_ledger=latest, start_time=network.chain.close_time(latest))
        self.instead: dict[bytes, RawEntry | None] = {}

    def entry(self, key: bytes, ledger: int) -> RawEntry | None:
        return self.instead[key] if key in self.instead else super().entry(key, ledger)


class Source:
    """A ledger source over such a chain; it notes which keys matter. A rule that fails is a contract that traps."""

    def __init__(self, chain: OneChanged) -> None:
        self.chain = chain
        self.asked: dict[bytes, None] = {}
        self.read: set[bytes] = set()

    async def tip(self) -> int:
        return self.chain.latest

    async def close_time(self, ledger: int) -> int:
        return self.chain.close_time(ledger)

    async def read_entries(self, keys: Sequence[bytes]) -> list[EntriesAnswer]:
        self.asked.update(dict.fromkeys(keys))
        self.read.update(keys)
        found = {key: entry for key in keys if (entry := self.chain.entry(key, self.chain.latest)) is not None}
        return [EntriesAnswer(self.chain.latest, tuple(keys), found, "direct")]

    async def simulate(self, call: ContractCall) -> SimulationAnswer:
        latest = self.chain.latest
        try:
            simulation = PlayedAnswers().simulate(self.chain, latest, call)
        except Exception as error:
            return SimulationAnswer(latest, None, f"HostError: {error}", (), "direct")
        self.asked.update(dict.fromkeys(simulation.footprint))
        return SimulationAnswer(latest, simulation.result, simulation.error, tuple(simulation.footprint), "direct")


def other_kind(value: ScVal) -> ScVal:
    """A value of a kind that no contract has in its place."""
    return (scval.BYTES, b"another") if value[0] != scval.BYTES else u32(7)


def _parts(value: ScVal) -> Iterator[tuple[str, str, ScVal]]:
    """Every part of a value exchanged, removed or added: what was done, where, and the whole value then."""
    kind, payload = value
    if kind == scval.CONTRACT_INSTANCE:
        for change, where, pairs in _pairs_changed(payload.storage or ()):
            yield change, where, (kind, payload._replace(storage=pairs))
    elif kind == scval.MAP and payload is not None:
        for change, where, pairs in _pairs_changed(payload):
            yield change, where, (kind, pairs)
    elif kind == scval.VEC and payload:
        for index, item in enumerate(payload):
            before, after = payload[:index], payload[index + 1 :]
            yield "wrong type", f"[{index}]", (kind, (*before, other_kind(item), *after))
            for change, where, changed in _parts(item):
                yield change, f"[{index}]{where}", (kind, (*before, changed, *after))
        if len({item[0] for item in payload}) > 1:  # a tuple: of a list, with one less, nothing is missing
            yield "field less", "[-1]", (kind, payload[:-1])


def _pairs_changed(pairs: Sequence[tuple[ScVal, ScVal]]) -> Iterator[tuple[str, str, tuple[tuple[ScVal, ScVal], ...]]]:
    if pairs and {key[0] for key, _ in pairs} <= {scval.SYMBOL, scval.VEC}:  # a struct, or a storage
        yield "field more", "", (*pairs, _MORE)
    for index, (key, item) in enumerate(pairs):
        name = f".{shown(key)}"
        before, after = tuple(pairs[:index]), tuple(pairs[index + 1 :])
        yield "field less", name, (*before, *after)
        yield "wrong type", name, (*before, (key, other_kind(item)), *after)
        for change, where, changed in _parts(item):
            yield change, name + where, (*before, (key, changed), *after)


def shown(key: ScVal) -> str:
    """A key in a few words."""
    kind, payload = key
    if kind == scval.VEC:
        return "(" + ",".join(shown(item) for item in payload or ()) + ")"
    return str(payload)[:14] if kind != scval.LEDGER_KEY_CONTRACT_INSTANCE else "instance"


def mutants(
    key: bytes, raw: RawEntry, others: Iterable[tuple[str, bytes]]
) -> Iterator[tuple[str, str, RawEntry | None]]:
    """Every change of an entry: its kind, where in the entry, and the entry then; ``others`` are values, by name."""

    def holding(value: bytes) -> RawEntry:
        return RawEntry(raw.data[: len(key) + 4] + value, raw.last_modified, raw.live_until)

    yield "absent", "", None
    yield "archived", "", RawEntry(raw.data, raw.last_modified, 0)
    (kind,) = struct.unpack_from(">I", key)
    if kind != CONTRACT_DATA:
        return
    data = raw.data[len(key) + 4 :]
    value = decode_scval(data)
    yield "unknown kind", "", holding(struct.pack(">I", _UNKNOWN_KIND) + data[4:])
    yield "wrong type", "", holding(encode_scval(other_kind(value)))
    for change, where, changed in _parts(value):
        yield change, where, holding(encode_scval(changed))
    for name, other in others:
        yield ANOTHER, f" = {name}", holding(other)


def others_of(key: bytes, values: Mapping[bytes, bytes]) -> Iterator[tuple[str, bytes]]:
    """Values of other entries that could be in this one's place: of entries of the same name, or of lists.

    Not the beginning of a list: with that the contract itself has no other pools. The next run reports those that left.
    """
    if key not in values:
        return
    own, kind = name_of(key).split(",")[0], values[key][:4]
    seen = {values[key]}
    for other, value in values.items():
        name = name_of(other)
        is_list = kind == struct.pack(">I", scval.VEC)
        alike = is_list or name.split(",")[0] == own
        if is_list and value[:4] == kind and values[key][12:].startswith(value[12:]):
            continue
        if alike and value[:4] == kind and value not in seen and len(seen) <= _MOST_OTHERS:
            seen.add(value)
            yield name, value


def name_of(key: bytes) -> str:
    """An entry's key in a few words."""
    try:
        return shown(decode_data_key(key).key)
    except DecodeError:
        return "code"


def read(source: Source, protocol: str, remembered: Iterable[str] = ()) -> ProtocolReading:
    """What is read of one protocol: markets that the lists have, an earlier run remembers, or the chain lists."""
    deployments = [item for item in deployments_of("local") if item.protocol == protocol]
    named = [Candidate(protocol, address) for each in deployments for address in each.markets]
    listed = {candidate.address for candidate in named}
    named += [Candidate(protocol, address, Origin.REMEMBERED) for address in remembered if address not in listed]
    return asyncio.run(read_contained(PROTOCOLS[protocol], LedgerView(source), named, deployments))


def rows_of(tables: Tables) -> dict[Place, dict[str, Any]]:
    """The rows by market and pool."""
    return {(row["market"], row["pool"]): row for row in tables.pools.iter_rows(named=True)}


class Once:
    """A protocol that computes the same raw state of a pool once."""

    def __init__(self, protocol: str, time: int) -> None:
        self.module, self.time = PROTOCOLS[protocol], time
        self.price_failure = self.module.price_failure
        self.without_price = self.module.without_price
        self.coverage = self.module.coverage
        self.known: dict[str, dict[str, Any]] = {}

    def project(self, pool: Mapping[str, Any]) -> dict[str, Any]:
        """The numbers of a pool."""
        raw = repr(pool)
        if raw not in self.known:
            self.known[raw] = self.module.project(pool)
        return dict(self.known[raw])


def raw_rows(reading: ProtocolReading) -> dict[Place, list[Any]]:
    """All that the rows are computed from: where it is the same, so are they."""
    rows: dict[Place, list[Any]] = {}
    for pool in reading.pools:
        token = pool["token_address"]
        quote = reading.quotes.get((str(pool["oracle"]), token))
        rows[pool["market"], pool["pool"]] = [*pool.values(), quote, reading.tokens.get(token)]
    return rows


def untold(place: Place, names: set[str], row: Mapping[str, Any], notices: Iterable[str]) -> bool:
    """Whether these are null, and the row or a notice that names the pool or its market says why."""
    null = all(row[name] is None for name in names - {"can_reason"})
    return null and (row["can_reason"] is not None or any(name in notice for notice in notices for name in place))


ADDRESS = re.compile("[A-Z0-9]{14}")
REASONS = {
    "archived": "archived",
    "unknown kind": "undecodable",
    "wrong type": "undecodable",
    "field less": "undecodable",
}


def fits(item: Unread, kind: str, where: str) -> bool:
    """Whether what is said of something unread is what happened to an entry, and names the field."""
    names = [name for name in re.findall(r"\w+", where) if not name.isdecimal() and not ADDRESS.fullmatch(name)]
    # In any case: tokens have METADATA or Metadata, and are asked for both.
    named = kind in ("archived", ANOTHER) or not names or names[-1].lower() in item.detail.lower()
    return named and item.reason == REASONS.get(kind, item.reason)


@dataclass(slots=True)
class Swept:
    """What became of all rows over all changes: counts by kind of change and fate, and in words what is not alike.

    ``odd`` is what was said of something unread and does not fit the change, ``dear`` where a change costs more than
    one row; ``changed`` are the changes (kind, entry and place in it) after which a row had other numbers, with the
    columns.
    """

    changes: int = 0
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    stopped: list[str] = field(default_factory=list)
    lost: list[tuple[str, str]] = field(default_factory=list)
    odd: list[tuple[str, str, str]] = field(default_factory=list)
    dear: set[str] = field(default_factory=set)
    changed: dict[tuple[str, str], set[str]] = field(default_factory=dict)


def one_of_a_kind(keys: Sequence[bytes], values: Mapping[bytes, bytes]) -> list[bytes]:
    """The first entry of each name, whatever comes after it (one reserve, one token), an instance of each storage."""

    def kind(key: bytes) -> tuple[str, ...]:
        value = decode_scval(values[key]) if key in values else u32(0)
        storage = value[1].storage or () if value[0] == scval.CONTRACT_INSTANCE else ()
        return tuple(name.split(",")[0] for name in (name_of(key), *(shown(item) for item, _ in storage)))

    return list({kind(key): key for key in reversed(keys)}.values())


def sweep(network: LocalNetwork, protocol: str, *, every: bool) -> Swept:
    """Change the entries that the protocol's numbers come from, each in every way, and see what becomes of its rows.

    Every entry; or one of each kind, and then a third of the ways. What only contracts look at, in calls, is theirs to
    judge: there a number may be another one.
    """
    chain, swept = OneChanged(network), Swept()
    time = chain.close_time(chain.latest)
    source = Source(chain)
    reading = read(source, protocol)
    remembered = [market.address for market in reading.markets]
    rows = rows_of(compute([reading], PROTOCOLS, chain.latest, time))
    raw = raw_rows(reading)
    assert rows, f"the network has no pool of {protocol}"
    assert not reading.unread
    changes: list[tuple[bytes, str, str, ProtocolReading]] = []
    values = {
        key: entry.data[len(key) + 4 :]
        for key in source.asked
        if key[:4] == struct.pack(">I", CONTRACT_DATA) and (entry := chain.entry(key, chain.latest)) is not None
    }
    keys = [key for key in source.asked if chain.entry(key, chain.latest) is not None]
    for turn, key in enumerate(keys if every else one_of_a_kind(keys, values)):
        entry = chain.entry(key, chain.latest)
        assert entry is not None  # or it would not be used
        for way, (kind, where, changed) in enumerate(mutants(key, entry, others_of(key, values))):
            if not every and (turn + way) % 3:
                continue
            chain.instead = {key: changed}
            swept.changes += 1
            try:
                changes.append((key, kind, where, read(Source(chain), protocol, remembered)))
            except Exception as error:
                swept.stopped.append(f"{kind} {name_of(key)}{where}: {type(error).__name__}: {error}")
        chain.instead = {}
    gates = PROTOCOLS[protocol].without_price.gates
    without_price = {*gates, *(GATES[gate] for gate in gates if gate in GATES), "can_reason"}
    modules: Any = {protocol: Once(protocol, time)}
    for key, kind, where, after in changes:
        what = name_of(key) + where
        now = raw_rows(after)
        same = {place for place, values in now.items() if raw.get(place) == values}
        tables = compute([after], modules, chain.latest, time) if now.keys() - same else None
        missing = after.unread if tables is None else tables.unread
        swept.odd += [(kind, what, f"{item.reason}: {item.detail}") for item in missing if not fits(item, kind, where)]
        unread = {(item.market, item.pool) for item in missing} | {(item.market, None) for item in after.absent}
        computed = {} if tables is None else rows_of(tables)
        fates: Counter[str] = Counter()
        for place, row in rows.items():
            different = {name for name in row if place in computed and row[name] != computed[place][name]}
            if {"supply_reward_reason", "borrow_reward_reason"} & different:  # which says why the rest is another
                different -= REWARD_COLUMNS
                swept.counts[kind, "reward"] += 1
            elif different and "valid" not in (row["supply_reward_reason"], row["borrow_reward_reason"]):
                # Where nothing is paid, nobody needs the price of what would be.
                different -= {name for name in REWARD_COLUMNS if computed[place][name] is None}
            if place in (same if tables is None else computed) and not different:
                fate = "same"
            elif place not in computed:
                noticed = any(place[0] in notice for notice in after.notices)
                fate = "unread" if place in unread or (place[0], None) in unread else "noticed" if noticed else "lost"
            elif different <= PRICE_COLUMNS | without_price and computed[place]["oracle_price"] is None:
                fate = "unpriced"
            elif different <= TERM_COLUMNS | REWARD_COLUMNS and untold(
                place, different, computed[place], after.notices
            ):
                fate = "untold"
            else:
                fate = "changed" if key in source.read else "called"
            if fate == "lost":
                swept.lost.append((kind, what))
            elif fate == "changed" and kind != ANOTHER:  # which may be all right in its place
                swept.changed.setdefault((kind, what), set()).update(different)
            swept.counts[kind, fate] += 1
            fates[fate] += 1
        if fates["unread"] > 1 and kind != ANOTHER:
            swept.dear.add(what)
    return swept
