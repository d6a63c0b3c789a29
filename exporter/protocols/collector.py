"""The common parts of all readers of protocols: collect what was read, say why something was not, show parameters."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial

from exporter.deployments import MARKET, Deployment
from exporter.errors import NEVER_CONTAINED, DecodeError, error_text, pluralize
from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import instance_key, instance_of
from exporter.ledger.codec.fields import Fields, expect, named
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import encode_scval
from exporter.ledger.observation import Entry
from exporter.ledger.oracles import read_quotes
from exporter.ledger.tokens import Token
from exporter.ledger.view import LedgerView
from exporter.protocols.base import (
    NOBODY,
    AnyPool,
    Candidate,
    Held,
    Parameter,
    Pending,
    ProtocolReading,
)
from exporter.tables import MAX_TIMESTAMP_SECONDS
from exporter.tree.documents import Absent, Unread

MAX_NAME_LENGTH = 200
"""Characters of a market's name that are kept: anybody who deploys a market can name it, and it is in every row."""

MAX_TOKEN_DECIMALS = 38
"""10^decimals has to fit into 128 bits."""

_MAX_NAMED_ADDRESSES = 10  # addresses in one notice

Pair = tuple[ScVal, ScVal]

_LARGEST = {scval.BOOL: None, scval.U32: 2**32 - 1, scval.U64: 2**64 - 1, scval.I128: 2**127 - 1}


Queued = tuple[str, int | None]
"""A queued change in words, and the unix time from which it can be put into effect."""

_MAX_VALUE = 500
"""Characters of what is queued; all that can differ in a pool's terms has fewer."""


class UnreadError(Exception):
    """A market or pool cannot be read; ``reason`` is as `exporter.protocols.base.ProtocolReading` has it."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


def required(entry: Entry | None, what: str, missing: str | None = None) -> Entry:
    """An entry that is there, archived or not. Raises `UnreadError`; ``missing`` is its detail for none."""
    if entry is None:
        raise UnreadError("absent", missing or f"{what} is missing")
    return entry


def parameters_of(fields: Fields, decimals: Mapping[str, int]) -> Iterator[Parameter]:
    """The fields of a struct that are numbers, in the order of ``decimals``, which has the scale of each.

    One that is missing or not a number is left out: they are only shown. The largest number of its kind limits nothing.
    """
    for name, scale in decimals.items():
        value = fields.get(name)
        if value is not None and value[0] in _LARGEST:
            yield Parameter(name, int(value[1]), scale, no_limit=value[1] == _LARGEST[value[0]])


def instance_keys(contracts: Iterable[str | None]) -> list[bytes]:
    """The ledger keys of the instances of what may be contracts, each once; others have none."""
    return [instance_key(each) for each in dict.fromkeys(contracts) if each is not None and each.startswith("C")]


def code_of(instance: Entry | None) -> str | None:
    """The hash of the code that a contract runs, 64 hex digits; None where its instance does not say it."""
    with suppress(DecodeError):
        code = None if instance is None else instance_of(instance.contract_data()).wasm_hash
        return None if code is None else code.hex()
    return None


def proposed(value: ScVal, role: str) -> Queued:
    """Who has to accept to have a role, at whatever time. Raises `DecodeError`."""
    who: str = expect(value, scval.ADDRESS, role)
    return f"{role}: {who}", None


def in_words(value: int, decimals: int) -> str:
    """A number in full, without zeros at its end; ``decimals`` are at most those of a 128-bit number."""
    if not decimals:
        return str(value)
    whole, part = divmod(abs(value), 10**decimals)
    return f"{'-' * (value < 0)}{whole}.{part:0{decimals}d}".rstrip("0").rstrip(".")


def differences(before: Iterable[Parameter], after: Iterable[Parameter]) -> str:
    """Parameters that will change or be added, in words."""
    known = {item.name: item for item in before}
    found = []
    for item in after:
        was = known.get(item.name)
        if was == item:
            continue
        shown = ["no limit" if each.no_limit else in_words(each.value, each.decimals) for each in (was, item) if each]
        found.append(f"{item.name} {' -> '.join(shown)}")
    return ", ".join(found) or "the same as now"


def shortened(addresses: Sequence[str]) -> str:
    """The first of these, for one notice."""
    return ", ".join(addresses[:_MAX_NAMED_ADDRESSES]) + (", ..." if len(addresses) > _MAX_NAMED_ADDRESSES else "")


def by_key(storage: Iterable[Pair]) -> list[Pair]:
    """Pairs of a map in ascending order of their keys' XDR."""
    return sorted(storage, key=lambda pair: encode_scval(pair[0]))


