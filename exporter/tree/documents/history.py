"""The manifest of the history, which lists its Parquet files, and those of rollups and liquidations."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from exporter.tree.documents.kinds import ObservedLedger
from exporter.tree.values import (
    BucketName,
    Count,
    Digest,
    FileReference,
    Ledger,
    ObjectKey,
    ProtocolName,
    Timestamp,
    Version,
    doc,
)


class HistoryFile(Struct, frozen=True, forbid_unknown_fields=True):
    """One immutable Parquet file of the history, with its size and where it is.

    `key` is relative to the root of the tree. `url` is relative to this document, so it leads to the file wherever the
    tree is served.
    """

    key: Annotated[ObjectKey, doc("Key of the Parquet file, relative to the root of the tree.")]
    url: FileReference
    rows: Annotated[Count, doc("Rows in the file.")]
    bytes: Annotated[Count, doc("Size of the file in bytes.")]
    sha256: Annotated[Digest, doc("SHA-256 of the file, 64 hex digits.")]
    first_ledger: Annotated[Ledger, doc("The ledger of its first run, which may have no rows.")]
    last_ledger: Annotated[Ledger, doc("The ledger of its last run, which may have no rows.")]


class HistoryRollup(Struct, frozen=True, forbid_unknown_fields=True):
    """A Parquet file with the last run of each closed day or hour, under a key that stays the same.

    It is replaced before this document, so a reader that finds another digest should read both again. It was made from
    files of the history that have `source_rows` rows.
    """

    key: Annotated[ObjectKey, doc("Key of the Parquet file, relative to the root of the tree.")]
    url: FileReference
    bucket: BucketName
    rows: Annotated[Count, doc("Rows in the file.")]
    bytes: Annotated[Count, doc("Size of the file in bytes.")]
    sha256: Annotated[Digest, doc("SHA-256 of the file, 64 hex digits.")]
    ends: Annotated[Timestamp, doc("The time before which all buckets of the file close.")]
    last_ledger: Annotated[
        Count, doc("The highest ledger of the files that it was made from; 0 as long as no bucket has closed.")
    ]
    source_rows: Annotated[Count, doc("Rows of the files that it was made from.")]
    columns_sha256: Annotated[
        Digest,
        doc(
            "SHA-256 of the names, types and descriptions of its columns. A version of the exporter with other columns "
            "makes the file again."
        ),
    ]


class Transitions(Struct, frozen=True, forbid_unknown_fields=True):
    """How replayed accruals of a contract code compare with the exporter's math.

    An accrual is `confirmed` if the contract wrote what the exporter computes from the entries before, in every number
    that is compared. It is `differing` if not: the contract did more in the same call, or the math is wrong. It is
    `untried` if it could not be computed, because a configuration or a balance that it needs is not known.
    """

    protocol: ProtocolName
    wasm_hash: Annotated[Digest | None, doc("SHA-256 of the contract code, 64 hex digits; null when not known.")]
    confirmed: Annotated[Count, doc("Accruals in which the contract wrote what is computed here.")]
    differing: Annotated[Count, doc("Accruals in which the contract wrote something else.")]
    untried: Annotated[Count, doc("Accruals that could not be computed.")]


class LedgerSpan(Struct, frozen=True, forbid_unknown_fields=True):
    """A range of ledgers without a gap."""

    first_ledger: Annotated[Ledger, doc("The first of the ledgers.")]
    last_ledger: Annotated[Ledger, doc("The last of the ledgers.")]


class LiquidationsFile(Struct, frozen=True, forbid_unknown_fields=True):
    """The Parquet file of auctions and bad debt in the network's own ledgers.

    It has every such event of the markets in the ledgers of `spans`, and nothing of other ledgers. It is replaced
    before this document.
    """

    key: Annotated[ObjectKey, doc("Key of the Parquet file, relative to the root of the tree.")]
    url: FileReference
    rows: Annotated[Count, doc("Rows in the file.")]
    bytes: Annotated[Count, doc("Size of the file in bytes.")]
    sha256: Annotated[Digest, doc("SHA-256 of the file, 64 hex digits.")]
    spans: Annotated[list[LedgerSpan], doc("The ledgers that were replayed, ascending.")]


class HistoryManifest(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Every Parquet file of the history. A file that is not named here is not part of it.

    `rollups` have some of the same rows again. `transitions` is there if the past was replayed from the network's own
    ledgers. It counts those of the last backfill.
    """

    format: Version
    observed_ledger: ObservedLedger
    files: Annotated[list[HistoryFile], doc("Every file of the history.")]
    rollups: Annotated[list[HistoryRollup], doc("Files with some of the same rows again.")] = []
    transitions: Annotated[list[Transitions], doc("How replayed accruals compare, by protocol and code.")] = []
    liquidations: Annotated[
        LiquidationsFile | None, doc("Auctions, bad debt and claims; null or missing where no ledgers were replayed.")
    ] = None
