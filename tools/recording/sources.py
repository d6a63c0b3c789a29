"""The sources of recorded entries that no code makes: files of a ledger, and states that contracts' own code wrote."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from exporter.deployments import MARKET, Deployment, KnownContract
from exporter.errors import SnapshotFileError
from exporter.job.evidence import Evidence, EvidenceSource
from exporter.ledger.codec.entries import CONTRACT_DATA, decode_contract_data, instance_key, instance_of, seen_at
from exporter.ledger.codec.scval_encode import encode_scval
from exporter.ledger.contract_storage import StoredSource
from exporter.ledger.source import RawEntry
from exporter.ledger.view import LedgerView, read_at_one_ledger
from exporter.localnet.recording import RecordedAnswer
from exporter.protocols import PROTOCOLS, storage_answers
from exporter.protocols.base import AnyPool, Candidate, ProtocolReading
from tests.protocols.contract_states import CANDIDATES, Answered, State, states
from tools.recording.parts import SourcedPart

STATES = {"k2": "0008-09", "xoxno": "0000-07", "peridot": "0002-04"}
"""The recorded state of each protocol whose own code wrote its entries."""


def looked_at(
    entries: Mapping[bytes, RawEntry],
    ledger: int,
    close_time: int,
    candidates: Sequence[Candidate],
    deployments: Sequence[Deployment],
) -> tuple[dict[bytes, RawEntry], ProtocolReading]:
    """The entries that production's reader looks at for these markets, and what it reads."""

    def read(key: bytes) -> RawEntry | None:
        stored = entries.get(key)
        return None if stored is None else seen_at(key, stored, ledger)

    source = StoredSource(read, ledger, close_time, "source of a recording", storage_answers)
    reading = read_from(source, candidates, deployments)
    return {key: entries[key] for key in source.asked if key in entries and is_contract_data(key)}, reading


def read_from(
    source: StoredSource, candidates: Sequence[Candidate], deployments: Sequence[Deployment]
) -> ProtocolReading:
    """What production's reader reads of these markets, which are of one protocol."""
    protocol = PROTOCOLS[candidates[0].protocol]

    async def program(view: LedgerView) -> ProtocolReading:
        return await protocol.read(view, candidates, deployments)

    return asyncio.run(read_at_one_ledger(source, program)).result


def is_contract_data(key: bytes) -> bool:
    """Whether a ledger key is of contract data, and not of code."""
    return key[:4] == CONTRACT_DATA.to_bytes(4, "big")


def part_of_run(
    file: Path, protocol: str, *, roles: Mapping[str, tuple[str, str]], tokens: Mapping[str, str]
) -> SourcedPart:
    """The part of the recording that a run read from a chain, from the file of its evidence.

    Args:
        file: the evidence, a file in ``v1/evidence`` of the published tree.
        protocol: the protocol's name, which is the label of the deployment, too.
        roles: role and name of each of its contracts, by address; the markets among them are read.
        tokens: for each token of its pools, the symbol of a token of `tools.recording.tokens.TOKENS` with the same
            decimals.

    The one oracle of the recording takes the place of every oracle of its pools. Raises `SnapshotFileError` if the file
    is not evidence, and `SourceError` if a reader asks for what the run did not.
    """
    evidence = Evidence.decode(file.read_bytes(), file.name)
    source = EvidenceSource(evidence)
    markets = [address for address, (role, _) in roles.items() if role == MARKET]
    candidates = [item for item in evidence.candidates if (item.protocol, item.address in markets) == (protocol, True)]
    if {item.address for item in candidates} != set(markets):
        raise SnapshotFileError(f"evidence {file.name}: the run did not read all of {', '.join(markets)}")
    reading = read_from(source, candidates, [deployment_of(protocol, roles)])
    oracles = {pool.oracle for pool in reading.pools if pool.oracle is not None}
    stored = {key: entry for key in source.asked if (entry := evidence.entries.get(key)) is not None}
    return SourcedPart(
        label=protocol,
        protocol=protocol,
        ledger=evidence.ledger,
        close_time=evidence.close_time,
        entries={key: entry for key, entry in stored.items() if is_contract_data(key)},
        tokens=tokens,
        roles=roles,
        oracles=oracles,
        answers=[
            RecordedAnswer(
                call.contract, call.function, list(map(encode_scval, call.arguments)), answer.result, answer.error
            )
            for call, answer in evidence.calls.items()
            if call.contract in source.called and call.contract not in {*tokens, *oracles}
        ],
    )


def storage_of(entries: Mapping[bytes, RawEntry], contract: str) -> Sequence[tuple[Any, Any]]:
    """The storage of a contract's instance. The entries must have it."""
    return instance_of(decode_contract_data(entries[instance_key(contract)].data)).storage or ()


def deployment_of(protocol: str, roles: Mapping[str, tuple[str, str]]) -> Deployment:
    """A deployment with these contracts: role and name by address."""
    contracts = tuple(KnownContract(each, role, "", date(2026, 11, 24), name) for each, (role, name) in roles.items())
    return Deployment(protocol, "recorded", contracts)


def contract_state(folder: Path, protocol: str, *parts: str) -> tuple[State, dict[bytes, RawEntry], list[Answered]]:
    """A state, the entries that a reader looks at or that are of a contract it looks at, and recorded calls."""
    (state,) = (each for each in states(folder / "real", protocol) if each.name == STATES[protocol])
    candidates = list(CANDIDATES[protocol](state.answers))
    snapshot = state.snapshot
    entries, _ = looked_at(snapshot.entries, snapshot.ledger, snapshot.close_time, candidates, ())
    calls = [call for part in ("calls", *parts) for call in state.calls(part)]
    return state, entries, calls


def recorded_answers(calls: Sequence[Answered], wanted: Callable[[Answered], bool]) -> list[RecordedAnswer]:
    """The answers among these that are wanted."""
    found = {}
    for call in filter(wanted, calls):
        error = None if call.error is None else f"HostError: Error(Contract, #{call.error})"
        arguments = list(map(encode_scval, call.arguments))
        result = None if call.value is None else encode_scval(call.value)
        answer = RecordedAnswer(call.contract, call.function, arguments, result, error)
        found[answer.contract, answer.function, tuple(arguments)] = answer
    return list(found.values())


def by_decimals(pools: Iterable[AnyPool], symbols: Mapping[int, Sequence[str]]) -> dict[str, str]:
    """One of the symbols with its decimals, keyed by token."""
    left = {decimals: list(names) for decimals, names in symbols.items()}
    return {pool.token_address: left[pool.decimals].pop(0) for pool in pools}
