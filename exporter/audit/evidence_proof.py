"""Compares the evidence of a run with a proof of its ledger, and a published claim of that with the result."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from exporter.audit.unproven import Unproven, UnprovenReason
from exporter.errors import ArchiveError, RefutedError
from exporter.ledger.codec import strkey
from exporter.past.archive.archive_places import Archives
from exporter.past.archive.checkpoint import HistoryArchive
from exporter.past.archive.checkpoint_proof import NotProvableError
from exporter.past.archive.stellar_proof import (
    REASONS,
    Claims,
    Proven,
    RefusedError,
    Trust,
    check_entries,
    check_proof,
    read_claims,
)
from exporter.past.proof_entry import proof_entry
from exporter.stores.store import Clock
from exporter.tree.documents import Proof
from exporter.tree.families import PROOFS

_CONTRACT_DATA_PREFIX = b"\0\0\0\6\0\0\0\1"
"""The beginning of the LedgerKey of contract data that belongs to a contract."""


class Outcome(NamedTuple):
    """What a proof says of the evidence of a run.

    Attributes:
        proven: the checkpoint, as the proof proves it.
        entries: the number of entries in the evidence.
        confirmed: the number of them that the checkpoint confirms.
        unproven: what of the evidence is not proven.
    """

    proven: Proven
    entries: int
    confirmed: int
    unproven: Unproven


def claims_of(evidence: bytes) -> Claims:
    """What evidence claims about the state of the ledger.

    Raises `RefutedError` if the evidence is malformed, and `NotProvableError` if it is too large to read.
    """
    try:
        return read_claims(evidence)
    except RefusedError as error:
        raise RefutedError(str(error)) from None
    except OSError as error:
        raise NotProvableError(str(error)) from None


def hold_against(proof: bytes, evidence: bytes, trust: Trust, archives: Archives, *, full: bool) -> Outcome:
    """Compare evidence with the checkpoint that a proof file proves.

    With ``full``, every entry is looked up in all archive buckets, and not only in the newest. Raises `RefutedError` if
    the checkpoint contradicts the evidence, or if the file proves nothing. Raises `ArchiveError` if archive buckets
    cannot be read.
    """
    claims = claims_of(evidence)
    try:
        proven = check_proof(proof, trust)
        newest = not full and claims.ledger != proven.ledger
        keys = check_entries(claims, proven, [partial(_bucket, archive) for archive in archives.each], newest)
    except RefusedError as error:
        raise RefutedError(str(error)) from None
    except OSError as error:
        raise ArchiveError(str(error)) from None
    unproven = Unproven()
    unproven.add(UnprovenReason.CALLS, claims.calls)
    for reason in REASONS:
        unproven.add(UnprovenReason(reason), map(_key_name, keys[reason]))
    if not claims.entries:
        unproven.add(UnprovenReason.NO_ENTRIES, [f"that of ledger {claims.ledger}"])
    return Outcome(proven, len(claims.entries), len(keys["confirmed"]), unproven)


def proof_of(run_id: str, evidence_key: str, content: bytes, outcome: Outcome, trust: Trust, now: Clock) -> Proof:
    """The entry of a run in the list of proofs. ``content`` has the bytes of the proof file."""
    counts = outcome.unproven.counts
    return proof_entry(
        run_id,
        evidence_key,
        content,
        outcome.proven,
        trust,
        now,
        entries=outcome.entries,
        confirmed=outcome.confirmed,
        changed_since=counts.get(UnprovenReason.CHANGED, 0),
        not_looked_up=counts.get(UnprovenReason.NOT_LOOKED_UP, 0),
        short_lived=counts.get(UnprovenReason.SHORT_LIVED, 0),
        absent=counts.get(UnprovenReason.ABSENT, 0),
        calls=counts.get(UnprovenReason.CALLS, 0),
    )


def _key_name(key: bytes) -> str:
    """A LedgerKey in base64, after the contract that the entry belongs to, if there is one."""
    encoded = base64.b64encode(key).decode()
    is_of_contract = key[:8] == _CONTRACT_DATA_PREFIX
    return f"{strkey.encode_contract(key[8:40])} {encoded}" if is_of_contract else encoded


def _bucket(archive: HistoryArchive, digest: bytes) -> Iterator[bytes]:
    """The content of an archive bucket. Raises `OSError` if this archive does not have it, so that others are asked."""
    try:
        yield from archive.bucket(digest)
    except ArchiveError as error:
        raise OSError(str(error)) from None


def check_proof_claims(claimed: Proof, own: Proof) -> Iterator[str]:
    """Compare the published entry of a proof with the entry that was made here.

    Yields a text if the published entry claims more confirmed entries than were looked up here. Raises `RefutedError`
    if it cannot be right.
    """
    where = f"{PROOFS.only_key}: run {claimed.run_id}"
    for name in (
        "entries",
        "calls",
        "checkpoint",
        *("organisations_signed", "organisations_trusted", "organisations_needed"),
    ):
        if (claim := getattr(claimed, name)) != (expected := getattr(own, name)):
            raise RefutedError(f"{where}: expected {name} {expected} but found {claim}")
    most = own.confirmed + own.not_looked_up
    confirmed = f"{where}: {claimed.confirmed} confirmed entries"
    if claimed.confirmed > most:
        raise RefutedError(f"{confirmed} are claimed of {claimed.entries}, and at most {most} can be")
    # Looking entries up in more archive buckets moves them from "not looked up" to the other counts.
    fewer_looked_up = claimed.not_looked_up - own.not_looked_up
    for name in ("changed_since", "confirmed", "short_lived", "absent"):
        fewer = getattr(own, name) - getattr(claimed, name)
        is_other_way = fewer * fewer_looked_up < 0
        is_without_cause = fewer != 0 and fewer_looked_up == 0
        if is_other_way or is_without_cause or (name == "changed_since" and fewer):
            raise RefutedError(f"{where}: expected {name} {getattr(own, name)} but found {getattr(claimed, name)}")
    if claimed.confirmed > own.confirmed:
        yield f"{confirmed}, of which {own.confirmed} were looked up here; --full looks up all"
