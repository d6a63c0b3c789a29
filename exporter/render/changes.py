"""Changes from run to run: `/v1/changes`, the Atom feeds (RFC 4287) of it, and the values that they are found by."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeAlias
from uuid import NAMESPACE_URL, uuid5

import msgspec
import polars as pl
from msgspec import Struct
from msgspec.structs import asdict

from exporter.best import LEAST_VALUE, NOT_LISTED
from exporter.protocols import PROTOCOLS
from exporter.protocols.base import NOBODY, Parameter
from exporter.protocols.compute import Tables
from exporter.render.run_documents import pending_change
from exporter.render.site.templates import environment
from exporter.render.site.text import fixed_point
from exporter.tables import ACTIVE
from exporter.tree.decoding import decode_json
from exporter.tree.documents import (
    EXPORTER_VERSION,
    ChangeList,
    RunChange,
    WatchedMarket,
    WatchedPending,
    WatchedPool,
    WatchedUnread,
    WatchedValue,
    WatchedValues,
    encode,
    timestamp,
)
from exporter.tree.families import FEED, MARKET_FEED, WATCHED
from exporter.tree.files import FileKind, RenderedFile
from exporter.tree.values import RewardReason

HIGH_UTILIZATION_BPS = 9_500
MOST_ENTRIES = 200
"""Of a feed."""

MOST_CHANGES = 300
MOST_OF_A_MARKET = 25
"""How many changes are kept, the newest, and how many of one market, so that none pushes out all others."""

UNLISTED_PART = 4
"""Changes of markets that are not listed take one part in so many of the room, also in a feed."""

FIRST_KINDS = frozenset(
    {"paused", "resumed", "admin", "code", "oracle", "pending", "unread", "listed", "unlisted", "frozen", "archived"}
)
"""Kinds of changes that come before all others of a run, and are cut last."""

RATE_MOVE_BPS = 500
"""How far a yield moves from one run to the next before that is a change."""

SOON_SECONDS = 86_400
"""A reward that ends within this ends soon."""

FILLED_PERMILLE = 999
"""Part of a cap from which on it is filled: the last base units of one are never used."""

GATES = ("can_supply", "can_withdraw", "can_borrow", "can_repay", "can_liquidate")

UNITS = {
    "utilization": "basis_points",
    "price": "usd",
    **dict.fromkeys(("supply_rate", "borrow_rate"), "basis_points"),
    **dict.fromkeys(("supply_cap", "borrow_cap", "supply_cap_filled", "borrow_cap_filled"), "base_units"),
}
"""Of the two values of a change, by its kind; those of other kinds are words."""

_REWARDS = {
    "paid": "{} are paid a reward",
    "ends_soon": "the reward of {} ends within a day",
    "not_funded": "the reward of {} is not funded",
    "none": "the reward of {} ended",
}
_NOT_PAID = {RewardReason.NONE: "none", RewardReason.NO_EMISSIONS: "none", RewardReason.EXPIRED: "none"} | {
    RewardReason.NOT_FUNDED: "not_funded",
    RewardReason.UNREAD: None,
    RewardReason.NOT_READ: None,
}


class _KeptChanges(Struct, frozen=True):
    """What a run takes over of the list of changes that is published. Fields of an earlier format are ignored."""

    data: list[RunChange]


def earlier_changes(published: bytes | None, before: int) -> list[RunChange]:
    """The changes of a published list at ledgers below ``before``; none where it is missing or not understood.

    A run that died may have replaced the list. Its changes are of no published run, and the next run finds them again.
    """
    try:
        listed = _KeptChanges([]) if published is None else decode_json(published, _KeptChanges)
    except msgspec.DecodeError:
        return []
    return [change for change in listed.data if change.observed_ledger < before]


def watched_values(tables: Tables) -> WatchedValues:
    """The values of a run that the next run compares with its own."""
    about = ("market", "protocol", "name", "status", "config_hash", "listed")
    held = _held(tables)
    markets = [
        WatchedMarket(**row, values=held[row["market"]]) for row in tables.markets.select(about).iter_rows(named=True)
    ]
    unread = sorted((item.market, item.pool or "", item.reason) for item in tables.unread)
    return WatchedValues(
        observed_ledger=tables.ledger,
        exporter_version=EXPORTER_VERSION,
        markets=markets,
        pools=watched_pools(tables),
        unread=[WatchedUnread(market, pool or None, reason) for market, pool, reason in unread],
        pending=[WatchedPending(**asdict(pending_change(item)), market=item.market) for item in tables.pending],
    )


@dataclass(frozen=True, slots=True)
class WatchedFile:
    """Watched values and their file, whose key is its digest."""

    values: WatchedValues
    file: RenderedFile

    @classmethod
    def of(cls, values: WatchedValues) -> WatchedFile:
        data = encode(values)
        key = WATCHED.key(sha256=hashlib.sha256(data).hexdigest())
        return cls(values, RenderedFile(key, data, FileKind.PAGE))


def own_changes(before: WatchedValues | None, now: WatchedValues, network: str, close_time: int) -> list[RunChange]:
    """All changes from the run before (None: nothing is compared), those of markets in turns.

    ``network`` is a passphrase, ``close_time`` when the ledger of this run closed, in unix seconds.
    """
    if before is None:
        return []
    compared = _Comparison(before, now, network, close_time)
    return _in_turns([*compared.markets(), *compared.pools(), *compared.unread(), *compared.queued()])


def change_list(own: Sequence[RunChange], earlier: Sequence[RunChange], ledger: int) -> ChangeList:
    """The changes of a run at a ledger, and those that were found ``earlier``, as far as there is room for them."""
    data = _bounded([*own, *earlier], MOST_CHANGES) if own else list(earlier)
    cut = {change.id for change in own} - {change.id for change in data}
    return ChangeList(ledger, data, cut_count=len(cut))


def _held(tables: Tables) -> Mapping[str, list[WatchedValue]]:
    """The parts of each market that are compared: its code, the address of its oracle, and what its protocol adds."""
    rows = tables.markets.select("market", "wasm_hash", "oracle").iter_rows()
    held = {
        market: [WatchedValue("code", "market", code or NOBODY), WatchedValue("oracle", "oracle", oracle or NOBODY)]
        for market, code, oracle in rows
    }
    for market, symbols in _frozen(tables).items():
        held[market].append(WatchedValue("frozen", "pools with frozen keys", symbols))
    for item in tables.held:
        if item.market in held:
            held[item.market].append(WatchedValue(item.kind, item.subject, item.value))
    return held


def _frozen(tables: Tables) -> Mapping[str, str]:
    """The pools of each market that need a key which the network froze, in words."""
    found: dict[str, str] = {}
    for market in tables.markets["market"]:
        pools = sorted(pool for (address, pool) in tables.frozen if address == market)
        found[market] = ", ".join(pools) or "none"
    return found


_WORDS = {"terms": "other terms", "admin": "another admin", "code": "other code", "oracle": "another oracle"}
"""Queued changes, by the kind of `exporter.protocols.base.Pending`."""


_Place: TypeAlias = tuple[str, str | None]
_Ends: TypeAlias = tuple[str | None, str | None]
_Moved: TypeAlias = Iterator[tuple[str, str, _Ends]]
"""Kind, what is said of it, and both values."""


class _Comparison:
    def __init__(self, before: WatchedValues, now: WatchedValues, network: str, close_time: int) -> None:
        self._before, self._now, self._network, self._closed = before, now, network, timestamp(close_time)
        self._names = {market.market: market.name or market.market for market in (*before.markets, *now.markets)}
        self._symbols: dict[_Place, str] = {
            (pool.market, pool.pool): pool.symbol for pool in (*before.pools, *now.pools)
        }
        self._protocols = {market.market: market.protocol for market in (*before.markets, *now.markets)}
        self._known = {market.market: market for market in before.markets}
        self._read = {market.market for market in now.markets}
        self._listed = {market.market: market.listed for market in (*before.markets, *now.markets)}
        self._was_unread, self._is_unread = (
            {(item.market, item.pool) for item in values.unread} for values in (before, now)
        )

    def _title(self, place: _Place) -> str:
        market, pool = place
        name = self._names.get(market, market)
        return name if pool is None else f"{self._symbols.get(place, pool)} in {name}"

    def _change(
        self, kind: str, place: _Place, title: str, ends: _Ends, subject: str = "", takes_effect: str | None = None
    ) -> RunChange:
        """A change; ``subject`` distinguishes it from others of its kind of the same market or pool."""
        (market, pool), ledger = place, self._now.observed_ledger
        identity = f"{self._network}/{ledger}/{kind}/{market}/{pool or ''}{subject}"
        return RunChange(
            id=f"urn:uuid:{uuid5(NAMESPACE_URL, identity)}",
            kind=kind,
            market=market,
            pool=pool,
            listed=self._listed.get(market, False),
            title=title,
            before=ends[0],
            after=ends[1],
            unit=UNITS.get(kind),
            takes_effect=takes_effect,
            observed_ledger=ledger,
            ledger_close_time=self._closed,
            previous_ledger=self._before.observed_ledger,
        )

    def markets(self) -> Iterator[RunChange]:
        for market in self._now.markets:
            place, was = (market.market, None), self._known.get(market.market)
            name, status = self._title(place), market.status
            if was is None:
                if place not in self._was_unread:
                    protocol = PROTOCOLS.get(market.protocol)
                    title = market.protocol if protocol is None else protocol.words.coverage.title
                    what = title if market.listed else f"{title}, {NOT_LISTED}"
                    yield self._change("new_market", place, f"New market: {name} ({what})", (None, status))
                continue
            if was.status != status:
                was_open, is_open = was.status in ACTIVE, status in ACTIVE
                kind = "status" if was_open is is_open else "resumed" if is_open else "paused"
                yield self._change(
                    kind, place, f"{name}: {_said_of_market(market.protocol, was.status, status)}", (was.status, status)
                )
            if was.listed is not market.listed:
                now = "listed" if market.listed else "unlisted"
                ends = (NOT_LISTED, "listed") if market.listed else ("listed", NOT_LISTED)
                yield self._change(now, place, f"{name}: it is {'now' if market.listed else 'no longer'} listed", ends)
            # Another version may take other fields into the digest.
            if was.config_hash != market.config_hash and self._before.exporter_version == self._now.exporter_version:
                hashes = was.config_hash, market.config_hash
                yield self._change("configuration", place, f"{name}: its configuration changed", hashes)
            earlier = {(item.kind, item.subject): item.value for item in was.values}
            for item in market.values:
                value = earlier.get((item.kind, item.subject), item.value)
                if value != item.value:
                    what = f"code of the {item.subject}" if item.kind == "code" else item.subject
                    title = f"{name}: the {what} changed"
                    yield self._change(item.kind, place, title, (value, item.value), item.subject)

    def pools(self) -> Iterator[RunChange]:
        """Pools that are new or gone, or of which something moved; a status that is its market's is not its own."""
        restated = {
            market.market
            for market in self._now.markets
            if market.market in self._known and self._known[market.market].status != market.status
        }
        left = {(pool.market, pool.pool): pool for pool in self._before.pools}
        for pool in self._now.pools:
            place = pool.market, pool.pool
            title, old = self._title(place), left.pop(place, None)
            if old is None:
                if pool.market in self._known and place not in self._was_unread:
                    yield self._change("new_pool", place, f"New pool: {title}", (None, None))
                continue
            own = () if pool.market in restated else _restated(self._protocols.get(pool.market, ""), old, pool)
            moved = chain(own, _changed_numbers(old, pool))
            yield from (self._change(kind, place, f"{title}: {said}", ends) for kind, said, ends in moved)
            yield from self._parameters(place, old, pool)
        for place in left.keys() - self._is_unread:
            if place[0] in self._read:
                title = f"{self._title(place)}: the market has it no longer"
                yield self._change("removed_pool", place, title, (None, None))

    def _parameters(self, place: _Place, old: WatchedPool, pool: WatchedPool) -> Iterator[RunChange]:
        """Parameters of a pool with another value. Another version of the exporter may print them in another way."""
        if self._before.exporter_version != self._now.exporter_version:
            return
        for name, value in pool.parameters.items():
            earlier = old.parameters.get(name, value)
            if earlier != value:
                title = f"{self._title(place)}: the parameter {name} changed"
                yield self._change("parameter", place, title, (earlier, value), name)

    def unread(self) -> Iterator[RunChange]:
        for item in self._now.unread:
            place = item.market, item.pool
            if place not in self._was_unread:
                yield self._change("unread", place, f"{self._title(place)}: could not be read", (None, item.reason))

    def queued(self) -> Iterator[RunChange]:
        """Changes that are newly queued or not queued any more; not of markets that are unread now or were before."""
        earlier, later = set(self._before.pending), set(self._now.pending)
        for item in (*self._now.pending, *self._before.pending):
            if item.market not in self._known or item.market not in self._read or item in earlier & later:
                continue
            place = item.market, item.pool
            title = f"{self._title(place)}: {_WORDS.get(item.kind, item.kind)}"
            subject = f"{item.kind} {item.value} {item.takes_effect}"
            if item in later:
                ends = None, item.value
                yield self._change("pending", place, f"{title} queued", ends, subject, item.takes_effect)
            elif place not in self._is_unread:
                yield self._change("pending", place, f"{title} not queued any more", (item.value, None), subject)


