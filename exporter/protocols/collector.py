"""The parts that all readers of protocols share: they collect what was read, and record what could not be, and why."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

from exporter.deployments import MARKET, Deployment
from exporter.errors import NEVER_CONTAINED, Barrier, error_text, pluralize
from exporter.exact import short_decimal_text
from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import instance_key, instance_of
from exporter.ledger.codec.fields import Fields, expect, named
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import encode_scval
from exporter.ledger.observation import Entry
from exporter.ledger.oracles import PriceKey, read_quotes
from exporter.ledger.tokens import Token
from exporter.ledger.view import LedgerView
from exporter.protocols.base import (
    NOBODY,
    AnyPool,
    Candidate,
    Control,
    Parameter,
    Pending,
    ProtocolReading,
)
from exporter.tables import MAX_TIMESTAMP_SECONDS
from exporter.tree.documents import Absent, Unread
from exporter.tree.values import UnreadReason

MAX_NAME_LENGTH = 200
"""A market's name is cut to this many characters, because anybody can choose one, and every row repeats it."""

_MAX_NAMED_ADDRESSES = 10  # in one notice

Pair = tuple[ScVal, ScVal]

_LARGEST = {scval.BOOL: None, scval.U32: 2**32 - 1, scval.U64: 2**64 - 1, scval.I128: 2**127 - 1}


Queued = tuple[str, int | None]
"""A queued change in words, and the time (unix seconds) from which on it can be put into effect."""

_MAX_QUEUED_CHARACTERS = 500
"""A queued change is cut to this many characters. All terms of a pool together have fewer."""


