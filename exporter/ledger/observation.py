"""Observations of keys and calls in one read transaction, each with the ledgers at which it is known to hold.

If an entry was read at ledger M and last changed at ledger k, it had this value at every ledger of [k, M], because any
write in between would have moved k (docs/rpc.md, "The rule"). Two things are known only at M, because their changes are
not recorded: that a key is absent, and that an entry is archived. But if nothing ever removes an entry, its absence at
M means that it was never there before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from functools import lru_cache

from msgspec import Struct

from exporter.errors import DecodeError, SourceError
from exporter.ledger.codec.entries import ARCHIVED, ContractData, decode_contract_data, instance_of, with_held_code
from exporter.ledger.codec.scval import CONTRACT_INSTANCE, ScVal, decode_scval
from exporter.ledger.contract_storage import NOT_FROM_STORAGE
from exporter.ledger.source import ContractCall, LedgerSource, RawEntry, SimulatesTogether, SimulationAnswer

MAX_REASON_LENGTH = 200
"""The reason of a failed call is cut to this many characters. The host's own texts are far shorter."""


class Interval(Struct, frozen=True):
    """The ledgers from ``first`` to ``last``, both included. It is empty if ``first`` is above ``last``."""

    first: int
    last: int

    def __contains__(self, ledger: int) -> bool:
        return self.first <= ledger <= self.last

    @property
    def empty(self) -> bool:
        """Whether there is no ledger in it."""
        return self.first > self.last

    def intersect(self, other: Interval) -> Interval:
        """The ledgers that are in both."""
        return Interval(max(self.first, other.first), min(self.last, other.last))


ALWAYS = Interval(0, 1 << 32)
REMEMBERED = 1024
"""At most this many decoded entries are remembered. A decoded value takes ten times the memory of its bytes."""


@lru_cache(maxsize=REMEMBERED)
def _decoded(key: bytes, data: bytes) -> ContractData:
    decoded = decode_contract_data(data)
    # An entry has four bytes of its own before the parts of its key (Stellar-ledger-entries.x).
    if data[8 : len(key) + 4] != key[4:]:
        raise DecodeError("the entry is under another key than the one that was asked for")
    return decoded


class Entry(Struct):
    """A ledger entry, which is decoded when somebody asks for its content.

    If it is the instance of a contract whose code another contract holds, ``held`` is the entry that says which code.
    """

    key: bytes
    raw: RawEntry
    held: RawEntry | None = None

    @property
    def archived(self) -> bool:
        """Whether the entry was archived when it was read. Its data is still that of the ledger."""
        return self.raw.live_until == ARCHIVED

    def contract_data(self) -> ContractData:
        """The entry as contract data. Raises `DecodeError` if it is something else, or is under another key."""
        data = _decoded(self.key, self.raw.data)
        if self.held is None:
            return data
        instance = with_held_code(instance_of(data), self.held.data)
        return data._replace(value=(CONTRACT_INSTANCE, instance))

    @property
    def value(self) -> ScVal:
        """The value of a contract data entry. Raises `DecodeError`."""
        return self.contract_data().value


Entries = Mapping[bytes, Entry | None]
"""Entries by LedgerKey XDR. None means that there is no entry."""


def _version(raw: RawEntry | None) -> tuple[int, bool] | None:
    return None if raw is None else (raw.last_modified, raw.live_until == ARCHIVED)


