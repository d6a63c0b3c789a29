"""The document of a census: the contracts of a whole ledger, by kind."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from exporter.tree.documents.kinds import Passphrase
from exporter.tree.values import ContractAddress, Count, Digest, Ledger, ProtocolName, Reason, RunId, doc

CensusKind = Annotated[
    str,
    Meta(
        pattern="^(known_code|known_storage|lending_shaped|oracle|token|other)$",
        description="The kind of a contract, by its code or by the names in its storage (docs/discovery.md).",
        examples=["known_code"],
    ),
]


class CensusCode(Struct, frozen=True, forbid_unknown_fields=True):
    """The contracts that run one code and are of one kind."""

    kind: CensusKind
    protocol: Annotated[ProtocolName | None, doc("The lending protocol's short name; null if none is known.")]
    wasm_hash: Annotated[
        Digest | None, doc("SHA-256 of the code, 64 hex digits; null if contracts run another contract's code.")
    ]
    contracts: Annotated[Count, doc("Contracts that run the code.")]


class CensusContract(Struct, frozen=True, forbid_unknown_fields=True):
    """A contract that the run did not read, and why."""

    address: Annotated[ContractAddress, doc("The contract that was not read, a strkey.")]
    kind: CensusKind
    protocol: Annotated[ProtocolName | None, doc("The lending protocol's short name; null if none is known.")]
    wasm_hash: Annotated[
        Digest | None, doc("SHA-256 of its code, 64 hex digits; null if it runs another contract's code.")
    ]
    reason: Reason
    detail: Annotated[str, doc("Why the run did not read it, in words.")]


class Census(Struct, frozen=True, forbid_unknown_fields=True):
    """The kind of every contract of a checkpoint's state, and which lending contracts a run did not read."""

    network: Passphrase
    checkpoint: Annotated[Ledger, doc("The ledger of the checkpoint.")]
    header: Annotated[Digest, doc("SHA-256 of the checkpoint's header, 64 hex digits.")]
    run_id: Annotated[RunId | None, doc("The run that was compared; null if none was.")]
    contract_count: Annotated[Count, doc("Contracts in the state.")]
    code_count: Annotated[Count, doc("Codes in the state.")]
    counts: Annotated[dict[CensusKind, Count], doc("How many contracts are of each kind.")]
    codes: Annotated[list[CensusCode], doc("Contracts of the first three kinds, by code.")]
    unread_count: Annotated[Count, doc("Contracts of the first three kinds that the run did not read.")]
    unread: Annotated[list[CensusContract], doc("The first contracts that the run did not read, by kind and address.")]