def config_hash_of(*maps: Iterable[Pair]) -> str:
    """16 hex digits that change if and only if a configuration does: the start of SHA-256 over these maps' XDR."""
    xdr = b"".join(encode_scval((scval.MAP, tuple(pairs))) for pairs in maps)
    return hashlib.sha256(xdr).hexdigest()[:16]


class Collector:
    """One reading of one protocol under way."""

    def __init__(self, protocol: str, candidates: Sequence[Candidate]) -> None:
        self.protocol = protocol
        self.reading = ProtocolReading(protocol)
        self._failed: set[str] = set()
        self._configured = {candidate.address for candidate in candidates if candidate.configured}

    def unread(self, market: str, pool: str | None, reason: str, detail: str) -> None:
        self.reading.unread.append(Unread(market, pool, self.protocol, reason, detail))

    @contextmanager
    def record_unread(self, market: str, pool: str | None = None) -> Iterator[None]:
        """Record a market, or one of its pools, as unread if the block fails. Raises `NEVER_CONTAINED` alone.

        Nothing of a market that fails stays in the reading, and `each_market` passes over it from then on.
        """
        try:
            yield
        except NEVER_CONTAINED:
            raise
        except Exception as error:
            unread = error if isinstance(error, UnreadError) else UnreadError("undecodable", error_text(error))
            if pool is None:
                self._remove(market)
            self.unread(market, pool, unread.reason, str(unread))

    def each_market(self, markets: Iterable[str], take: Callable[[str], None]) -> None:
        """Do something with each market that has not failed; what fails costs the market that it fails for."""
        for market in list(markets):
            if market not in self._failed:
                with self.record_unread(market):
                    take(market)

    def keys_of_each(self, markets: Iterable[str], keys_of: Callable[[str], Iterable[bytes]]) -> list[bytes]:
        """The keys of each market that has not failed; a market whose keys cannot be made is unread."""
        keys: list[bytes] = []
        self.each_market(markets, lambda market: keys.extend(list(keys_of(market))))
        return keys

    def _remove(self, market: str) -> None:
        """Take all that was read of a market out of the reading."""
        self._failed.add(market)
        reading = self.reading
        reading.markets[:] = [item for item in reading.markets if item.address != market]
        reading.pools[:] = [item for item in reading.pools if item.market.address != market]
        reading.unread[:] = [item for item in reading.unread if item.market != market]
        reading.backstops.pop(market, None)
        for by_pool in (reading.entry_keys, reading.parameters, reading.price_limits):
            for place in [place for place in by_pool if place[0] == market]:
                del by_pool[place]

    def notice(self, text: str) -> None:
        self.reading.notices.append(text)

    def market_is_there(self, market: str, instance: Entry | None) -> bool:
        """Whether a market has an instance, archived or not; if not, it is noted as absent, or unread."""
        if instance is not None:
            return True
        reason = "the ledger has no contract at this address"
        if market in self._configured:
            self.unread(market, None, "absent", f"{reason}; check [[markets]]")
        else:
            self.reading.absent.append(Absent(market, self.protocol, reason))
        return False

    def list_is_its_own(self, market: str, listed: Sequence[str], lacking: Sequence[str]) -> bool:
        """Whether a market's list of pools can be its own, of which ``lacking`` have no entry; if not, it is unread."""
        if not lacking:
            return True
        if len(lacking) == len(listed):
            detail = f"none of the {pluralize(len(listed), 'pool')} that its list names has an entry"
            self.unread(market, None, "inconsistent", detail)
            return False
        self.notice(
            f"market {market} lists {pluralize(len(lacking), 'pool')} without a fitting entry ({', '.join(lacking)}); "
            "they were not read, and other pools may be missing from the list"
        )
        return True

    def report_empty(self) -> None:
        """Say which markets have no pools: a lost list looks like one that was never begun."""
        empty = [market.address for market in self.reading.markets if not market.members]
        if empty:
            self.notice(f"{self.protocol} has {pluralize(len(empty), 'market')} without a pool: {shortened(empty)}")

    def unknown_code(self, market: str, wasm_hash: str, form: str) -> None:
        self.reading.unknown_code.add(market)
        self.notice(
            f"market {market} runs contract code {wasm_hash}, which is not known for {self.protocol}; its entries have "
            f"the form of {form} and were read as such"
        )

    def check_code(self, market: str, wasm_hash: str | None, deployments: Sequence[Deployment], form: str) -> None:
        """Note a market of other code than the lists have; where they have none of any market, none is unknown."""
        known = {item.wasm_hash for each in deployments for item in each.contracts if item.role == MARKET} - {None}
        if known and wasm_hash is not None and wasm_hash not in known:
            self.unknown_code(market, wasm_hash, form)

    def shown_name(self, market: str, name: str) -> str:
        if len(name) > MAX_NAME_LENGTH:
            self.notice(f"market {market} has a name of {len(name)} characters; {MAX_NAME_LENGTH} of them are shown")
        return name[:MAX_NAME_LENGTH]

    def compare_decimals(self, market: str, decimals: object, token: Token | None) -> None:
        if token is not None and token.decimals is not None and token.decimals != decimals:
            self.notice(
                f"market {market} computes with {decimals} decimals of token {token.address}, whose contract says "
                f"{token.decimals}; amounts have the market's decimals"
            )

    def take_admins(
        self, market: str, instance: Entry | None, roles: Mapping[str, str], offered: Mapping[str, str] | None = None
    ) -> None:
        """Note who decides over a market, and who is to: names in its instance, with what people call the role."""
        if instance is None:
            return
        storage = named(instance_of(instance.contract_data()).storage)
        for name, role in roles.items():
            kind, value = storage.get(name, (scval.ADDRESS, NOBODY))
            if kind == scval.ADDRESS:
                self.reading.held.append(Held(market, "admin", role, value))
        for name, role in (offered or {}).items():
            if name in storage:
                self.take_pending(market, None, "admin", partial(proposed, storage[name], role))

    def take_code(self, market: str, subject: str, instance: Entry | None) -> None:
        code = code_of(instance)
        if code is not None:
            self.reading.held.append(Held(market, "code", subject, code))

    def take_pending(self, market: str, pool: str | None, kind: str, decode: Callable[[], Queued]) -> None:
        """Note what an entry has queued, archived or not, since it is restored when it is used."""
        try:
            value, time = decode()
        except DecodeError as error:
            value, time = f"its entry cannot be read: {error}", None
        if time is not None and time > MAX_TIMESTAMP_SECONDS:
            value, time = f"{value}; its time is after the year 9999", None
        if len(value) > _MAX_VALUE:
            value = value[: _MAX_VALUE - 1] + "…"
        self.reading.pending.append(Pending(market, pool, kind, value, time))

    def append_pool(self, pool: AnyPool, keys: Iterable[bytes]) -> None:
        """Keep a pool that was read; ``keys`` are those of its own entries, all of which were read."""
        contracts = instance_keys([pool.market.address, pool.token_address, pool.oracle])
        self.reading.pools.append(pool)
        self.reading.entry_keys[pool.market_and_pool] = (*keys, *contracts)

    async def read_quotes(self, view: LedgerView, more: Iterable[tuple[str, str]] = ()) -> None:
        """Ask each pool's oracle for its token's price, and for ``more`` (oracle, token). Raises `SourceError`."""
        pairs = [(str(pool.oracle), pool.token_address) for pool in self.reading.pools]
        self.reading.quotes = await read_quotes(view, dict.fromkeys([*pairs, *more]))
