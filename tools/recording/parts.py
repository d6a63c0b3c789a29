"""A part of the recording: the entries of one deployment of a protocol, and what is written of it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from exporter.deployments.networks import derived_address
from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import decode_contract_data, encode_contract_data, is_instance_key
from exporter.ledger.codec.scval import WASM, ScVal
from exporter.ledger.codec.scval_encode import i128, symbol
from exporter.ledger.source import RawEntry
from exporter.localnet.oracle import ORACLE
from exporter.localnet.recording import RecordedAnswer, RecordedEntry, Recording, Rewriting
from tests.protocols.made_ledger import Written
from tools.recording.tokens import TOKENS, written

LEDGER, CLOSE_TIME = 65_000_000, 1_794_996_000
"""The ledger of the recording and its close time, in unix seconds."""

LIFE_LEDGERS = 2_000_000
"""Number of ledgers that each entry lives from then on."""

_OLDEST_CHANGE_LEDGERS = 500_000


def code_of(label: str) -> bytes:
    """The SHA-256 of a label, which stands for a wasm hash that nobody states in full."""
    return hashlib.sha256(f"recorded network {label}".encode()).digest()


@dataclass(frozen=True, kw_only=True)
class RecordedContract:
    """A contract of a deployment, as the list of the deployments has it. A market is listed."""

    role: str
    address: str
    name: str = ""
    wasm_hash: bytes | None = None

    def line(self) -> str:
        """The contract's line in the list."""
        fields = {"role": self.role, "address": self.address, "name": self.name}
        fields["wasm_hash"] = "" if self.wasm_hash is None else self.wasm_hash.hex()
        shown = [f'{name} = "{value}"' for name, value in fields.items() if value]
        if self.role == "market":
            shown += ["listed = true", 'listed_source = "the recording of the package, whose markets these are"']
        return f"    {{ {', '.join(shown)} }},"


@dataclass(frozen=True, kw_only=True)
class RecordedPool:
    """A pool that no contract lists."""

    market: str
    pool: str
    token: str
    decimals: int

    def line(self) -> str:
        """The pool's line in the list."""
        named = f'market = "{self.market}", pool = "{self.pool}", token = "{self.token}"'
        return f"    {{ {named}, decimals = {self.decimals} }},"


@dataclass(frozen=True, kw_only=True)
class RecordedPart:
    """One deployment of a protocol in the recording: its entries, and the recorded answers of its contracts."""

    protocol: str
    label: str
    contracts: Sequence[RecordedContract]
    entries: Sequence[RecordedEntry]
    answers: Sequence[RecordedAnswer] = ()
    pools: Sequence[RecordedPool] = ()

    def lines(self) -> Iterator[str]:
        """The deployment's lines in the list of the protocol's deployments."""
        yield from ("", "[[deployment]]", f'label = "{self.label}"', 'source = "exporter.localnet"')
        yield from ("date = 2026-11-24", "contracts = [")
        yield from (contract.line() for contract in self.contracts)
        yield "]"
        if self.pools:
            yield "pools = ["
            yield from (pool.line() for pool in self.pools)
            yield "]"


def made_part(
    protocol: str,
    entries: Iterable[Written],
    contracts: Sequence[RecordedContract],
    *,
    answers: Sequence[RecordedAnswer] = (),
    label: str = "",
    changed_ledgers_ago: int = 0,
) -> RecordedPart:
    """A part whose entries come from code.

    Args:
        protocol: the protocol's name.
        entries: the entries as they are at `LEDGER`. Addresses of their own come from
            `exporter.deployments.networks.derived_address`, tokens are those of `tools.recording.tokens.TOKENS`, and
            the oracle is `exporter.localnet.oracle.ORACLE`.
        contracts: the contracts that the list of deployments has.
        answers: what the contracts answer at `LEDGER`, for ``exporter check --on-chain``.
        label: the name of the deployment; the protocol's own unless it is given.
        changed_ledgers_ago: how long ago the entries changed.
    """
    changed = LEDGER - changed_ledgers_ago
    return RecordedPart(
        protocol=protocol,
        label=label or protocol,
        contracts=contracts,
        entries=[RecordedEntry(key, data, changed, LEDGER + LIFE_LEDGERS) for key, data in entries],
        answers=answers,
    )


