"""One entry never costs more than its pool: every entry of every protocol, changed in every way.

As a contract, an upgrade or the network could change it.
"""

from __future__ import annotations

import asyncio
import re
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any, NamedTuple

import pytest

from exporter.deployments.listing import NOTHING_LISTED
from exporter.errors import DecodeError
from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import CONTRACT_DATA
from exporter.ledger.codec.scval import ScVal, decode_scval
from exporter.ledger.codec.scval_encode import encode_scval, symbol, u32
from exporter.ledger.source import RawEntry
from exporter.ledger.view import LedgerView
from exporter.protocols import PROTOCOLS
from exporter.protocols.base import Candidate, Origin, ProtocolReading
from exporter.protocols.compute import Tables, compute
from exporter.protocols.containment import read_contained
from exporter.tables import GATES, OPTIONAL_COLUMNS, POOLS_SCHEMA
from exporter.tree.documents import Unread
from tests.protocols.protocol_facts import all_facts
from tests.protocols.world import Source, World
from tests.recorded_entries import decode_data_key

Place = tuple[str, str]
"""Market and pool."""

PRICES = {name for name in POOLS_SCHEMA if name.startswith(("oracle", "price_")) or name.endswith("_usd_cents")}
REWARDS = {name for name in POOLS_SCHEMA if "reward" in name} | {"total_supply_apy_bps"}
TERM_COLUMNS = {*OPTIONAL_COLUMNS, *(name for name in POOLS_SCHEMA if name.endswith("_usd_cents"))}
ANOTHER = "another's value"
_UNKNOWN_KIND = 99
_MOST_OTHERS = 4
_MORE = (symbol("zz_a_later_field"), u32(1))


OF_NO_POOL = (
    *("(AllRecordData)", "(BEmisCfg,", "(Balance,", "(LastDistro,", "(PoolBalance,", "(TotalShares)", "Backfill", "RZ"),
    *("(Contracts,", "(DeployedMarket,"),
    "(Admin)",
)
"""Entries that no row follows from, so that none says that they are archived: those of a backstop, records of markets,
who decides. What oracles keep by time is temporary."""


HELP = """Each outcome says what was changed, where, and what became of a row:
stopped: the reader raised; it has to decode inside of `Collector.record_unread` or `each_market`.
lost: a row is gone, and nothing says so.
odd: the pool or market is unread, but for another reason than what happened, or without the name of the field.
dear: several pools are unread; an entry that may cost several belongs into `unread_together` of the protocol's facts.
changed: a row has another number, and nothing says why. If the contract has that number too, `may_be_missing` has it.
unread: a field that was added cost a pool; unknown fields are to be ignored."""


def other_kind(value: ScVal) -> ScVal:
    """A value of a kind that no contract has in its place."""
    return (scval.BYTES, b"another") if value[0] != scval.BYTES else u32(7)


def _parts(value: ScVal) -> Iterator[tuple[str, str, ScVal]]:
    """Every change of a part of a value: what was done, at which place, and the whole value after it."""
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
    """Every change of an entry: its kind, its place, and the entry after it; ``others`` are values, by name."""

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


ADDRESS = re.compile("[A-Z0-9]{14}")
REASONS = {
    "unknown kind": "undecodable",
    "wrong type": "undecodable",
    "field less": "undecodable",
}


def fits(item: Unread, kind: str, where: str) -> bool:
    """Whether the reason for something unread is what happened to an entry, and names the field."""
    names = [name for name in re.findall(r"\w+", where) if not name.isdecimal() and not ADDRESS.fullmatch(name)]
    # Case is ignored, because tokens have METADATA or Metadata, and are asked for both.
    named = kind == ANOTHER or not names or names[-1].lower() in item.detail.lower()
    return named and item.reason == REASONS.get(kind, item.reason)


def one_of_a_kind(keys: Sequence[bytes], values: Mapping[bytes, bytes]) -> list[bytes]:
    """The first entry of each name, whatever comes after it (one reserve, one token), an instance of each storage."""

    def kind(key: bytes) -> tuple[str, ...]:
        value = decode_scval(values[key]) if key in values else u32(0)
        storage = value[1].storage or () if value[0] == scval.CONTRACT_INSTANCE else ()
        return tuple(name.split(",")[0] for name in (name_of(key), *(shown(item) for item, _ in storage)))

    return list({kind(key): key for key in reversed(keys)}.values())


def rows_of(tables: Tables) -> dict[Place, dict[str, Any]]:
    """The rows by market and pool."""
    return {(row["market"], row["pool"]): row for row in tables.pools.iter_rows(named=True)}


class Outcome(NamedTuple):
    """What happened to a row, or to a whole reading, after an entry changed at the place ``what``."""

    kind: str
    what: str
    fate: str
    detail: object = ""


def explained(different: set[str], row: Mapping[str, Any], now: Mapping[str, Any], notices: Iterable[str]) -> bool:
    """Whether each other value of a row is null, and something says why: a reason of the row's, or a notice."""
    protocol, place = PROTOCOLS[row["protocol"]], (row["market"], row["pool"])
    reasons = {"supply_reward_reason", "borrow_reward_reason"}
    if reasons & different:
        different = different - REWARDS
    elif "valid" not in {row[name] for name in reasons}:  # where nothing is paid, nobody needs its price
        different = different - {name for name in REWARDS if now[name] is None}
    if now["oracle_price"] is None:
        gates = protocol.prices.without_price.gates
        different = different - PRICES - {*gates, *(GATES[gate] for gate in gates if gate in GATES), "can_reason"}
    if now["can_reason"] is not None or any(name in notice for notice in notices for name in place):
        different = different - {name for name in TERM_COLUMNS | REWARDS if now[name] is None} - {"can_reason"}
    return not different