class UnreadError(Exception):
    """A market or pool cannot be read, for one of the reasons of `exporter.tree.values.UnreadReason`."""

    def __init__(self, reason: UnreadReason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


def required(entry: Entry | None, what: str, missing: str | None = None) -> Entry:
    """The entry, which may be archived. Raises `UnreadError` if there is none, with the detail ``missing``."""
    if entry is None:
        raise UnreadError(UnreadReason.ABSENT, missing or f"{what} is missing")
    return entry


def parameters_of(fields: Fields, decimals: Mapping[str, int]) -> Iterator[Parameter]:
    """The parameters in the fields of a struct, in the order of ``decimals``, which has the scale of each.

    A field that is missing or is no number is left out, because parameters are only shown. A number that is the largest
    of its type means that there is no limit.
    """
    for name, scale in decimals.items():
        value = fields.get(name)
        if value is not None and value[0] in _LARGEST:
            yield Parameter(name, int(value[1]), scale, no_limit=value[1] == _LARGEST[value[0]])


def instance_keys(contracts: Iterable[str | None]) -> list[bytes]:
    """The ledger keys of the instances of the contracts among these addresses, each once."""
    return [instance_key(each) for each in dict.fromkeys(contracts) if each is not None and each.startswith("C")]


def code_of(instance: Entry | None) -> str | None:
    """The hash of the code that a contract runs, in 64 hex digits; None if its instance does not have one."""
    with Barrier():
        code = None if instance is None else instance_of(instance.contract_data()).wasm_hash
        return None if code is None else code.hex()
    return None


def proposed(value: ScVal, role: str) -> Queued:
    """The queued change that gives somebody a role as soon as they accept it. Raises `DecodeError`."""
    holder: str = expect(value, scval.ADDRESS, role)
    return f"{role}: {holder}", None


def differences(before: Iterable[Parameter], after: Iterable[Parameter]) -> str:
    """The parameters that change or are added, in words: ``max_util 0.9 -> 0.95, supply_cap no limit``."""
    before_by_name = {item.name: item for item in before}
    changes = []
    for new in after:
        old = before_by_name.get(new.name)
        if old == new:
            continue
        values = [_parameter_in_words(each) for each in (old, new) if each is not None]
        changes.append(f"{new.name} {' -> '.join(values)}")
    return ", ".join(changes) or "the same as now"


def _parameter_in_words(parameter: Parameter) -> str:
    return "no limit" if parameter.no_limit else short_decimal_text(parameter.value, parameter.decimals)


def shortened(addresses: Sequence[str]) -> str:
    """The first few of these addresses, for a notice."""
    return ", ".join(addresses[:_MAX_NAMED_ADDRESSES]) + (", ..." if len(addresses) > _MAX_NAMED_ADDRESSES else "")


def by_key(storage: Iterable[Pair]) -> list[Pair]:
    """The pairs of a map in ascending order of their keys' XDR."""
    return sorted(storage, key=lambda pair: encode_scval(pair[0]))


def config_hash_of(*maps: Iterable[Pair]) -> str:
    """The first 16 hex digits of the SHA-256 of these maps' XDR, which change if and only if a configuration does."""
    xdr = b"".join(encode_scval((scval.MAP, tuple(pairs))) for pairs in maps)
    return hashlib.sha256(xdr).hexdigest()[:16]


class Collector:
    """One reading of one protocol while it is being read."""

    def __init__(self, protocol: str, candidates: Sequence[Candidate]) -> None:
        self.protocol = protocol
        self.reading = ProtocolReading(protocol)
        self._failed: set[str] = set()
        self._configured = {candidate.address for candidate in candidates if candidate.configured}

    def unread(self, market: str, pool: str | None, reason: UnreadReason, detail: str) -> None:
        """Record that a market, or a pool of it, could not be read."""
        self.reading.unread.append(Unread(market, pool, self.protocol, reason, detail))

    @contextmanager
    def record_unread(self, market: str, pool: str | None = None) -> Iterator[None]:
        """Record a market, or one of its pools, as unread if the block fails. Only `NEVER_CONTAINED` is raised.

        Nothing of a market that fails stays in the reading, and `each_market` leaves it out from then on.
        """
        try:
            yield
        except NEVER_CONTAINED:
            raise
        except Exception as error:
            unread = (
                error if isinstance(error, UnreadError) else UnreadError(UnreadReason.UNDECODABLE, error_text(error))
            )
            if pool is None:
                self._remove(market)
            self.unread(market, pool, unread.reason, str(unread))

    def each_market(self, markets: Iterable[str], take: Callable[[str], None]) -> None:
        """Call ``take`` for each market that has not failed yet. If it fails, the market is recorded as unread."""
        for market in list(markets):
            if market not in self._failed:
                with self.record_unread(market):
                    take(market)

    def keys_of_each(self, markets: Iterable[str], keys_of: Callable[[str], Iterable[bytes]]) -> list[bytes]:
        """The ledger keys of all markets that have not failed yet. A market for which ``keys_of`` fails is unread."""
        keys: list[bytes] = []
        self.each_market(markets, lambda market: keys.extend(list(keys_of(market))))
        return keys

    def _remove(self, market: str) -> None:
        self._failed.add(market)
        self.reading.remove_markets([market])

    def notice(self, text: str) -> None:
        """Tell the operator something."""
        self.reading.notices.append(text)

    def market_is_there(self, market: str, instance: Entry | None) -> bool:
        """Whether a market has an instance, which may be archived.

        If it has none, it is recorded as absent, or as unread if the operator named it.
        """
        if instance is not None:
            return True
        reason = "the ledger has no contract at this address"
        if market in self._configured:
            self.unread(market, None, UnreadReason.ABSENT, f"{reason}; check [[markets]]")
        else:
            self.reading.absent.append(Absent(market, self.protocol, reason))
        return False

    def list_is_its_own(self, market: str, listed: Sequence[str], lacking: Sequence[str]) -> bool:
        """Whether a market's list of pools can be its own. The pools in ``lacking`` have no entry.

        If no pool has an entry it cannot, and the market is recorded as unread.
        """
        if not lacking:
            return True
        if len(lacking) == len(listed):
            detail = f"none of the {pluralize(len(listed), 'pool')} that its list names has an entry"
            self.unread(market, None, UnreadReason.INCONSISTENT, detail)
            return False
        self.notice(
            f"market {market} lists {pluralize(len(lacking), 'pool')} without a fitting entry ({', '.join(lacking)}); "
            "they were not read, and other pools may be missing from the list"
        )
        return True

    def report_empty(self) -> None:
        """Tell the operator which markets have no pools, because a list that was lost looks the same."""
        empty = [market.address for market in self.reading.markets if not market.members]
        if empty:
            self.notice(f"{self.protocol} has {pluralize(len(empty), 'market')} without a pool: {shortened(empty)}")

    def unknown_code(self, market: str, wasm_hash: str, form: str) -> None:
        """Record that a market runs unknown code, and was read because its entries have a known form."""
        self.reading.unknown_code.add(market)
        self.notice(
            f"market {market} runs contract code {wasm_hash}, which is not known for {self.protocol}; its entries have "
            f"the form of {form} and were read in that form"
        )

    def check_code(self, market: str, wasm_hash: str | None, deployments: Sequence[Deployment], form: str) -> None:
        """Record a market that runs other code than the markets of the lists do.

        If the lists have the code of no market, no code is unknown.
        """
        listed_code = {
            contract.wasm_hash
            for deployment in deployments
            for contract in deployment.contracts
            if contract.role == MARKET and contract.wasm_hash is not None
        }
        if listed_code and wasm_hash is not None and wasm_hash not in listed_code:
            self.unknown_code(market, wasm_hash, form)

    def shown_name(self, market: str, name: str) -> str:
        """A market's name, cut to `MAX_NAME_LENGTH` characters."""
        if len(name) > MAX_NAME_LENGTH:
            self.notice(f"market {market} has a name of {len(name)} characters; {MAX_NAME_LENGTH} of them are shown")
        return name[:MAX_NAME_LENGTH]

    def compare_decimals(self, market: str, decimals: object, token: Token | None) -> None:
        """Tell the operator if a market computes with other decimals than the token's contract says."""
        if token is not None and token.decimals is not None and token.decimals != decimals:
            self.notice(
                f"market {market} computes with {decimals} decimals of token {token.address}, whose contract says "
                f"{token.decimals}; amounts have the market's decimals"
            )

    def take_admins(
        self, market: str, instance: Entry | None, roles: Mapping[str, str], offered: Mapping[str, str] | None = None
    ) -> None:
        """Record who decides over a market, and who is offered to.

        ``roles`` and ``offered`` have names in the market's instance, with what people call the role.
        """
        if instance is None:
            return
        storage = named(instance_of(instance.contract_data()).storage)
        for name, role in roles.items():
            kind, value = storage.get(name, (scval.ADDRESS, NOBODY))
            if kind == scval.ADDRESS:
                self.reading.controls.append(Control(market, "admin", role, value))
        for name, role in (offered or {}).items():
            if name in storage:
                self.take_pending(market, None, "admin", partial(proposed, storage[name], role))

    def take_code(self, market: str, subject: str, instance: Entry | None) -> None:
        """Record which code a contract of a market runs."""
        code = code_of(instance)
        if code is not None:
            self.reading.controls.append(Control(market, "code", subject, code))

    def take_pending(self, market: str, pool: str | None, kind: str, decode: Callable[[], Queued]) -> None:
        """Record a change that an entry has queued. An archived entry counts, because using it restores it."""
        with Barrier() as barrier:
            value, time = decode()
        if barrier.failure:
            value, time = f"its entry cannot be read: {barrier.failure}", None
        if time is not None and time > MAX_TIMESTAMP_SECONDS:
            value, time = f"{value}; its time is after the year 9999", None
        if len(value) > _MAX_QUEUED_CHARACTERS:
            value = value[: _MAX_QUEUED_CHARACTERS - 1] + "…"
        self.reading.pending.append(Pending(market, pool, kind, value, time))

    def append_pool(self, pool: AnyPool, keys: Iterable[bytes]) -> None:
        """Add a pool to the reading. ``keys`` are the ledger keys of its own entries, all of which were read."""
        contracts = instance_keys([pool.market.address, pool.token_address, pool.oracle])
        self.reading.pools.append(pool)
        self.reading.entry_keys[pool.key] = (*keys, *contracts)

    async def read_quotes(self, view: LedgerView, more: Iterable[PriceKey] = ()) -> None:
        """Ask each pool's oracle for its token's price, and for ``more`` prices. Raises `SourceError`."""
        of_pools = [PriceKey(str(pool.oracle), pool.token_address) for pool in self.reading.pools]
        self.reading.quotes = await read_quotes(view, dict.fromkeys([*of_pools, *more]))