def _said_of_market(protocol: str, before: str, after: str) -> str:
    known = PROTOCOLS.get(protocol)
    return _from_to({} if known is None else known.words.market_statuses, before, after)


def _said_of_pool(protocol: str, before: str, after: str) -> str:
    known = PROTOCOLS.get(protocol)
    return _from_to({} if known is None else known.words.pool_statuses, before, after)


def _from_to(meanings: Mapping[str, str], before: str, after: str) -> str:
    """Two statuses in words, each with the protocol's own word once."""
    now, was = (
        f"{meanings[status]} ({status})" if status in meanings else f"status {status}" for status in (after, before)
    )
    return f"{now}; before: {was}"


def _restated(protocol: str, old: WatchedPool, pool: WatchedPool) -> _Moved:
    """Changes of a pool's own status. A status that was or is not known does not count as a change."""
    if old.status is not None and pool.status is not None and old.status != pool.status:
        yield "status", _said_of_pool(protocol, old.status, pool.status), (old.status, pool.status)
        return
    gates = [(gate, getattr(old, gate), getattr(pool, gate)) for gate in GATES]
    turned = [(gate.removeprefix("can_"), after) for gate, was, after in gates if {was, after} == {True, False}]
    if turned:
        before, after = (
            ", ".join(f"{gate} {'open' if is_open is side else 'closed'}" for gate, is_open in turned)
            for side in (False, True)
        )
        yield "status", after, (before, after)


