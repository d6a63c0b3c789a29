"""A network that plays a recording: it begins as recorded, and then ledgers close and amounts move at random."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from random import Random
from typing import Final, NamedTuple

from msgspec.structs import replace

from exporter.deployments.networks import NETWORKS, derived_address
from exporter.ledger.codec import strkey
from exporter.ledger.codec.entries import is_temporary
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import address, symbol
from exporter.ledger.source import RawEntry
from exporter.localnet import oracle
from exporter.localnet.chain import DEFAULT_WINDOW, Chain, Change
from exporter.localnet.mover import Mover
from exporter.localnet.network import LocalNetwork, PlayedAnswers
from exporter.localnet.recording import RecordedAnswer, Recording, Rewriting, shipped
from exporter.protocols.movement import MovingPool

NETWORK: Final = "local"
"""The name of the network in the configuration."""

DEFAULT_START_LEDGER: Final = 65_000_000
DEFAULT_START_TIME: Final = 1_794_996_000
PROTOCOL_VERSION: Final = 28
LIFE_LEDGERS: Final = 2_000_000
"""Number of ledgers that an entry lives after its last change."""

_PRICE_LIFE_LEDGERS: Final = 17_281

MOVES_PER_LEDGER: Final = 3
POOLS_OF_A_COPY: Final = 6

Event = tuple[str, tuple[ScVal, ...], ScVal]
"""An event: the contract that publishes it, its topics, and its value."""


def copies_for(pools: int | None) -> int:
    """How many times each of Blend's markets has to exist for at least this many pools; None: those that are recorded.

    That is `RecordedNetwork`'s argument ``copies``.
    """
    return 1 if pools is None else 1 + max(-(-(pools - recorded_pools()) // POOLS_OF_A_COPY), 0)


@cache
def recorded_pools() -> int:
    """The number of recorded pools that move."""
    return len(RecordedNetwork().pools)


class RecordedNetwork(LocalNetwork):
    """A network of the recorded markets, whose ledgers close.

    Args:
        recording: the recording; None for the packaged one.
        copies: how many times each of Blend's markets exists, under other addresses that events of the factory name.
        seed: decides how the markets move.
        start_ledger: the first ledger.
        start_time: its close time in unix seconds.
        close_seconds: how long a ledger takes.
        window: how many of the latest ledgers can be asked for.
        quiet_ledgers: how many ledgers without events come before the first one.
        without: keys of entries that are left out.
        archived: keys of entries that have expired.

    Attributes:
        pools: the pools that move.
        prices: the prices of the oracle.
        copies: the factory of each copied market, by its address.
    """

    def __init__(
        self,
        recording: Recording | None = None,
        *,
        copies: int = 1,
        seed: int = 1,
        start_ledger: int = DEFAULT_START_LEDGER,
        start_time: int = DEFAULT_START_TIME,
        close_seconds: int = 5,
        window: int = DEFAULT_WINDOW,
        quiet_ledgers: int = 0,
        without: Collection[bytes] = (),
        archived: Collection[bytes] = (),
    ) -> None:
        recording = recording or shipped()
        self.close_seconds = close_seconds
        self._random = Random(f"recorded network {seed}")
        self.prices = oracle.Prices.recorded(recording, start_time, self._random)
        entries, answers = _recorded_at(recording, start_ledger, start_time)
        for key, data in self.prices.history().items():
            entries[key] = RawEntry(data, start_ledger, start_ledger + _life(key))
        entries = {key: entry for key, entry in entries.items() if key not in without}
        for key in archived:
            entries[key] = replace(entries[key], live_until=start_ledger - 1)

        originals = _factories_of_blend()
        self.copies = dict[str, str]()
        self._labels = _labels()
        copied = list[CopiedContract]()
        for number in range(1, copies):
            for market, factory in originals.items():
                copy = derived_address(f"recorded network copy {number} {market}")
                self.copies[copy] = factory
                copied.append(CopiedContract(market, copy))
                self._labels[copy] = self._labels[market]
        entries |= _copies(entries, copied)

        chain = Chain(
            entries,
            start_ledger=start_ledger - bool(self.copies),
            start_time=start_time - 5 * bool(self.copies),
            window=window,
            quiet_ledgers=quiet_ledgers,
        )
        if self.copies:
            events = [_deployed(factory, market) for market, factory in self.copies.items()]
            chain.close(close_time=start_time, events=events)
        played = PlayedAnswers(answers, start_ledger)
        super().__init__(chain, NETWORKS[NETWORK].passphrase, PROTOCOL_VERSION, played)
        self._copied = set(self.copies)
        self._mover = Mover(self._random, self.prices, self._labels, self._copied)
        fixed = {*without, *archived}
        self.pools = [pool for pool in self._mover.pools(list(entries), self.look) if not fixed & pool.keys]

    def advance(self, moved: Sequence[MovingPool] | None = None) -> int:
        time = self.chain.close_time(self.chain.latest) + self.close_seconds
        if moved is None:
            moved = self._random.sample(self.pools, min(MOVES_PER_LEDGER, len(self.pools)))
        return self.close(self._mover.moves(moved, self.look, time) | self.prices.advance(time))

    def settle(self, ledgers: int) -> None:
        """Give every pool its size and the terms that go with it, and move all of them in that many ledgers."""
        self._mover.changes_terms = True
        for _ in range(ledgers):
            self.advance(self.pools)
        self._mover.changes_terms = False

    def close(self, written: Mapping[bytes, bytes | None] | None = None, events: Iterable[Event] = ()) -> int:
        ledger = self.chain.latest + 1
        time = self.chain.close_time(self.chain.latest) + self.close_seconds
        changes = [
            Change(key, data, None if data is None else ledger + _life(key)) for key, data in (written or {}).items()
        ]
        return self.chain.close(changes, close_time=time, events=events)

    def deploy(self, name: str, *, label: str = "mainnet", through_factory: bool = True) -> str:
        """Close a ledger in which a copy of a Blend market appears, and return its address.

        Without ``through_factory``, the factory neither records it nor publishes an event.
        """
        (blend,) = (item for item in NETWORKS[NETWORK].deployments if (item.protocol, item.label) == ("blend", label))
        new, factory = derived_address(f"recorded network {name}"), blend.address("factory") or ""
        self._labels[new] = blend.label
        self._copied.add(new)
        state = {key: entry for key in self.chain.known_keys() if (entry := self.chain.stored(key)) is not None}
        copy = {key: entry.data for key, entry in _copies(state, [CopiedContract(blend.markets[0], new)]).items()}
        if not through_factory:
            copy = {key: data for key, data in copy.items() if key[8:40] != strkey.decode(factory)[1]}
        self.close(copy, [_deployed(factory, new)] if through_factory else [])
        self.pools += self._mover.pools(list(copy), self.look)
        return new

    def look(self, key: bytes) -> bytes | None:
        entry = self.chain.stored(key)
        return None if entry is None else entry.data


def _recorded_at(
    recording: Recording, ledger: int, close_time: int
) -> tuple[dict[bytes, RawEntry], list[RecordedAnswer]]:
    """The entries and answers of a recording, as if it had been made at this ledger, which closed at this time."""
    seconds, ledgers = close_time - recording.close_time, ledger - recording.ledger
    recorded, answers = recording.entries, recording.answers
    if seconds:
        rewriting = Rewriting(lambda address: address, seconds, recording.close_time)
        recorded = [*map(rewriting.entry, recorded)]
        answers = [*map(rewriting.answer, answers)]
    entries = dict[bytes, RawEntry]()
    for item in recorded:
        until = None if item.live_until is None else item.live_until + ledgers
        entries[item.key] = RawEntry(item.data, max(item.last_modified + ledgers, 1), until)
    return entries, answers


def _factories_of_blend() -> dict[str, str]:
    """The factory of each recorded market of Blend, keyed by the market; empty for a deployment without one."""
    return {
        market: item.address("factory") or ""
        for item in NETWORKS[NETWORK].deployments
        if item.protocol == "blend"
        for market in item.markets
    }


def _labels() -> dict[str, str]:
    """The label of the deployment to which each recorded contract belongs."""
    return {each.address: item.label for item in NETWORKS[NETWORK].deployments for each in item.contracts}


class CopiedContract(NamedTuple):
    """A recorded contract, and the address of its copy."""

    recorded: str
    copy: str


def _copies(entries: Mapping[bytes, RawEntry], copied: Sequence[CopiedContract]) -> dict[bytes, RawEntry]:
    """Copies of contracts' entries, and of other contracts' entries whose keys name them, under other addresses."""
    ids = {each.recorded: strkey.decode(each.recorded)[1] for each in copied}
    with_id = {old: [pair for pair in entries.items() if ids[old] in pair[0]] for old in ids}
    copies = {}
    for old, new in copied:
        old_id, new_id = ids[old], strkey.decode(new)[1]
        for key, entry in with_id[old]:
            copies[key.replace(old_id, new_id)] = replace(entry, data=entry.data.replace(old_id, new_id))
    return copies


def _deployed(factory: str, market: str) -> Event:
    return factory, (symbol("deploy"),), address(market)


def _life(key: bytes) -> int:
    return _PRICE_LIFE_LEDGERS if is_temporary(key) else LIFE_LEDGERS
