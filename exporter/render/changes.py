"""Finds what changed since the previous run, by comparing a run's watched values with the last known ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Generic, NamedTuple, TypeVar
from uuid import NAMESPACE_URL, uuid5

from exporter.best import NOT_LISTED
from exporter.exact import decimal_text
from exporter.protocols import PROTOCOLS
from exporter.render.carried_values import UnreadPlace
from exporter.render.change_list import in_turns
from exporter.render.watched_values import GATES
from exporter.tables import ACTIVE
from exporter.tree.documents import (
    RunChange,
    WatchedMarket,
    WatchedPool,
    WatchedReading,
    WatchedUnread,
    WatchedValues,
    timestamp,
)
from exporter.tree.values import SkipReason

HIGH_UTILIZATION_BPS = 9_500
"""Utilization above which borrowers have nearly everything, in basis points."""

RATE_MOVE_BPS = 500
"""Smallest difference of a yield from one run to the next, in basis points, that is not yet a change."""

FILLED_PERMILLE = 999
"""Part of a cap at which it counts as filled. The last base units of a cap are never used."""

UNITS = {
    "utilization": "basis_points",
    "price": "usd",
    **dict.fromkeys(("supply_rate", "borrow_rate"), "basis_points"),
    **dict.fromkeys(("supply_cap", "borrow_cap", "supply_cap_filled", "borrow_cap_filled"), "base_units"),
}
"""The unit of the two values of a change, by its kind. The values of other kinds are words."""

_REWARDS = {
    "paid": "{} are paid a reward",
    "ends_soon": "the reward of {} ends within a day",
    "not_funded": "the reward of {} is not funded",
    "none": "the reward of {} ended",
}

_QUEUED_WORDS = {"terms": "other terms", "admin": "another admin", "code": "other code", "oracle": "another oracle"}
"""Words for queued changes, by the kind of `exporter.protocols.base.Pending`."""


_Value = TypeVar("_Value", WatchedMarket, WatchedPool)


class _Known(NamedTuple, Generic[_Value]):
    """The last known values of a market or pool, and the reading that they are of."""

    value: _Value
    since: WatchedReading


class _Place(NamedTuple):
    """The place of a change: a market, or one of its pools."""

    market: str
    pool: str | None = None


class _Values(NamedTuple):
    """The value before a change, and the one after it."""

    before: str | None
    after: str | None


class _PoolChange(NamedTuple):
    """A change of a pool: its kind, a text for people, and its values."""

    kind: str
    text: str
    values: _Values


def own_changes(before: WatchedValues | None, now: WatchedValues, network: str, close_time: int) -> list[RunChange]:
    """All changes since the previous run, in the order of `in_turns`; none if ``before`` is None.

    ``before`` and ``now`` are the watched values of the two runs. ``network`` is a passphrase, and ``close_time`` that
    of this run's ledger, in unix seconds.
    """
    if before is None:
        return []
    compared = _Comparison(before, now, network, close_time)
    return in_turns([*compared.markets(), *compared.pools(), *compared.unread(), *compared.queued()])


class _Comparison:
    """Compares the watched values of a run with the last known ones.

    These are the values of the previous run, or those that it handed on because it did not read a market or pool.
    """

    def __init__(self, before: WatchedValues, now: WatchedValues, network: str, close_time: int) -> None:
        self._before, self._now, self._network, self._closed = before, now, network, timestamp(close_time)
        readings = [*reversed(before.carried), before]
        self._markets = {item.market: _Known(item, reading) for reading in readings for item in reading.markets}
        self._pools = {
            _Place(item.market, item.pool): _Known(item, reading) for reading in readings for item in reading.pools
        }
        self._pending = {item: reading for reading in readings for item in reading.pending}
        self._unread_before = _tried(item for reading in readings for item in reading.unread)
        self._unread_now = _tried(now.unread)
        markets = [*(known.value for known in self._markets.values()), *now.markets]
        pools = [*(known.value for known in self._pools.values()), *now.pools]
        self._names = {market.market: market.name or market.market for market in markets}
        self._symbols = {_Place(pool.market, pool.pool): pool.symbol for pool in pools}
        self._protocols = {market.market: market.protocol for market in markets}
        self._listed = {market.market: market.listed for market in markets}
        self._read = {market.market for market in now.markets}
        self._was_unread, self._is_unread = (
            {_Place(item.market, item.pool) for item in unread} for unread in (self._unread_before, now.unread)
        )

    def _title(self, where: _Place) -> str:
        name = self._names.get(where.market, where.market)
        return name if where.pool is None else f"{self._symbols.get(where, where.pool)} in {name}"

    def _change(
        self,
        kind: str,
        where: _Place,
        title: str,
        values: _Values,
        since: WatchedReading,
        subject: str = "",
        takes_effect: str | None = None,
    ) -> RunChange:
        """A change. ``since`` is the reading that was compared.

        ``subject`` tells the change apart from others of its kind in the same market or pool.
        """
        ledger = self._now.observed_ledger
        identity = f"{self._network}/{ledger}/{kind}/{where.market}/{where.pool or ''}{subject}"
        if since is not self._before:
            title += f" (between ledgers {since.observed_ledger} and {ledger}; it was not read in between)"
        return RunChange(
            id=f"urn:uuid:{uuid5(NAMESPACE_URL, identity)}",
            kind=kind,
            market=where.market,
            pool=where.pool,
            listed=self._listed.get(where.market, False),
            title=title,
            before=values.before,
            after=values.after,
            unit=UNITS.get(kind),
            takes_effect=takes_effect,
            observed_ledger=ledger,
            ledger_close_time=self._closed,
            previous_ledger=since.observed_ledger,
        )

    def _is_same_version(self, since: WatchedReading) -> bool:
        """Whether this version of the exporter read the earlier values. Another one may print them in another way."""
        return since.exporter_version == self._now.exporter_version

    def markets(self) -> Iterator[RunChange]:
        """Markets that are new, and markets with a changed value."""
        for market in self._now.markets:
            where, known = _Place(market.market), self._markets.get(market.market)
            name, status = self._title(where), market.status
            if known is None:
                if where not in self._was_unread:
                    protocol = PROTOCOLS.get(market.protocol)
                    title = market.protocol if protocol is None else protocol.words.coverage.title
                    what = title if market.listed else f"{title}, {NOT_LISTED}"
                    values = _Values(None, status)
                    yield self._change("new_market", where, f"New market: {name} ({what})", values, self._before)
                continue
            was, since = known
            if was.status != status:
                was_open, is_open = was.status in ACTIVE, status in ACTIVE
                kind = "status" if was_open is is_open else "resumed" if is_open else "paused"
                title = f"{name}: {_market_status_text(market.protocol, was.status, status)}"
                yield self._change(kind, where, title, _Values(was.status, status), since)
            if was.listed is not market.listed:
                kind = "listed" if market.listed else "unlisted"
                listed = _Values(NOT_LISTED, "listed") if market.listed else _Values("listed", NOT_LISTED)
                title = f"{name}: it is {'now' if market.listed else 'no longer'} listed"
                yield self._change(kind, where, title, listed, since)
            # Another version of the exporter may compute the digest from other fields.
            if was.config_hash != market.config_hash and self._is_same_version(since):
                hashes = _Values(was.config_hash, market.config_hash)
                yield self._change("configuration", where, f"{name}: its configuration changed", hashes, since)
            earlier = {(item.kind, item.subject): item.value for item in was.values}
            for item in market.values:
                value = earlier.get((item.kind, item.subject), item.value)
                if value != item.value:
                    what = f"code of the {item.subject}" if item.kind == "code" else item.subject
                    title = f"{name}: the {what} changed"
                    yield self._change(item.kind, where, title, _Values(value, item.value), since, item.subject)

    def pools(self) -> Iterator[RunChange]:
        """Pools that are new or gone, and pools with a changed value.

        If the status of a market changed, the statuses of its pools follow from that and are left out.
        """
        restated = {
            market.market
            for market in self._now.markets
            if market.market in self._markets and self._markets[market.market].value.status != market.status
        }
        gone = dict(self._pools)
        for pool in self._now.pools:
            where = _Place(pool.market, pool.pool)
            title, known, market = self._title(where), gone.pop(where, None), self._markets.get(pool.market)
            if known is None:
                if market is not None and where not in self._was_unread:
                    yield self._change("new_pool", where, f"New pool: {title}", _Values(None, None), market.since)
                continue
            old, since = known
            statuses = (
                () if pool.market in restated else _changed_status(self._protocols.get(pool.market, ""), old, pool)
            )
            for change in chain(statuses, _changed_numbers(old, pool)):
                yield self._change(change.kind, where, f"{title}: {change.text}", change.values, since)
            yield from self._parameters(where, old, pool, since)
        for where in gone.keys() - self._is_unread:
            if where.market in self._read:
                title = f"{self._title(where)}: the market has it no longer"
                yield self._change("removed_pool", where, title, _Values(None, None), gone[where].since)

    def _parameters(
        self, where: _Place, old: WatchedPool, pool: WatchedPool, since: WatchedReading
    ) -> Iterator[RunChange]:
        """Parameters of a pool that changed, or that the contract did not have before, or has no longer.

        Nothing is compared with values of another version of the exporter. A pool without any parameter is one whose
        parameters are not known.
        """
        if not self._is_same_version(since) or not (old.parameters and pool.parameters):
            return
        for name in {**old.parameters, **pool.parameters}:
            values = _Values(old.parameters.get(name), pool.parameters.get(name))
            if values.before != values.after:
                event = "is new" if values.before is None else "is gone" if values.after is None else "changed"
                title = f"{self._title(where)}: the parameter {self._parameter_in_words(where, name)} {event}"
                yield self._change("parameter", where, title, values, since, name)

    def _parameter_in_words(self, where: _Place, name: str) -> str:
        """A parameter by the contract's name for it and, if the protocol has words for it, what that means."""
        protocol = PROTOCOLS.get(self._protocols.get(where.market, ""))
        meaning = "" if protocol is None else protocol.words.parameters.get(name, "")
        return f"{name} ({meaning})" if meaning else name

    def unread(self) -> Iterator[RunChange]:
        """Markets and pools that could not be read now, but could be before.

        An address that is tried as a market of several protocols is a change once.
        """
        before = set(map(UnreadPlace.of, self._unread_before))
        reasons: dict[_Place, str] = {}
        for item in self._unread_now:
            if UnreadPlace.of(item) not in before:
                reasons.setdefault(_Place(item.market, item.pool), item.reason)
        for where, reason in reasons.items():
            title = f"{self._title(where)}: could not be read"
            yield self._change("unread", where, title, _Values(None, reason), self._before)

    def queued(self) -> Iterator[RunChange]:
        """Changes that are newly queued, or not queued any more.

        Markets that this run did not read, or none before it, are left out.
        """
        earlier, later = self._pending, set(self._now.pending)
        for item in (*self._now.pending, *earlier):
            known = self._markets.get(item.market)
            if known is None or item.market not in self._read or (item in earlier and item in later):
                continue
            where = _Place(item.market, item.pool)
            title = f"{self._title(where)}: {_QUEUED_WORDS.get(item.kind, item.kind)}"
            subject = f"{item.kind} {item.value} {item.takes_effect}"
            if item in later:
                values = _Values(None, item.value)
                since = known.since if where.pool is None else self._pools.get(where, known).since
                yield self._change("pending", where, f"{title} queued", values, since, subject, item.takes_effect)
            elif where not in self._is_unread:
                values = _Values(item.value, None)
                yield self._change("pending", where, f"{title} not queued any more", values, earlier[item], subject)