def _matters(change: RunChange) -> bool:
    return change.kind in FIRST_KINDS


def _in_turns(changes: Iterable[RunChange]) -> list[RunChange]:
    """The changes of one run: those of listed markets first, what matters before numbers, and markets take turns."""
    taken: Counter[tuple[bool, bool, str]] = Counter()
    placed = []
    for change in sorted(changes, key=lambda item: (item.market, item.pool or "", item.kind, item.title)):
        group = not change.listed, not _matters(change)
        placed.append(((*group, taken[*group, change.market]), change))
        taken[*group, change.market] += 1
    return [change for _, change in sorted(placed, key=lambda item: item[0])]


def _bounded(changes: Sequence[RunChange], most: int) -> list[RunChange]:
    """At most so many, in their order, newest first: what matters is kept before numbers, and no market has too many.

    Markets that are not listed have a part of the room: anybody can make many of them, with many changes.
    """
    of_market: Counter[str] = Counter()
    kept: set[int] = set()
    by_weight = sorted(enumerate(changes), key=lambda item: not _matters(item[1]))  # else in their order
    for listed in (False, True):
        room = most - len(kept) if listed else most // UNLISTED_PART
        for place, change in by_weight:
            if change.listed is listed and room > 0 and of_market[change.market] < MOST_OF_A_MARKET:
                of_market[change.market] += 1
                kept.add(place)
                room -= 1
    return [change for place, change in enumerate(changes) if place in kept]


