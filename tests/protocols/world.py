"""The recorded markets of one protocol, which do not move: a test changes parts of entries, and what calls give.

    world = World("k2")
    world.put(reserve_key(world.market, USDC), u128(0), "liquidity_index")
    row = world.row("USDC")

Tokens are known by their symbols, as pools of the recording are: ``XLM`` is ``native`` there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from exporter.deployments import Deployment, deployments_of
from exporter.deployments.listing import MarketListings
from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import (
    ContractData,
    decode_contract_data,
    encode_contract_data,
    instance_key,
    is_instance_key,
)
from exporter.ledger.codec.scval import ContractInstance, ScVal
from exporter.ledger.codec.scval_encode import encode_scval
from exporter.ledger.observation import Entry
from exporter.ledger.source import ContractCall, EntriesAnswer, RawEntry, SimulationAnswer
from exporter.ledger.view import LedgerView, Reading, read_at_one_ledger
from exporter.localnet.chain import Chain
from exporter.localnet.network import LocalNetwork, PlayedAnswers
from exporter.localnet.player import RecordedNetwork
from exporter.protocols import PROTOCOLS
from exporter.protocols.base import Candidate, Origin, ProtocolReading
from exporter.protocols.compute import Tables, compute
from exporter.protocols.containment import read_contained
from tests.localnet.recorded import LISTED
from tests.protocols.made_ledger import account as account
from tests.protocols.made_ledger import contract as contract
from tests.recorded_entries import decode_data_key, name_of

Step = str | int | ScVal
"""A name of a field or key, the place in a vector, or a whole key."""

Result = ScVal | bytes | str | None
"""The answer to a call: a value, its bytes, an error as a text, or what the entries say."""

Answer = ScVal | bytes | str | Callable[[ContractCall], Result]


@cache
def _network() -> RecordedNetwork:
    return RecordedNetwork()


@cache
def token(symbol: str) -> str:
    """The address of a recorded token."""
    for key in _network().chain.known_keys():
        if is_instance_key(key):
            entry = decode_contract_data(_network().look(key) or b"")
            for name, metadata in entry.value[1].storage or ():
                if name_of(name) == "METADATA" and (scval.STRING, symbol.encode()) in dict(metadata[1]).values():
                    return entry.contract
    raise KeyError(symbol)


class Changed(Chain):
    """A chain that does not move, and whose entries can be replaced."""

    def __init__(self, network: LocalNetwork) -> None:
        latest = network.chain.latest
        super().__init__(network.chain.state(latest), start_ledger=latest, start_time=network.chain.close_time(latest))
        self.instead: dict[bytes, RawEntry | None] = {}

    def entry(self, key: bytes, ledger: int) -> RawEntry | None:
        return self.instead[key] if key in self.instead else super().entry(key, ledger)


class Source:
    """A source over such a chain, with the answers that were set; a rule that fails is a contract that traps.

    It notes its requests, and in ``asked`` the keys that matter: those that are read, and those that calls look at.
    """

    def __init__(self, chain: Changed, answers: Mapping[tuple[str, str], Answer]) -> None:
        self.chain, self.answers = chain, answers
        self.asked: dict[bytes, None] = {}
        self.read: set[bytes] = set()
        self.waves: list[int] = []
        self.calls: list[ContractCall] = []

    async def tip(self) -> int:
        return self.chain.latest

    async def close_time(self, ledger: int) -> int:
        return self.chain.close_time(ledger)

    async def read_entries(self, keys: Sequence[bytes]) -> list[EntriesAnswer]:
        self.waves.append(len(keys))
        self.asked.update(dict.fromkeys(keys))
        self.read.update(keys)
        found = {key: entry for key in keys if (entry := self.chain.entry(key, self.chain.latest)) is not None}
        return [EntriesAnswer(self.chain.latest, tuple(keys), found, "direct")]

    async def simulate(self, call: ContractCall) -> SimulationAnswer:
        latest = self.chain.latest
        self.calls.append(call)
        given = self.answers.get((call.contract, call.function))
        if callable(given):
            given = given(call)
        if isinstance(given, str):
            return SimulationAnswer(latest, None, given, (), "set")
        if given is not None:
            result = given if isinstance(given, bytes) else encode_scval(given)
            return SimulationAnswer(latest, result, None, (), "set")
        try:
            simulation = PlayedAnswers().simulate(self.chain, latest, call)
        except Exception as error:
            return SimulationAnswer(latest, None, f"HostError: {error}", (), "direct")
        self.asked.update(dict.fromkeys(simulation.footprint))
        return SimulationAnswer(latest, simulation.result, simulation.error, tuple(simulation.footprint), "direct")


class World:
    """A protocol's recorded markets; ``market`` is the first that the lists have."""

    def __init__(self, protocol: str, network: RecordedNetwork | None = None) -> None:
        self.protocol = protocol
        self.chain = Changed(network or _network())
        self.time = self.chain.close_time(self.chain.latest)
        markets = [market for named, market in LISTED if named == protocol]
        assert markets, (
            f"the recorded network has no market of {protocol}: write tools/recording/{protocol}.py and call "
            f"python -m tools.recording {protocol} (docs/adding-a-protocol.md, 4. The recording)"
        )
        self.market = markets[0]
        self.deployments: list[Deployment] = [item for item in deployments_of("local") if item.protocol == protocol]
        self.answers: dict[tuple[str, str], Answer] = {}
        self.source = Source(self.chain, self.answers)

    def entry(self, key: bytes) -> Entry:
        """The value that a reader finds under a key, which must have one."""
        raw = self.chain.entry(key, self.chain.latest)
        assert raw is not None
        return Entry(key, raw)

    def value(self, key: bytes) -> ScVal | None:
        """The value that is stored under a key."""
        entry = self.chain.entry(key, self.chain.latest)
        return None if entry is None else decode_contract_data(entry.data).value

    def put(self, key: bytes, value: ScVal | None, *path: Step) -> None:
        """Write a value under a key, or at a path into what is stored there; None takes it away."""
        if path:
            stored = self.value(key)
            assert stored is not None
            value = _with(stored, path, value)
        if value is None:
            assert self.value(key) is not None
            self.chain.instead[key] = None
            return
        head = decode_data_key(key)
        data = encode_contract_data(ContractData(head.contract, head.key, head.durability, value))
        self.chain.instead[key] = RawEntry(data, self.chain.latest, self.chain.latest + 1)

    def archive(self, key: bytes) -> None:
        """Let an entry's life be over."""
        entry = self.chain.entry(key, self.chain.latest)
        assert entry is not None
        self.chain.instead[key] = RawEntry(entry.data, entry.last_modified, 0)

    def code(self, contract: str, wasm_hash: bytes) -> None:
        """Let a contract run other code."""
        stored = self.value(instance_key(contract))
        assert stored is not None
        self.put(instance_key(contract), (stored[0], stored[1]._replace(wasm_hash=wasm_hash)))

    def candidates(self) -> list[Candidate]:
        """The markets that the lists have."""
        return [Candidate(self.protocol, market) for each in self.deployments for market in each.markets]

    def read(self, named: Iterable[Candidate] | None = None, *, follow: bool = True) -> Reading[ProtocolReading]:
        """Read the listed markets, or those that are named; ``source`` has the requests then.

        ``follow``: read the markets that the protocol's own contracts name, too, as a run does.
        """
        candidates = self.candidates() if named is None else list(named)
        source = self.source = Source(self.chain, self.answers)
        module = PROTOCOLS[self.protocol]

        async def program(view: LedgerView) -> ProtocolReading:
            """Read the candidates, and then along with them what the protocol's own contracts name."""
            reading = await read_contained(module, view, candidates, self.deployments)
            more = [*candidates, *reading.named]
            return await read_contained(module, view, more, self.deployments) if follow and reading.named else reading

        return asyncio.run(read_at_one_ledger(source, program))

    def compute(self, named: Iterable[Candidate] | None = None) -> Tables:
        """The tables that are computed from a reading."""
        return compute(
            [self.read(named).result], PROTOCOLS, self.chain.latest, self.time, MarketListings(self.deployments)
        )

    def row(self, symbol: str) -> dict[str, Any]:
        """What is published about the market's pool of a token."""
        rows = self.compute().pools.rows(named=True)
        (found,) = (row for row in rows if (row["market"], row["symbol"]) == (self.market, symbol))
        return found

    def unread(self) -> dict[tuple[str, str | None], tuple[str, str]]:
        """Reason and detail of what is not read, by market and pool."""
        return {(item.market, item.pool): (item.reason, item.detail) for item in self.compute().unread}