def _tried(unread: Iterable[WatchedUnread]) -> list[WatchedUnread]:
    """What could not be read. Excluded pools are among the unread ones, but nobody tried to read them."""
    return [item for item in unread if item.reason != SkipReason.EXCLUDED]


def _market_status_text(name: str, before: str, after: str) -> str:
    """The text for a market of this protocol whose status changed."""
    protocol = PROTOCOLS.get(name)
    return _from_to({} if protocol is None else protocol.words.market_statuses, before, after)


def _pool_status_text(name: str, before: str, after: str) -> str:
    """The text for a pool of this protocol whose status changed."""
    protocol = PROTOCOLS.get(name)
    return _from_to({} if protocol is None else protocol.words.pool_statuses, before, after)


def _from_to(meanings: Mapping[str, str], before: str, after: str) -> str:
    """A text with two statuses in plain words. Each has the protocol's own word in addition."""
    now, was = (
        f"{meanings[status]} ({status})" if status in meanings else f"status {status}" for status in (after, before)
    )
    return f"{now}; before: {was}"


def _changed_status(protocol: str, old: WatchedPool, pool: WatchedPool) -> Iterator[_PoolChange]:
    """Changes of a pool's own status. If it is not known, or was not, nothing counts as changed."""
    if old.status is not None and pool.status is not None and old.status != pool.status:
        text = _pool_status_text(protocol, old.status, pool.status)
        yield _PoolChange("status", text, _Values(old.status, pool.status))
        return
    gates = [(gate, getattr(old, gate), getattr(pool, gate)) for gate in GATES]
    turned = [(gate.removeprefix("can_"), after) for gate, was, after in gates if {was, after} == {True, False}]
    if turned:
        before, after = (
            ", ".join(f"{gate} {'open' if is_open is side else 'closed'}" for gate, is_open in turned)
            for side in (False, True)
        )
        yield _PoolChange("status", after, _Values(before, after))