def render_feeds(changes: ChangeList, now: WatchedValues, network: str, updated: str) -> Iterator[RenderedFile]:
    """Render the feeds of all changes and of each market; ``updated``, for an empty one, is when the history began.

    ``now`` are the watched values of the run, which name the markets and pools that have a page.
    """
    names = {market.market: market.name or market.market for market in now.markets}
    pools = {(pool.market, pool.pool) for pool in now.pools}
    template = environment().get_template("feed.atom.j2")

    def page_of(market: str, pool: str | None = None) -> str:
        """The page of a changed market or pool; the list of markets for one that is no longer read."""
        if pool is not None and (market, pool) in pools:
            return f"pools/{market}/{pool}.html"
        return f"markets/{market}.html" if market in names else "markets.html"

    def feed(key: str, name: str, title: str, page: str, entries: Sequence[RunChange]) -> RenderedFile:
        text = template.render(
            key=key,
            id=f"urn:uuid:{uuid5(NAMESPACE_URL, f'{network}/feed/{name}')}",
            title=title,
            page=page,
            up="../" * key.count("/"),
            updated=entries[0].ledger_close_time if entries else updated,
            entries=[(change, page_of(change.market, change.pool)) for change in _bounded(entries, MOST_ENTRIES)],
        )
        return RenderedFile(key, f"{text}\n".encode(), FileKind.DOCUMENT)

    yield feed(FEED.template, "", "Changes of the lending markets", "index.html", changes.data)
    watched = {item.market for item in now.markets} | {item.market for item in now.unread}
    for market in sorted(watched | {change.market for change in changes.data}):
        entries = [change for change in changes.data if change.market == market]
        key, title = MARKET_FEED.key(market=market), f"Changes of {names.get(market, market)}"
        yield feed(key, market, title, page_of(market), entries)