Change = Callable[[World], object]
"""A change that a test makes to the markets before they are read."""


def put(key: bytes, value: ScVal | None, *path: Step) -> Change:
    """See `World.put`."""
    return lambda world: world.put(key, value, *path)


def each(*changes: Change) -> Change:
    """One change after the other."""
    return lambda world: [change(world) for change in changes]


def archive(key: bytes) -> Change:
    """See `World.archive`."""
    return lambda world: world.archive(key)


def answer(contract: str, function: str, value: Answer) -> Change:
    """Let a function give a value, or fail with a text."""
    return lambda world: world.answers.update({(contract, function): value})


def demanded(protocol: str, market: str) -> Candidate:
    """A market that the operator named."""
    return Candidate(protocol, market, Origin.CONFIGURATION)


def _with(value: ScVal, path: Sequence[Step], new: ScVal | None) -> ScVal:
    """A value with another one at a path; a name that is not there is added."""
    step, rest = path[0], path[1:]
    kind, payload = value
    if kind == scval.VEC:
        assert isinstance(step, int)
        items = list(payload)
        items[step] = _with(items[step], rest, new) if rest else new
        return kind, tuple(item for item in items if item is not None)
    instance: ContractInstance | None = payload if kind == scval.CONTRACT_INSTANCE else None
    pairs = dict((payload if instance is None else instance.storage) or ())
    name: ScVal = next(
        (key for key in pairs if step in (key, name_of(key))), step if isinstance(step, tuple) else (scval.SYMBOL, step)
    )
    inner = _with(pairs[name], rest, new) if rest else new
    if inner is None:
        del pairs[name]
    else:
        pairs[name] = inner
    kept = tuple(pairs.items())
    return kind, kept if instance is None else instance._replace(storage=kept)
