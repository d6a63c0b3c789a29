"""Making the proof file of a checkpoint from history archives.

Header C is proven by what validators signed for a later ledger T: usually C + 1, or one up to 64 later whose set of
transactions is small enough to be worth the headers between. All that is needed lies in the files of checkpoint C + 64,
so an archive's newest checkpoint cannot be proven yet.
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
VALUE_AT = 36
"""The offset of the close value in a header's bytes."""


class NotProvableError(ArchiveError):
    """A checkpoint cannot be proven from these archives, yet or at all; the message says why."""


def make_proof(archives: Archives, ledger: int, trust: Trust) -> tuple[Checkpoint, bytes]:
    """The first checkpoint at or after a ledger, and the content of its proof file, which was checked.

    Its headers begin with the ledger's, so that the proof says when it closed. Raises `NotProvableError` where the
    archives have no ledgers after it, or too few signatures, and other `ArchiveError`.
    """
    at_checkpoint = checkpoint_of(ledger)
    checkpoint = archives.first(lambda archive: archive.checkpoint(at_checkpoint))
    after = at_checkpoint + CHECKPOINT_LEDGERS
    try:
        headers = archives.first(lambda archive: archive.headers(after))
        sets = archives.first(lambda archive: _sets(archive, checkpoint.header, headers))
    except ArchiveFileMissingError:
        raise NotProvableError(
            f"checkpoint {at_checkpoint} cannot be proven yet: what validators sign of ledger {at_checkpoint + 1} "
            f"proves it, which archives have with checkpoint {after}, 64 ledgers later"
        ) from None
    if headers[0].previous_hash != checkpoint.header.hash:
        raise ArchiveError(
            f"the archives' ledgers after {at_checkpoint} do not follow its header; are they of one network?"
        )
    before = [each for each in archives.first(lambda archive: archive.headers(at_checkpoint)) if each.ledger >= ledger]
    messages = _messages(archives, after)
    refused: list[str] = []
    costs = sorted((len(content) + 600 * at, at) for at, content in sets.items())
    for _, at in costs:  # smallest transaction sets first
        signed = _envelopes(messages.get(at_checkpoint + at, ()), headers[at - 1], trust.network)
        content = _proof(checkpoint, [*before, *headers[: at - 1]], sets[at], signed, trust.network)
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
    """The newest checkpoint that can be proven, and its proof file. Raises `ArchiveError` without one."""
    newest, problems = archives.newest(), list[ArchiveError]()
    for ledger in range(newest, max(newest - MAX_NEWEST_TRIED * CHECKPOINT_LEDGERS, 0), -CHECKPOINT_LEDGERS):
        try:
            return make_proof(archives, ledger, trust)
        except (NotProvableError, ArchiveFileMissingError) as error:
            problems.append(error)
    raise problems[0]


def unlisted_validators(archives: Archives, ledger: int, trust: Trust) -> int:
    """How many validators in quorum sets of the trusted ones the list lacks; any means that it may be outdated."""
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
    """The remark on a proof for readers of its rows, where there are such validators."""
    return (
        f"the trusted organisations' own quorum sets name {pluralize(count, 'validator')} that the list of "
        f"{trusted_since}, by which the ledger was proven, does not have; there may be a newer list"
    )


def _sets(archive: HistoryArchive, previous: LedgerHeader, headers: list[LedgerHeader]) -> dict[int, bytes]:
    """The transaction sets of the ledgers after ``previous`` by their place; empty where the close value is enough."""
    stored = archive.transaction_sets(headers[-1].ledger)
    sets: dict[int, bytes] = {}
    for at, header in enumerate(headers, 1):
        content = stored.get(header.ledger, empty_set(previous.hash, previous.protocol_version))
        if header.transaction_set_hash == bytes(32):
            sets[at] = b""
        elif sha256(content) == header.transaction_set_hash:
            sets[at] = content
        else:
            raise ArchiveError(f"{archive.label}: the transactions of ledger {header.ledger} are not its own")
        previous = header
    return sets


def _messages(archives: Archives, checkpoint: int) -> dict[int, set[Externalized]]:
    """Validators' messages about a checkpoint's ledgers, from all archives: each has what its own node saw."""
    found: dict[int, set[Externalized]] = {}
    for archive in archives.each:
        with suppress(ArchiveError):
            for record in archive.scp_records(checkpoint):
                for message in record.externalized:
                    found.setdefault(message.ledger, set()).add(message)
    return found


def _envelopes(messages: Iterable[Externalized], header: LedgerHeader, network: str) -> list[bytes]:
    """One correctly signed message per validator, all for the value that the ledger closed with."""
    known: dict[bytes, bytes] = {}
    for message in messages:
        if message.node not in known and header.content.startswith(message.value, VALUE_AT):
            with suppress(RefusedError):
                check_message(message.envelope, sha256(network.encode()), message.ledger)
                known[message.node] = message.envelope
    return [known[node] for node in sorted(known)]


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