class KeyObservation(Struct):
    """The newest observation of a key: its entry, or None if it was absent, as it was read at ``ledger``.

    ``is_never_removed`` says that nothing ever removes the entry.
    """

    entry: Entry | None
    ledger: int
    is_never_removed: bool = False

    @property
    def interval(self) -> Interval:
        """The ledgers at which the observation is known to hold."""
        if self.entry is None and self.is_never_removed:
            return Interval(0, self.ledger)
        if self.entry is None or self.entry.archived:
            return Interval(self.ledger, self.ledger)
        return Interval(self.entry.raw.last_modified, self.ledger)

    @property
    def busy(self) -> bool:
        """Whether a later read of this key will probably not cover the same ledgers."""
        return self.interval.first >= self.ledger - 2

    def update(self, key: bytes, raw: RawEntry | None, ledger: int) -> bool:
        """Take another answer into account, unless it is older. Returns whether the entry changed.

        Raises `SourceError` if the answers contradict each other, so that they cannot be of the same chain.
        """
        held = None if self.entry is None else self.entry.raw
        if held is not None and raw is not None and held.last_modified == raw.last_modified and held.data != raw.data:
            raise SourceError(
                f"two answers disagree about entry {key.hex()[:120]} as last changed at ledger {raw.last_modified}; "
                "one of the endpoints is faulty: remove it from rpc_urls"
            )
        if ledger <= self.ledger:
            return False
        if held is not None and raw is not None and raw.last_modified < held.last_modified:
            raise SourceError(
                f"an answer of ledger {ledger} has entry {key.hex()[:120]} older than an answer of ledger "
                f"{self.ledger} has it; one of the endpoints is faulty: remove it from rpc_urls"
            )
        self.ledger = ledger
        if _version(held) == _version(raw):
            return False
        self.entry = None if raw is None else Entry(key, raw)
        return True


NO_CONTRACT = "its address is that of no contract"
"""The reason of a call that was not made, because its address is not a contract's."""
EXCLUDED = "the configuration excludes it"
"""The reason of a call that was not made, because the operator told the run to leave the contract alone."""
UNCERTIFIED = "not known to hold"
"""The beginning of the reason of a call whose result is not known to hold at the run's ledger."""
_UNDECODABLE = "the result cannot be decoded"


class CallResult(Struct, frozen=True):
    """The result of a simulated call: a ``value`` or an ``error``, and the ledger at which it was simulated."""

    value: ScVal | None
    error: str | None
    ledger: int

    @property
    def refused(self) -> bool:
        """Whether the contract itself refused the call. False if only the reading failed."""
        return self.error is not None and not self.error.startswith(
            (NOT_FROM_STORAGE, UNCERTIFIED, EXCLUDED, _UNDECODABLE)
        )

    @property
    def reason(self) -> str:
        """The error as it is published, without the event log that RPCs append."""
        error = (self.error or "no result").split("Event log", 1)[0].strip()
        return error if len(error) <= MAX_REASON_LENGTH else error[: MAX_REASON_LENGTH - 1] + "…"


def result_of(answer: SimulationAnswer) -> CallResult:
    """The decoded result of a simulation. If it cannot be decoded, that is an error of the call."""
    if answer.result is None:
        return CallResult(None, answer.error or "no result", answer.ledger)
    try:
        return CallResult(decode_scval(answer.result), None, answer.ledger)
    except DecodeError as error:
        return CallResult(None, f"{_UNDECODABLE}: {error}", answer.ledger)


class CallObservation:
    """The newest simulation of a call, and its result."""

    def __init__(self, answer: SimulationAnswer) -> None:
        self.answer = answer
        self.result = result_of(answer)

    @property
    def binding(self) -> bool:
        """Whether the call must be known to give this result at the run's ledger.

        A call that failed need not, because no number follows from it.
        """
        return self.answer.error is None

    def interval(self, keys: dict[bytes, KeyObservation]) -> Interval:
        """The ledgers at which the call is known to give this result."""
        at = Interval(self.answer.ledger, self.answer.ledger)
        if not self.answer.footprint:
            return at
        wide = ALWAYS
        for key in self.answer.footprint:
            seen = keys.get(key)
            if seen is None:
                return at
            wide = wide.intersect(seen.interval)
        return wide if self.answer.ledger in wide else at

    def must_repeat(self, keys: dict[bytes, KeyObservation]) -> bool:
        """Whether the call has to be simulated again, because reading its footprint cannot widen its interval."""
        footprint = self.answer.footprint
        if any(key in keys and keys[key].interval.first > self.answer.ledger for key in footprint):
            return True
        interval = self.interval(keys)
        return interval.first == interval.last and all(key in keys for key in footprint)