@dataclass(slots=True)
class SourcedPart:
    """Entries that a source has, under its own addresses and at its own time.

    ``tokens`` gives the symbol of each of its tokens, ``roles`` what its contracts are (role and name by address),
    ``oracles`` those whose place the one oracle takes, ``codes`` wasm hashes that the source does not have.
    """

    label: str
    protocol: str
    ledger: int
    close_time: int
    entries: Mapping[bytes, RawEntry]
    tokens: Mapping[str, str]
    roles: Mapping[str, tuple[str, str]]
    oracles: set[str] = field(default_factory=set)
    codes: Mapping[str, bytes] = field(default_factory=dict)
    answers: Sequence[RecordedAnswer] = ()
    pools: Sequence[tuple[str, str, str]] = ()
    """Market, pool and token of pools that no contract lists."""

    def recorded(self) -> RecordedPart:
        """The part as the recording has it: with addresses of its own, and of the recording's ledger."""
        rewriting = Rewriting(self.address_of, CLOSE_TIME - self.close_time, self.close_time)
        return RecordedPart(
            protocol=self.protocol,
            label=self.label,
            contracts=[
                RecordedContract(role=role, address=self.address_of(old), name=name, wasm_hash=self.codes.get(old))
                for old, (role, name) in self.roles.items()
            ],
            entries=list(map(rewriting.entry, self._own_entries())),
            answers=list(map(rewriting.answer, self.answers)),
            pools=[
                RecordedPool(
                    market=self.address_of(market),
                    pool=pool.replace(token, self.address_of(token)),
                    token=self.address_of(token),
                    decimals=TOKENS[self.tokens[token]].decimals,
                )
                for market, pool, token in self.pools
            ],
        )

    def address_of(self, old: str) -> str:
        """The address that a contract of the source has in the recording. An account keeps its address."""
        if old in self.tokens:
            return TOKENS[self.tokens[old]].address
        if old in self.oracles:
            return ORACLE
        if not old.startswith("C"):
            return old
        return derived_address(f"recorded network {self.label} {old}")

    def _own_entries(self) -> Iterator[RecordedEntry]:
        """The entries without the instances of tokens and oracles. Of a token's entries only balances are kept."""
        for key, stored in self.entries.items():
            data = decode_contract_data(stored.data)
            if data.contract in self.oracles or (data.contract in self.tokens and is_instance_key(key)):
                continue
            value = data.value
            if is_instance_key(key) and data.contract in self.codes:
                coded = value[1]._replace(executable=WASM, wasm_hash=self.codes[data.contract])
                value = (scval.CONTRACT_INSTANCE, coded)
            written = encode_contract_data(data._replace(value=_with_wide_bounds(value)))
            changed = max(LEDGER - (self.ledger - stored.last_modified), LEDGER - _OLDEST_CHANGE_LEDGERS)
            yield RecordedEntry(key, written, changed, LEDGER + LIFE_LEDGERS)


def _with_wide_bounds(value: ScVal) -> ScVal:
    """XOXNO's bounds of a price, which its states have within a percent, around the prices that are ours."""
    if value[0] != scval.MAP or value[1] is None or symbol("max_sanity_price_wad") not in dict(value[1]):
        return value
    bounds = {"max_sanity_price_wad": i128(10**24), "min_sanity_price_wad": i128(10**14)}
    return (scval.MAP, tuple((key, bounds.get(str(key[1]), item)) for key, item in value[1]))


def recording_of(parts: Sequence[RecordedPart]) -> Recording:
    """The file of the recording that has these parts, which are of one protocol."""
    entries = {entry.key: entry for part in parts for entry in part.entries}
    answers = [answer for part in parts for answer in part.answers]
    return Recording(LEDGER, CLOSE_TIME, [entries[key] for key in sorted(entries)], answers)


def recording_of_tokens() -> Recording:
    """The file of the recording that has the tokens and their prices."""
    entries = [
        RecordedEntry(key, data, LEDGER - 60, LEDGER + LIFE_LEDGERS) for key, data in sorted(written(CLOSE_TIME))
    ]
    return Recording(LEDGER, CLOSE_TIME, entries, [])


def deployments_file(protocol: str, parts: Sequence[RecordedPart]) -> str:
    """What is deployed of a protocol in the recording, as `exporter.deployments` has it for every network."""
    heading = [
        f"# {protocol} in the recording of the package, written by python -m tools.recording {protocol}.",
        f'protocol = "{protocol}"',
    ]
    return "\n".join([*heading, *(line for part in parts for line in part.lines()), ""])
