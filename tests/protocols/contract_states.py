"""States that the contracts' own code wrote, with what it answered there, read as a run reads them.

``contract-states.tar.zst`` of the real data has a pair of files a state: a ledger snapshot of the official host, and
the answers, with the results of operations that were tried there; its README says what each part is. The contracts ran
natively, so there is no code by which their calls could be determined apart: a call gets the answer that was recorded.
Addresses repeat from state to state, so each is read alone.
"""

from __future__ import annotations

import asyncio
import json
import tarfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

from exporter.deployments.listing import NOTHING_LISTED
from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import seen_at
from exporter.ledger.codec.scval import ScVal, decode_scval
from exporter.ledger.codec.scval_encode import encode_scval
from exporter.ledger.contract_storage import StorageAnswers, StoredSource
from exporter.ledger.snapshot_file import LedgerSnapshot
from exporter.ledger.source import ContractCall, RawEntry, SimulationAnswer
from exporter.ledger.view import LedgerView, read_at_one_ledger
from exporter.protocols import PROTOCOLS
from exporter.protocols.base import AnyPool, Candidate, ComputedPool, Origin, ProtocolReading
from exporter.protocols.compute import Tables, compute
from exporter.protocols.numbers import PoolFrameRow

ARCHIVE = "contract-states.tar.zst"
SUCCESS = 900001
"""The code of an operation that went through."""

_NO_SUCH_FUNCTION = "HostError: Error(WasmVm, MissingValue)"
_Json = dict[str, Any]
_CallKey = tuple[str, str, tuple[bytes, ...]]

CANDIDATES: dict[str, Callable[[_Json], Iterable[Candidate]]] = {
    "k2": lambda answers: [Candidate("k2", answers["router"], Origin.SNAPSHOT)],
    "xoxno": lambda answers: [
        Candidate("xoxno", answers["ctrl"], Origin.SNAPSHOT, f"1-{token}") for token in answers["assets"]
    ],
    "peridot": lambda answers: [Candidate("peridot", answers["comp"], Origin.SNAPSHOT)],
}
"""The markets and pools of a state, as its answers name them, keyed by protocol."""


@dataclass(slots=True)
class Answered:
    """A call that was recorded: its contract, function and arguments, and its value or its error's code."""

    contract: str
    function: str
    arguments: tuple[ScVal, ...]
    value: ScVal | None
    error: int | None


class State:
    """A state, and what the exporter makes of it, computed when it is first needed."""

    def __init__(self, protocol: str, name: str, snapshot: bytes, answers: bytes) -> None:
        self.protocol, self.name, self._snapshot = protocol, name, snapshot
        self.answers: _Json = json.loads(answers)

    def __repr__(self) -> str:
        return f"{self.protocol} {self.name}"

    @cached_property
    def snapshot(self) -> LedgerSnapshot:
        """The entries, in which a reader would find them at the state's ledger."""
        return LedgerSnapshot.of(self._snapshot, self.name)

    def calls(self, part: str) -> list[Answered]:
        """The calls of a part of the answers, however deep."""
        return list(_calls_in(self.answers[part]))

    def entry(self, key: bytes) -> RawEntry | None:
        """The entry of a key, as a reader at the ledger sees it."""
        stored = self.snapshot.entries.get(key)
        return None if stored is None else seen_at(key, stored, self.snapshot.ledger)

    @cached_property
    def reading(self) -> ProtocolReading:
        """What production's reader gives for the entries."""
        snapshot, recorded = self.snapshot, _Recorded(self.snapshot.ledger, self.calls("calls"))
        source = StoredSource(self.entry, snapshot.ledger, snapshot.close_time, "recorded state", lambda *_: recorded)
        candidates = list(CANDIDATES[self.protocol](self.answers))

        async def program(view: LedgerView) -> ProtocolReading:
            return await PROTOCOLS[self.protocol].read(view, candidates, [])

        return asyncio.run(read_at_one_ledger(source, program)).result

    @cached_property
    def tables(self) -> Tables:
        """The frames of the state, at its own ledger and time."""
        return compute([self.reading], PROTOCOLS, self.snapshot.ledger, self.snapshot.close_time, NOTHING_LISTED)

    @cached_property
    def pools(self) -> dict[str, AnyPool]:
        """The pools as they were read, keyed by pool id."""
        return {pool.pool: pool for pool in self.reading.pools}

    @cached_property
    def rows(self) -> dict[str, dict[str, Any]]:
        """The rows of the pools frame, keyed by pool id."""
        return {row["pool"]: row for row in self.tables.pools.iter_rows(named=True)}

    def computed(self, pool: str) -> ComputedPool:
        """A pool as it was read, with its row."""
        return ComputedPool(self.pools[pool], cast(PoolFrameRow, self.rows[pool]))


class _Recorded(StorageAnswers):
    """Answers calls with what was recorded; the contracts have no function but those."""

    def __init__(self, ledger: int, calls: Iterable[Answered]) -> None:
        self.ledger = ledger
        self.calls = {_key(each.contract, each.function, each.arguments): each for each in calls}

    def answer(self, call: ContractCall) -> SimulationAnswer:
        found = self.calls.get(_key(call.contract, call.function, call.arguments))
        if found is None:
            return SimulationAnswer(self.ledger, None, _NO_SUCH_FUNCTION, (), "recorded")
        if found.value is None:
            return SimulationAnswer(self.ledger, None, f"HostError: Error(Contract, #{found.error})", (), "recorded")
        return SimulationAnswer(self.ledger, encode_scval(found.value), None, (), "recorded")


def unpacked(archive: Path) -> Iterator[tuple[str, bytes]]:
    """The files of an archive in Zstandard, with their names."""
    with pa.input_stream(archive, compression="zstd") as stream, tarfile.open(fileobj=stream, mode="r|") as tar:
        for member in tar:
            content = tar.extractfile(member)
            if content is not None:
                yield member.name, content.read()


@cache
def states(folder: Path, protocol: str) -> list[State]:
    """A protocol's states, read once for all tests; skips where there are none."""
    archive = folder / ARCHIVE
    if not archive.is_file():
        pytest.skip(f"{folder} has no {ARCHIVE}")
    files = {Path(name).name: content for name, content in unpacked(archive) if f"{protocol}/" in name}
    names = sorted(name.removesuffix(".ans.json") for name in files if name.endswith(".ans.json"))
    return [State(protocol, name, files[f"{name}.snap.json"], files[f"{name}.ans.json"]) for name in names]


def _calls_in(part: Any) -> Iterator[Answered]:
    if isinstance(part, dict) and {"c", "f", "a"} <= part.keys():
        arguments = tuple(decode_scval(bytes.fromhex(each)) for each in part["a"])
        value = None if "e" in part else decode_scval(bytes.fromhex(part["r"]))
        yield Answered(part["c"], part["f"], arguments, value, part.get("e"))
    elif isinstance(part, dict | list):
        for each in part.values() if isinstance(part, dict) else part:
            yield from _calls_in(each)


def _key(contract: str, function: str, arguments: Iterable[ScVal]) -> _CallKey:
    """What a call is known by; the tokens of ``quotes`` are known in any order, as it answers with a map."""
    if function == "quotes":
        arguments = [(scval.VEC, tuple(sorted(keys, key=repr))) for _, keys in arguments]
    return contract, function, tuple(map(encode_scval, arguments))
