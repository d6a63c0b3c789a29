"""Makes the proof file of a checkpoint from history archives.

The header of checkpoint C is proven by what validators signed for a later ledger T. Usually T is C + 1. It can be up to
64 ledgers later, if its transaction set is so small that the proof is shorter in spite of the headers in between. All
that a proof needs is in the files of checkpoint C + 64. So the newest checkpoint of an archive cannot be proven yet.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from contextlib import suppress
from datetime import date

from exporter.errors import ArchiveError, ArchiveFileMissingError, pluralize
from exporter.ledger.checkpoints import CHECKPOINT_LEDGERS, checkpoint_of
from exporter.ledger.codec.ledger_header import LedgerHeader
from exporter.past.archive.archive_places import Archives
from exporter.past.archive.checkpoint import Checkpoint, Externalized, HistoryArchive, empty_set
from exporter.past.archive.stellar_proof import FORMAT, RefusedError, Trust, check_message, check_proof, sha256

MAX_NEWEST_TRIED = 8
VALUE_OFFSET = 36
"""The offset of the close value in a header's bytes."""

HEADER_BYTES = 600
"""About the size of a header in a proof file."""


class NotProvableError(ArchiveError):
    """A checkpoint cannot be proven from these archives, or not yet. The message says why."""


def make_proof(archives: Archives, ledger: int, trust: Trust) -> tuple[Checkpoint, bytes]:
    """The first checkpoint at or after a ledger, and the content of its proof file, which was checked.

    The headers in the proof begin with that of the ledger, so that the proof says when the ledger closed. Raises
    `NotProvableError` if the archives have no ledgers after the checkpoint, or too few signatures. Raises
    `ArchiveError` if they cannot be read, or contradict each other.
    """
    at_checkpoint = checkpoint_of(ledger)
    checkpoint = archives.first(lambda archive: archive.checkpoint(at_checkpoint))
    after = at_checkpoint + CHECKPOINT_LEDGERS
    try:
        headers = archives.first(lambda archive: archive.headers(after))
        sets = archives.first(lambda archive: _sets(archive, checkpoint.header, headers))
    except ArchiveFileMissingError:
        raise NotProvableError(
            f"checkpoint {at_checkpoint} cannot be proven yet: the signatures of ledger {at_checkpoint + 1} prove it, "
            f"and archives have them with checkpoint {after}, 64 ledgers later"
        ) from None
    if headers[0].previous_hash != checkpoint.header.hash:
        raise ArchiveError(
            f"the archives' ledgers after {at_checkpoint} do not follow its header; are they of one network?"
        )
    before = [each for each in archives.first(lambda archive: archive.headers(at_checkpoint)) if each.ledger >= ledger]
    messages = _messages(archives, after)
    refused: list[str] = []
    sizes = sorted((len(content) + HEADER_BYTES * distance, distance) for distance, content in sets.items())
    for _, distance in sizes:  # shortest proofs first
        signed = _envelopes(messages.get(at_checkpoint + distance, ()), headers[distance - 1], trust.network)
        content = _proof(checkpoint, [*before, *headers[: distance - 1]], sets[distance], signed, trust.network)
        try:
            check_proof(content, trust)
        except RefusedError as error:
            refused.append(str(error))
            continue
        return checkpoint, content
    raise NotProvableError(
        f"checkpoint {at_checkpoint} is not proven by these archives: {refused[0] if refused else 'nothing is signed'}"
    )


def newest_proof(archives: Archives, trust: Trust) -> tuple[Checkpoint, bytes]:
    """The newest checkpoint that can be proven, and its proof file. Raises `ArchiveError` if none can be."""
    newest, problems = archives.newest(), list[ArchiveError]()
    for ledger in range(newest, max(newest - MAX_NEWEST_TRIED * CHECKPOINT_LEDGERS, 0), -CHECKPOINT_LEDGERS):
        try:
            return make_proof(archives, ledger, trust)
        except (NotProvableError, ArchiveFileMissingError) as error:
            problems.append(error)
    raise problems[0]


def unlisted_validators(archives: Archives, ledger: int, trust: Trust) -> int:
    """The number of validators that trusted validators name in their quorum sets, but the list of trust lacks.

    If there are any, the list may be outdated.
    """
    listed = {key for keys in trust.organisations.values() for key in keys}
    named: set[bytes] = set()
    for archive in archives.each:
        with suppress(ArchiveError):
            sets: dict[bytes, set[bytes]] = {}
            for record in archive.scp_records(ledger + CHECKPOINT_LEDGERS):
                sets |= record.quorum_sets
                for message in record.externalized:
                    if message.node in listed:
                        named |= sets.get(message.quorum_set_hash, set())
    return len(named - listed)


def unlisted_notice(count: int, trusted_since: date) -> str:
    """The notice for readers of a run, if trusted validators name ``count`` validators that the list of trust lacks."""
    return (
        f"the trusted organisations' own quorum sets name {pluralize(count, 'validator')} that the list of "
        f"{trusted_since}, by which the ledger was proven, does not have; there may be a newer list"
    )


def _sets(archive: HistoryArchive, previous: LedgerHeader, headers: list[LedgerHeader]) -> dict[int, bytes]:
    """The transaction sets of the ledgers after ``previous``, by their distance from it.

    A set is empty if the ledger's close value names the previous header itself. Raises `ArchiveError` for a wrong set.
    """
    stored = archive.transaction_sets(headers[-1].ledger)
    sets: dict[int, bytes] = {}
    for distance, header in enumerate(headers, 1):
        content = stored.get(header.ledger, empty_set(previous.hash, previous.protocol_version))
        if header.transaction_set_hash == bytes(32):
            sets[distance] = b""
        elif sha256(content) == header.transaction_set_hash:
            sets[distance] = content
        else:
            raise ArchiveError(f"{archive.label}: the transactions of ledger {header.ledger} are not its own")
        previous = header
    return sets


def _messages(archives: Archives, checkpoint: int) -> dict[int, set[Externalized]]:
    """The messages of validators about a checkpoint's ledgers, by ledger.

    They come from all archives, because each archive has only what its own node saw.
    """
    messages: dict[int, set[Externalized]] = {}
    for archive in archives.each:
        with suppress(ArchiveError):
            for record in archive.scp_records(checkpoint):
                for message in record.externalized:
                    messages.setdefault(message.ledger, set()).add(message)
    return messages


def _envelopes(messages: Iterable[Externalized], header: LedgerHeader, network: str) -> list[bytes]:
    """One correctly signed message per validator, all for the value that the ledger closed with."""
    by_node: dict[bytes, bytes] = {}
    for message in messages:
        if message.node not in by_node and header.content.startswith(message.value, VALUE_OFFSET):
            with suppress(RefusedError):
                check_message(message.envelope, sha256(network.encode()), message.ledger)
                by_node[message.node] = message.envelope
    return [by_node[node] for node in sorted(by_node)]


def _proof(
    checkpoint: Checkpoint,
    headers: list[LedgerHeader],
    transactions: bytes,
    messages: list[bytes],
    network: str,
) -> bytes:
    document = {
        "format": FORMAT,
        "headers": [base64.b64encode(header.content).decode() for header in headers],
        "hot": [digest.hex() for digest in checkpoint.hot],
        "ledger": checkpoint.header.ledger,
        "live": [digest.hex() for digest in checkpoint.live],
        "messages": [base64.b64encode(message).decode() for message in messages],
        "network": network,
        "transaction_set": base64.b64encode(transactions).decode(),
    }
    return json.dumps(document, separators=(",", ":"), sort_keys=True).encode() + b"\n"