class Observed:
    """Everything that was read, and which part of it the program uses.

    ``changed`` says whether something has changed since the program got it. A `branch` shares the answers, but has uses
    of its own.
    """

    def __init__(self, source: LedgerSource) -> None:
        self._source = source
        self.keys: dict[bytes, KeyObservation] = {}
        self.calls: dict[ContractCall, CallObservation] = {}
        self.used_keys: dict[bytes, None] = {}  # a set that keeps its order, so that runs are reproducible
        self.used_calls: dict[ContractCall, None] = {}
        self.changed = True
        self._users = [self]

    def branch(self) -> Observed:
        """An observer that shares the answers, for another program."""
        other = Observed(self._source)
        other.keys, other.calls, other._users = self.keys, self.calls, self._users
        self._users.append(other)
        return other

    def begin(self) -> None:
        """Forget which observations are used, before the program runs again."""
        self.used_keys, self.used_calls, self.changed = {}, {}, False

    async def fetch(self, keys: list[bytes]) -> None:
        """Read keys, also those that were read before. Raises `SourceError`."""
        if not keys:
            return
        for answer in await self._source.read_entries(keys):
            for key in answer.asked:
                raw = answer.entries.get(key)
                seen = self.keys.get(key)
                if seen is None:
                    entry = None if raw is None else Entry(key, raw)
                    self.keys[key] = KeyObservation(entry, answer.ledger)
                elif seen.update(key, raw, answer.ledger):
                    for user in self._users:
                        user.changed |= key in user.used_keys

    async def simulate(self, calls: list[ContractCall]) -> None:
        """Simulate calls, also those that were simulated before. Raises `SourceError`."""
        if isinstance(self._source, SimulatesTogether):
            answers = await self._source.simulate_together(calls)
        else:
            answers = await asyncio.gather(*map(self._source.simulate, calls))
        for call, answer in zip(calls, answers, strict=True):
            seen = self.calls.get(call)
            if seen is None:
                self.calls[call] = CallObservation(answer)
            elif answer.ledger > seen.answer.ledger:
                before = seen.answer
                self.calls[call] = CallObservation(answer)
                if (before.result, before.error) != (answer.result, answer.error):
                    for user in self._users:
                        user.changed |= call in user.used_calls

    def entries_interval(self) -> Interval:
        """The ledgers at which all used entries are known to hold."""
        common = ALWAYS
        for key in self.used_keys:
            common = common.intersect(self.keys[key].interval)
        return common

    def binding_calls(self) -> list[CallObservation]:
        """The used calls that must be known to hold at the run's ledger."""
        return [self.calls[call] for call in self.used_calls if self.calls[call].binding]

    def common(self) -> Interval:
        """The ledgers at which all used entries and binding calls are known to hold."""
        common = self.entries_interval()
        for seen in self.binding_calls():
            common = common.intersect(seen.interval(self.keys))
        return common

    def footprints(self) -> dict[bytes, None]:
        """The keys that the binding calls looked at."""
        return dict.fromkeys(key for seen in self.binding_calls() for key in seen.answer.footprint)

    def older_than(self, ledger: int, keys: Iterable[bytes]) -> set[bytes]:
        """The keys that were last read before a ledger, or never."""
        return {key for key in keys if key not in self.keys or self.keys[key].ledger < ledger}

    def newest_change(self) -> int:
        """The lowest ledger at which the run can still be: that of the newest change of anything used."""
        first = self.entries_interval().first
        return max([first, *(seen.interval(self.keys).first for seen in self.binding_calls())])

    async def certify_calls(self, ledger: int) -> None:
        """Read the footprints of calls that are not known to hold at a ledger, because that may show that they do."""
        missing: dict[bytes, None] = {}
        for seen in self.binding_calls():
            if ledger not in seen.interval(self.keys):
                old = self.older_than(max(ledger, seen.answer.ledger), seen.answer.footprint)
                missing |= {key: None for key in seen.answer.footprint if key in old}
        await self.fetch(list(missing))