def watched_pools(tables: Tables) -> list[WatchedPool]:
    """The facts of each pool that the next run compares."""
    worth = pl.col("tvl_usd_cents") >= LEAST_VALUE
    columns = tables.pools.select(
        "market",
        "pool",
        "symbol",
        "pool_status",
        "utilization_bps",
        *GATES,
        "archived",
        "oracle_price_usd",
        *(pl.when(worth).then(pl.col(f"{side}_apy_bps")) for side in ("supply", "borrow")),
        *(_reward(side, tables.close_time) for side in ("supply", "borrow")),
        *(_cap(side) for side in ("supply", "borrow")),
        pl.col("total_supplied", "total_borrowed").cast(pl.String),
    )
    return [
        msgspec.structs.replace(
            WatchedPool(*row), parameters=dict(_watched_parameters(tables.parameters.get((row[0], row[1]), ())))
        )
        for row in columns.iter_rows()
    ]


def _watched_parameters(parameters: Iterable[Parameter]) -> Iterator[tuple[str, str]]:
    """The parameters that are compared by themselves; caps are among the pool's own numbers."""
    for item in parameters:
        if not item.name.endswith("_cap"):
            value = "no limit" if item.no_limit else fixed_point(item.value, item.decimals)
            yield item.name, value


def _changed_numbers(old: WatchedPool, new: WatchedPool) -> _Moved:
    """Changes of a pool's numbers; one that was or is not known is not a change."""
    if old.utilization_bps <= HIGH_UTILIZATION_BPS < new.utilization_bps:
        yield "utilization", "utilization over 95 %", (str(old.utilization_bps), str(new.utilization_bps))
    if old.archived != new.archived:
        said = "an entry of it is archived" if new.archived else "its archived entries are restored"
        yield "archived", said, ("archived" if old.archived else "live", "archived" if new.archived else "live")
    if (old.oracle_price_usd is None) != (new.oracle_price_usd is None):
        said = "it has no price" if new.oracle_price_usd is None else "it has a price"
        yield "price", said, (old.oracle_price_usd, new.oracle_price_usd)
    sides = (("supply", "suppliers", "get", "supplied"), ("borrow", "borrowers", "pay", "borrowed"))
    for side, people, verb, done in sides:
        was, rate = (getattr(pool, f"{side}_apy_bps") for pool in (old, new))
        if None not in (was, rate) and abs(rate - was) > RATE_MOVE_BPS:
            said = f"{people} {verb} {_percent(rate)}, {'up' if rate > was else 'down'} from {_percent(was)}"
            yield f"{side}_rate", said, (str(was), str(rate))
        paid, pays = (getattr(pool, f"{side}_reward") for pool in (old, new))
        if None not in (paid, pays) and paid != pays and (paid, pays) != ("ends_soon", "paid"):
            yield f"{side}_reward", _REWARDS[pays].format(people), (paid, pays)
        capped, cap = (getattr(pool, f"{side}_cap") for pool in (old, new))
        if None in (capped, cap):
            continue
        if capped != cap:
            raised = cap == "none" or (capped != "none" and int(cap) > int(capped))
            yield f"{side}_cap", f"the {side} cap was {'raised' if raised else 'lowered'}", (capped, cap)
        before, after = (getattr(pool, f"total_{done}") for pool in (old, new))
        if _filled(after, cap) and not _filled(before, capped):
            yield f"{side}_cap_filled", f"the {side} cap is filled", (before, after)


def _reward(side: str, time: int) -> pl.Expr:
    reason, end = pl.col(f"{side}_reward_reason"), pl.col(f"{side}_reward_expiration")
    lasts = pl.when(end - time <= SOON_SECONDS).then(pl.lit("ends_soon")).otherwise(pl.lit("paid"))
    return (
        pl.when(reason.is_in([str(known) for known in _NOT_PAID]))
        .then(reason.replace_strict({str(known): said for known, said in _NOT_PAID.items()}, default=None))
        .otherwise(lasts)
        .alias(f"{side}_reward")
    )


def _cap(side: str) -> pl.Expr:
    cap = pl.col(f"{side}_cap").cast(pl.String).fill_null("none")
    return pl.when(pl.col("risk_scope").is_not_null()).then(cap).alias(f"{side}_cap")


def _filled(total: str, cap: str) -> bool:
    return cap not in ("none", "0") and int(total) * 1_000 >= int(cap) * FILLED_PERMILLE


def _percent(bps: int) -> str:
    return f"{bps // 100}.{bps % 100:02} %"