def sweep(protocol: str, *, every: bool) -> Iterator[Outcome]:
    """Change the entries that the protocol's numbers come from, each in every way, and see what becomes of its rows.

    Every entry; or one of each kind, and then a fifth of the ways. What only contracts look at, in calls, is theirs to
    judge: there a number may be another one.
    """
    world = World(protocol)
    chain, source = world.chain, world.source

    def read(source: Source, named: Sequence[Candidate]) -> ProtocolReading:
        return asyncio.run(read_contained(PROTOCOLS[protocol], LedgerView(source), named, world.deployments))

    def state(reading: ProtocolReading) -> object:
        """All that rows are computed from: where it is the same, so are they."""
        return deepcopy(reading.pools), reading.quotes, reading.tokens, reading.archived

    reading = read(source, world.candidates())
    before = state(reading)
    tables = compute([reading], PROTOCOLS, chain.latest, world.time, NOTHING_LISTED)
    rows = rows_of(tables)
    listed = {candidate.address for candidate in world.candidates()}
    found = [market.address for market in reading.markets if market.address not in listed]
    named = [*world.candidates(), *(Candidate(protocol, market, Origin.REMEMBERED) for market in found)]
    assert rows, f"the network has no pool of {protocol}"
    assert not tables.unread
    entries = {key: entry for key in source.asked if (entry := chain.entry(key, chain.latest)) is not None}
    data = struct.pack(">I", CONTRACT_DATA)
    values = {key: entry.data[len(key) + 4 :] for key, entry in entries.items() if key[:4] == data}
    for turn, key in enumerate(entries if every else one_of_a_kind(list(entries), values)):
        for way, (kind, where, changed) in enumerate(mutants(key, entries[key], others_of(key, values))):
            if not every and (turn + way) % 5:
                continue
            chain.instead, what = {key: changed}, name_of(key) + where
            try:
                reading = read(Source(chain, {}), named)
            except Exception as error:
                yield Outcome(kind, what, "stopped", error)
                continue
            missing, computed, lost = reading.unread, rows, 0
            if state(reading) != before:
                tables = compute([reading], PROTOCOLS, chain.latest, world.time, NOTHING_LISTED)
                missing, computed = tables.unread, rows_of(tables)
            for item in missing:
                if not fits(item, kind, where):
                    yield Outcome(kind, what, "odd", f"{item.reason}: {item.detail}")
            unread = {(item.market, item.pool) for item in missing} | {(item.market, None) for item in reading.absent}
            for place, row in rows.items():
                now = computed.get(place)
                if now is None and (place in unread or (place[0], None) in unread):
                    lost += 1
                    yield Outcome(kind, what, "unread" if lost == 1 else "dear")
                elif now is None:
                    noticed = any(place[0] in notice for notice in reading.notices)
                    yield Outcome(kind, what, "noticed" if noticed else "lost")
                else:
                    different = {name for name in row if row[name] != now[name]}
                    if kind == "archived":
                        is_kept = different == {"archived"} and now["archived"]
                        yield Outcome(kind, what, "kept" if is_kept else "changed" if different else "same", different)
                        continue
                    same = not different or explained(different, row, now, reading.notices) or key not in source.read
                    yield Outcome(kind, what, "same" if same else "changed", different)


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["of each name", "each"])
@pytest.mark.parametrize("protocol", all_facts())
def test_one_changed_entry_loses_no_row(protocol: str, every: bool) -> None:
    """Whatever becomes of one entry, each row is the same or unread with a reason; none is lost, and no run stops.

    An archived entry changes no number; the rows that follow from it say so. A market that may lack pools, or has none,
    is named in a notice. The reason is what happened, and names the field. A
    field that is added, as by an upgrade, costs nothing. Another's value may be all right in its place.
    """
    outcomes = list(sweep(protocol, every=every))
    facts = all_facts()[protocol]
    defaults = facts.may_be_missing

    def is_wrong(item: Outcome) -> bool:
        match item.fate:
            case "stopped" | "lost":
                return True
            case "odd":
                return not item.what.startswith((*defaults, *facts.named_otherwise))
            case "dear":
                return (
                    item.kind != ANOTHER and item.what != "instance" and not item.what.startswith(facts.unread_together)
                )
            case "changed":
                may_be_missing = item.kind in ("absent", "field less") and item.what.startswith(defaults)
                return item.kind != ANOTHER and not may_be_missing
        return item.fate == "unread" and item.kind == "field more"

    marked = {item.what for item in outcomes if item.fate == "kept"}
    unmarked = {item.what for item in outcomes if item.kind == "archived"} - marked
    assert set() == {what for what in unmarked if not what.startswith(OF_NO_POOL) and not what.isdecimal()}
    kinds = {item.kind for item in outcomes}
    every_kind = {"absent", "archived", "unknown kind", "wrong type", "field less", "field more", ANOTHER}
    assert every_kind == kinds if every else len(kinds) >= 4  # a sample of few entries has not all of them
    assert len({(item.kind, item.what) for item in outcomes}) > (10 if every else 3) * len(kinds)
    assert [] == [item for item in outcomes if is_wrong(item)], HELP