def _changed_numbers(old: WatchedPool, new: WatchedPool) -> Iterator[_PoolChange]:
    """Changes of a pool's numbers. A number that is not known, or was not, does not count as changed."""
    if old.utilization_bps <= HIGH_UTILIZATION_BPS < new.utilization_bps:
        values = _Values(str(old.utilization_bps), str(new.utilization_bps))
        yield _PoolChange("utilization", "utilization over 95 %", values)
    if old.archived != new.archived:
        text = "an entry of it is archived" if new.archived else "its archived entries are restored"
        values = _Values("archived" if old.archived else "live", "archived" if new.archived else "live")
        yield _PoolChange("archived", text, values)
    if (old.oracle_price_usd is None) != (new.oracle_price_usd is None):
        text = "it has no price" if new.oracle_price_usd is None else "it has a price"
        yield _PoolChange("price", text, _Values(old.oracle_price_usd, new.oracle_price_usd))
    sides = (("supply", "suppliers", "get", "supplied"), ("borrow", "borrowers", "pay", "borrowed"))
    for side, people, verb, done in sides:
        was, rate = (getattr(pool, f"{side}_apy_bps") for pool in (old, new))
        if None not in (was, rate) and abs(rate - was) > RATE_MOVE_BPS:
            text = f"{people} {verb} {_percent(rate)}, {'up' if rate > was else 'down'} from {_percent(was)}"
            yield _PoolChange(f"{side}_rate", text, _Values(str(was), str(rate)))
        paid, pays = (getattr(pool, f"{side}_reward") for pool in (old, new))
        if None not in (paid, pays) and paid != pays and (paid, pays) != ("ends_soon", "paid"):
            yield _PoolChange(f"{side}_reward", _REWARDS[pays].format(people), _Values(paid, pays))
        capped, cap = (getattr(pool, f"{side}_cap") for pool in (old, new))
        if None in (capped, cap):
            continue
        if capped != cap:
            raised = cap == "none" or (capped != "none" and int(cap) > int(capped))
            text = f"the {side} cap was {'raised' if raised else 'lowered'}"
            yield _PoolChange(f"{side}_cap", text, _Values(capped, cap))
        before, after = (getattr(pool, f"total_{done}") for pool in (old, new))
        if _filled(after, cap) and not _filled(before, capped):
            yield _PoolChange(f"{side}_cap_filled", f"the {side} cap is filled", _Values(before, after))


def _filled(total: str, cap: str) -> bool:
    return cap not in ("none", "0") and int(total) * 1_000 >= int(cap) * FILLED_PERMILLE


def _percent(bps: int) -> str:
    """A rate, which was rounded down to basis points: 0 stands for any below one."""
    return f"{decimal_text(bps, 2)} %" if bps else "less than 0.01 %"
