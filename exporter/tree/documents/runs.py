"""The manifest of a run, which lists its inputs and files, and the intent to publish it."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from exporter.tree.documents.kinds import ObservedLedger, Passphrase
from exporter.tree.values import Count, Digest, FileKindName, ObjectKey, Positive, PublicUrl, RunId, Timestamp, doc


class ManifestFile(Struct, frozen=True, forbid_unknown_fields=True):
    """One file of a run: a row of the Parquet file `files_key`, in which `kind` is page, history or document."""

    key: Annotated[ObjectKey, doc("Key of the file, relative to the root of the tree.")]
    kind: FileKindName
    bytes: Annotated[Count, doc("Size of the file in bytes.")]
    sha256: Digest


class RunSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The settings of a run on which its files depend."""

    network: Passphrase
    page_sizes: Annotated[list[Positive], doc("The sizes in which pages are rendered, in rows, ascending.")]
    default_page_size: Annotated[Positive, doc("Rows of a page without a limit.")]
    market_pools_cap: Annotated[Positive, doc("Largest number of pools in the document of a market.")]
    public_url: Annotated[
        PublicUrl | None, doc("The public URL of the tree, which web pages name; null if they name none.")
    ] = None


InputName = Literal["evidence", "risk", "watched", "history"]
"""What a file is to the run that was made from it.

It is the run's evidence, the risk that it shows, the watched values of the previous run, or a file of the history.
"""


class RunInput(Struct, frozen=True, forbid_unknown_fields=True):
    """A file that a run was made from.

    The `evidence` is everything that its numbers come from. `risk` is the document of a census. `watched` has the
    values of the previous run, with which this one was compared; a run without it was not compared. A file of the
    `history` may have been joined into another one since.
    """

    name: Annotated[InputName, doc("What the file is to the run: evidence, risk, watched or history.")]
    key: Annotated[ObjectKey, doc("Key of the file, relative to the root of the tree.")]
    sha256: Digest


class RunManifest(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a run was made from, and the list of every file that it wrote or relies on.

    The same `inputs` and `settings` give the same files. The list is the Parquet file `files_key`. Its columns are
    `key`, `kind` (page, history or document), `bytes` and `sha256` (32 bytes); rows ascend by key.
    """

    run_id: RunId
    observed_ledger: ObservedLedger
    published_at: Annotated[Timestamp, doc("When the run was published.")]
    file_count: Annotated[Count, doc("Files that are listed.")]
    bytes: Annotated[Count, doc("Size of all these files, in bytes.")]
    files_key: Annotated[ObjectKey, doc("Key of the Parquet file that lists them.")]
    files_sha256: Annotated[Digest, doc("SHA-256 of the file of `files_key`, 64 hex digits.")]
    settings: Annotated[RunSettings, doc("The settings on which the files depend.")]
    inputs: Annotated[list[RunInput], doc("The files from which the run was made, those of the history ascending.")]


class Intent(Struct, frozen=True):
    """The document that a run writes before it replaces its first document.

    As long as it names a later ledger than the status document, that run has not finished. Some documents may already
    have its ledger, so a run at an earlier ledger would move them backwards.

    Attributes:
        history_key: the run's Parquet file, which is written next. If the run dies, no manifest may ever name it.
        history_ledger: the newest ledger of the history without this run; 0 if it is empty. A history that ends earlier
            has lost files.
        replaced_ledger: the first ledger whose run this run undoes, or an unfinished run before it undid; None if no
            run is undone.
    """

    run_id: RunId
    observed_ledger: Annotated[int, Meta(ge=1)]
    started_at: str
    history_key: str | None = None
    history_ledger: Annotated[int, Meta(ge=0)] = 0
    replaced_ledger: Annotated[int, Meta(ge=1)] | None = None
