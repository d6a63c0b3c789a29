"""Strangers' copies of the recorded markets in the state of a checkpoint, and verifying a run of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from click.testing import CliRunner, Result

from exporter.cli import main
from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import (
    decode_contract_data,
    encode_contract_data,
    instance_key,
    instance_of,
    variant_key,
)
from exporter.ledger.codec.scval_encode import address, encode_address
from exporter.ledger.source import RawEntry
from exporter.past.archive_source import FromArchive
from tests.localnet.recorded import LISTED

SLENDER = dict(LISTED)["slender"]


ALULA = dict(LISTED)["alula"]


K2 = dict(LISTED)["k2"]


XOXNO = dict(LISTED)["xoxno"]


STRANGER = "CAS3J7GYLGXMF6TDJBBYYSE3HQ6BBSMLNUQ34T6TZMYMW2EVH34XOWMA"
Entries = dict[bytes, RawEntry]


def with_code(market: str, code: bytes) -> Callable[[Entries], None]:
    def change(entries: Entries) -> None:
        entry = entries[instance_key(market)]
        data = decode_contract_data(entry.data)
        instance = instance_of(data)._replace(wasm_hash=code)
        written = encode_contract_data(data._replace(value=(scval.CONTRACT_INSTANCE, instance)))
        entries[instance_key(market)] = replace_entry(entry, written)

    return change


def replace_entry(entry: RawEntry, data: bytes, last_modified: int | None = None) -> RawEntry:
    return RawEntry(data, last_modified or entry.last_modified, entry.live_until)


def record_key(entries: Entries, market: str) -> bytes:
    end = variant_key(STRANGER, "Contracts", address(market))[40:]
    return next(key for key in entries if key[40:] == end)


def copied(market: str, *, whole: bool = False) -> Callable[[Entries], None]:
    """A stranger's contract has the code and the instance of a market; the ``whole`` of its storage, if wanted."""
    own, other = (b"\0\0\0\6" + encode_address(contract) for contract in (market, STRANGER))

    def change(entries: Entries) -> None:
        for key in [key for key in entries if key.startswith(own) and (whole or key == instance_key(market))]:
            data = decode_contract_data(entries[key].data)._replace(contract=STRANGER)
            entries[other + key[len(own) :]] = replace_entry(entries[key], encode_contract_data(data))

    return change


def verify(given: FromArchive, out: Path, *more: str) -> Result:
    """The result of verifying a tree. The reasons `statements` and `changes` are allowed."""
    options = ["--archive", given.uris[0], "--allow-unproven", "statements,changes", *more]
    trust = [] if given.trust is None else ["--trust", str(given.trust)]
    return CliRunner().invoke(main, ["verify", str(out), *options, *trust])
