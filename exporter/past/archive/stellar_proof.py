"""Checks a proof that ledger entries are the state of a Stellar network, on nobody's word but the network's own.

    python stellar_proof.py PROOF.json --trust TRUST.json [--entries ENTRIES.jsonl.gz [--archive FOLDER_OR_URL]...]

This file stands alone: Python 3.11 or newer, its standard library, and PyNaCl for the signatures. What it follows:

1. `read_trust`: whom you trust. Organisations and their validators' keys; the choice is yours.
2. `check_messages`: enough of them signed the very same close value for ledger T, in EXTERNALIZE messages.
3. `check_link`: that value, or the set of transactions that it names, was made on the header of ledger T - 1.
4. `check_headers`: each header holds the hash of the one before: from T - 1 down to the checkpoint C, or further down.
5. `check_state`: the checkpoint's header holds the hash of the bucket list, and so of the digests of all buckets.
6. `check_entries`: buckets, from any history archive, have these digests. From the newest to the oldest, the first
   record that mentions a key is what the state has under it. Every entry claimed is compared with that.

An organisation counts if more than half of its validators signed; of n organisations n - floor((n-1)/3) must, as in
Stellar Core's automatic quorum sets. The files' formats: docs/proofs.md of the project that makes them.
Exit codes: 0 proven, apart from what it says is not; 8 something is not so; 3 no archive helped; 2 wrong usage.
"""

import argparse
import base64
import binascii
import gzip
import hashlib
import io
import json
import sys
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime
from functools import partial
from itertools import groupby
from operator import index
from pathlib import Path
from typing import NamedTuple

from nacl.exceptions import BadSignatureError
from nacl.signing import VerifyKey

FORMAT = "stellar-state-proof-1"
FIELDS = {"format", "headers", "hot", "ledger", "live", "messages", "network", "transaction_set"}
MAX_FILE_BYTES, MAX_BUCKET_BYTES, MAX_RECORD_BYTES = 1 << 30, 1 << 36, 1 << 25
LEVELS = 11  # of a bucket list, each with the digests of two buckets, "curr" and "snap", newest first
HOT_ARCHIVE_PROTOCOL = 23  # from here on a header's bucket list hash covers the list of evicted entries, too
VALUE_TAILS = {0: 0, 1: 104, 2: 172, 3: 112, 4: 180}  # bytes behind the kind of a close value
LIVE, DEAD, INIT = b"\0\0\0\0", b"\0\0\0\1", b"\0\0\0\2"  # kinds of a bucket's records
DATA, CODE, CONFIG, TTL = b"\0\0\0\6", b"\0\0\0\7", b"\0\0\0\x08", b"\0\0\0\x09"  # kinds of ledger entries
MALFORMED = (ValueError, LookupError, TypeError, AttributeError, RecursionError)


class RefusedError(Exception):
    """Something is not so; the message names the first thing that failed."""


def need(true: bool, message: str) -> None:
    """Refuse with a message unless something is true."""
    if not true:
        raise RefusedError(message)


def sha256(*parts: bytes) -> bytes:
    """The SHA-256 of the parts in a row."""
    return hashlib.sha256(b"".join(parts)).digest()


def number(data: bytes, at: int, size: int = 4) -> int:
    """The unsigned number of ``size`` bytes at a place."""
    need(at + size <= len(data), "bytes end where a number must be")
    return int.from_bytes(data[at : at + size], "big")


# 1. Whom you trust
class Trust(NamedTuple):
    """The keys of the validators of each organisation, by its name; where the list comes from, and their archives."""

    network: str
    organisations: dict[str, list[bytes]]
    source: str
    date: date
    archives: list[str]
    needed: int  # so many of the organisations must have signed


def read_trust(content: bytes) -> Trust:
    """Read a list of trusted organisations; no organisation and no key may stand in it twice."""
    try:
        document = json.loads(content)
        listed = [(item["name"], [public_key(key) for key in item["validators"]]) for item in document["organisations"]]
        archives = [url for item in document["organisations"] for url in item.get("archives", ())]
        made, needed = date.fromisoformat(document["date"]), len(listed) - (len(listed) - 1) // 3
        trust = Trust(document["network"], dict(listed), document["source"], made, archives, needed)
    except MALFORMED as error:
        raise RefusedError(f"the list of trusted organisations cannot be read: {error}") from None
    keys = [key for _, validators in listed for key in validators]
    need(bool(listed) and all(keys for _, keys in listed), "the list of trusted organisations lacks validators")
    need(len(trust.organisations) == len(listed), "the list of trusted organisations has an organisation twice")
    need(len(set(keys)) == len(keys), "the list of trusted organisations has a validator twice")
    return trust


def public_key(text: str) -> bytes:
    """The 32 bytes of a validator's key, which is written G…, with a checksum."""
    raw = base64.b32decode(text)
    if len(raw) != 35 or raw[0] != 6 << 3 or binascii.crc_hqx(raw[:-2], 0).to_bytes(2, "little") != raw[-2:]:
        raise ValueError(f"{text[:60]!r} is no validator's key")
    return raw[1:33]


# 2. What they signed
def check_messages(messages: Sequence[bytes], network: str, ledger: int, trust: Trust) -> tuple[bytes, dict[str, int]]:
    """The close value of a ledger that all messages are of, and how many validators of each organisation signed it."""
    need(network == trust.network, f"the proof is of the network {network!r}, those you trust are of {trust.network!r}")
    said = [check_message(message, sha256(network.encode()), ledger) for message in messages]
    need(len({value for _, value in said}) <= 1, f"the messages about ledger {ledger} are not all of one value")
    signers = {node for node, _ in said}
    signed = {name: sum(key in signers for key in keys) for name, keys in trust.organisations.items()}
    count = sum(2 * signed[name] > len(keys) for name, keys in trust.organisations.items())
    need(count >= trust.needed, f"{count} of {len(signed)} organisations signed ledger {ledger}, {trust.needed} must")
    return said[0][1], signed


def check_message(message: bytes, network_id: bytes, ledger: int) -> tuple[bytes, bytes]:
    """The validator that signed an EXTERNALIZE message about a ledger, and the close value in it."""
    length = number(message, 52)  # before it: node 4:36, ledger 36:44, type, counter; behind it: counter, quorum set
    node, value, end = message[4:36], message[56 : 56 + length], 56 + (length + 3 & ~3) + 36
    what, signature = f"the message of validator {node.hex()} about ledger {ledger}", message[end + 4 :]
    well_formed = message[:4] == bytes(4) and number(message, end) == len(signature) == 64
    need(well_formed and number(message, 44) == 2, f"{what} does not have the form of an EXTERNALIZE message")
    need(number(message, 36, 8) == ledger, f"{what} is about ledger {number(message, 36, 8)}")
    try:  # what is signed: the network, the kind of signed thing (1: SCP), the statement
        VerifyKey(node).verify(network_id + b"\0\0\0\1" + message[:end], signature)
    except (BadSignatureError, ValueError):
        raise RefusedError(f"{what} does not have its signature") from None
    return node, value


# 3. From the value to the header before it
def check_link(value: bytes, transactions: bytes, previous: bytes, ledger: int) -> None:
    """That the close value of a ledger was made on the header with the hash ``previous``."""
    if (kind := number(value, kind_at := kind_position(value, 0))) in {2, 4}:  # it names the header itself
        named = kind_at + (44 if kind == 4 else 36)
        need(value[named : named + 32] == previous, f"the value of ledger {ledger} was not made on the last header")
        need(not transactions, f"ledger {ledger} has no transactions, and a set of them is given")
        return
    need(sha256(transactions) == value[:32], f"the transactions of ledger {ledger} are not those that were signed")
    named = 4 if transactions[4:36] == previous else 0  # behind a version since protocol 20
    need(transactions[named : named + 32] == previous, f"the transactions of {ledger} are not made on the last header")


def kind_position(data: bytes, start: int) -> int:
    """Where the kind of a close value stands that begins at ``start``: behind hash, time and upgrades."""
    position, upgrades = start + 44, number(data, start + 40)
    for _ in range(upgrades):
        position += 4 + (number(data, position) + 3 & ~3)
    return position


# 4. From header to header, and 5. from the checkpoint's header to its buckets
def check_headers(headers: Sequence[bytes], ledger: int) -> tuple[dict[int, int], bytes, bytes]:
    """When each of these ledgers closed, linked one to the next, the header of ``ledger``, and the hash of the last."""
    closed, checkpoint, last = dict[int, int](), b"", b""
    for data in headers:
        at = number(data, bucket_list_hash_at(data) + 32)
        need(last in (b"", data[4:36]), f"the header of ledger {at} does not hold the hash of the one before")
        checkpoint, last, closed[at] = data if at == ledger else checkpoint, sha256(data), number(data, 68, 8)
    need(checkpoint != b"", "the proof does not have the header of its ledger")
    return closed, checkpoint, last


def bucket_list_hash_at(header: bytes) -> int:
    """Where the hash of the bucket list stands in a header: behind the close value and the hash of the results."""
    kind = number(header, kind_at := kind_position(header, 36))
    need(kind in VALUE_TAILS, "a header is of an unknown kind")
    return kind_at + 4 + VALUE_TAILS[kind] + 32


def check_state(header: bytes, live: Sequence[bytes], hot: Sequence[bytes]) -> None:
    """That a header commits to these buckets."""
    lists = [live, hot] if number(header, 0) >= HOT_ARCHIVE_PROTOCOL else [live]
    whole = all(len(digests) == 2 * LEVELS and set(map(len, digests)) == {32} for digests in lists)
    need(whole, f"a bucket list does not have two digests of 32 bytes for each of {LEVELS} levels")
    need(len(lists) == 2 or not hot, f"protocol {number(header, 0)} has no hot archive")
    hashes = [sha256(*(sha256(*of[at : at + 2]) for at in range(0, 2 * LEVELS, 2))) for of in lists]
    named = header[bucket_list_hash_at(header) :][:32] == (sha256(*hashes) if hot else hashes[0])
    need(named, "the buckets are not those that the checkpoint's header commits to")


class Proven(NamedTuple):
    """What a proof shows: a checkpoint and its buckets, when ledgers closed, how many validators of whom signed."""

    network: str
    ledger: int
    hash: bytes
    closed: dict[int, int]
    live: list[bytes]
    hot: list[bytes]
    signed_ledger: int
    signed: dict[str, int]


def check_proof(content: bytes, trust: Trust) -> Proven:
    """Steps 2 to 5, of the bytes of a proof file."""
    try:
        document = json.loads(content)
        one_form = json.dumps(document, separators=(",", ":"), sort_keys=True).encode() + b"\n"
        need(content == one_form, "the proof file is not written in the one form that it can have")
        need(document["format"] == FORMAT and document.keys() == FIELDS, f"the proof file is not a {FORMAT}")
        network, ledger = document["network"], index(document["ledger"])
        headers, messages = ([decode(text) for text in document[name]] for name in ("headers", "messages"))
        transactions = decode(document["transaction_set"])
        live, hot = ([bytes.fromhex(text) for text in document[name]] for name in ("live", "hot"))
        spelled = [name.hex() for name in live + hot] == document["live"] + document["hot"]
        need(spelled, "a bucket's digest is not in small hexadecimal digits")
    except MALFORMED as error:
        raise RefusedError(f"the proof file cannot be read: {type(error).__name__}: {error}") from None
    closed, checkpoint, last = check_headers(headers, ledger)
    value, signed = check_messages(messages, network, after := max(closed) + 1, trust)
    check_link(value, transactions, last, after)
    check_state(checkpoint, live, hot)
    return Proven(network, ledger, sha256(checkpoint), closed, live, hot, after, signed)


def decode(text: str) -> bytes:
    """Bytes of base64 in its one spelling."""
    data = base64.b64decode(text, validate=True)
    need(base64.b64encode(data).decode() == text, "base64 is not in its one spelling")
    return data


# 6. From the buckets to the entries

Source = Callable[[bytes], Iterator[bytes]]  # gives a bucket's records; raises OSError, EOFError or ValueError
Entry = tuple[bytes, int, int | None]  # LedgerEntryData, ledger of the last change, last of its life (0: archived)


class Claims(NamedTuple):
    """What an entries file says: of which ledger, and of each key the entry, or None; how many results of calls."""

    network: str
    ledger: int
    close_time: int
    entries: dict[bytes, Entry | None]
    calls: int


def read_claims(content: bytes) -> Claims:
    """Read an entries file, unpacked. No key may stand in it twice. Lines of other kinds say nothing of the state."""
    entries: dict[bytes, Entry | None] = {}
    try:
        (first, network, ledger, close_time, *_), *lines = map(json.loads, content.splitlines())
        need(first == "ledger", "an entries file does not begin with its ledger")
        for kind, *rest in lines:
            need(kind != "ledger", "an entries file is of two ledgers")
            if kind in ("entry", "absent"):
                key = decode(rest[0])
                need(key not in entries, f"the entries file has the key {key.hex()[:120]} twice")
                entries[key] = (decode(rest[3]), index(rest[1]), rest[2]) if kind == "entry" else None
        return Claims(network, index(ledger), close_time, entries, sum(kind == "call" for kind, *_ in lines))
    except MALFORMED as error:
        raise RefusedError(f"the entries file cannot be read: {type(error).__name__}: {error}") from None


def check_entries(claims: Claims, proven: Proven, sources: Sequence[Source], levels: int = LEVELS) -> list[list[bytes]]:
    """Compare claims with the state at the checkpoint, of which only the newest levels of buckets are read.

    Claims may be of a ledger before the checkpoint: what was last changed before it and still stands at the checkpoint
    was the same all the time between. Gives the keys confirmed, those changed since, and those that were not looked up.
    """
    at, ledger = claims.ledger, proven.ledger
    confirmed, changed_since, not_looked_up = outcome = list[list[bytes]]([[], [], []])
    need(claims.network == proven.network, f"the entries are of the network {claims.network!r}")
    need(at <= ledger and at in proven.closed, f"the entries are of ledger {at}, of which the proof says nothing")
    need(claims.close_time == proven.closed[at], f"ledger {at} closed at {proven.closed[at]}, not {claims.close_time}")
    keys = set(claims.entries) | {TTL + sha256(key) for key in claims.entries if key[:4] in (DATA, CODE)}
    live = first_mentions(keys, proven.live[: 2 * levels], sources)
    gone = {key for key in claims.entries if live.get(key) is None and levels == LEVELS}
    hot = first_mentions(gone, proven.hot, sources)
    for key, claim in claims.entries.items():
        what, record, life = f"the entry {key.hex()[:160]}", live.get(key), live.get(TTL + sha256(key))
        expires = key[:4] in (DATA, CODE)
        if levels < LEVELS and (record is None or (expires and life is None)):
            not_looked_up.append(key)
            continue
        until = None if life is None or record is None else number(life, 44)
        if until is not None and until < at:
            until = 0  # its life has ended: temporary data is gone, all else is archived
            record = None if key[:4] == DATA and key[-4:] == bytes(4) else record
        elif record is None:
            record, until = hot.get(key), 0
        if at < ledger if record is None else number(record, 4) > at:
            changed_since.append(key)
            continue
        if claim is None or record is None:
            need(claim is None, f"{what} is not in the state of ledger {ledger}")
            need(record is None, f"{what} is in the state of ledger {ledger}")
        else:
            (data, last, claimed_until), changed = claim, number(record, 4)
            need(last == changed, f"{what} was last changed at ledger {changed}, not at {last}")
            need(record[8:] == data + bytes(4), f"{what} has another value in the state of ledger {ledger}")
            unsure = at < ledger and expires and (life is None or number(life, 4) > at)  # of how long it lived then
            said = claimed_until == until or (claimed_until is None and until != 0)  # or of a life that goes on nothing
            need(unsure or said, f"{what} lives until ledger {until}, not {claimed_until}")
        confirmed.append(key)
    return outcome


def first_mentions(keys: set[bytes], digests: Sequence[bytes], sources: Sequence[Source]) -> dict[bytes, bytes | None]:
    """The newest record about each key that any bucket mentions; None where it says that there is no such entry."""
    lengths = {head: {len(key) for key in group} for head, group in groupby(sorted(keys), lambda key: key[:36])}

    def mentions(records: Iterator[bytes]) -> Iterator[tuple[bytes, bytes | None]]:
        for record in records:
            kind = record[8:12]  # behind the record's own kind, and the last change
            if record[:4] == DEAD and record[4:] in keys:
                yield record[4:], None
            elif record[:4] in (LIVE, INIT):  # the key is a part of the entry, behind extensions
                start = 12 if kind not in (DATA, CODE) else 64 if kind == CODE and record[15] else 16
                head = kind + record[start : start + (4 if kind == CONFIG else 32)]
                found = (kind + record[start : start + length - 4] for length in lengths.get(head, ()))
                yield from ((key, record) for key in found if key in keys)

    known: dict[bytes, bytes | None] = {}
    for name in digests:
        problem = "name an archive"
        if name == bytes(32) or len(known) == len(keys):  # empty, or nothing is left to look for
            continue
        for source in sources:
            try:
                known = dict(mentions(source(name))) | known  # not before all of the bucket was read and verified
                break
            except (OSError, EOFError, ValueError) as error:
                problem = str(error)
        else:
            raise OSError(f"bucket {name.hex()} cannot be had: {problem}")
    return known


def bucket_records(archive: str, name: bytes) -> Iterator[bytes]:
    """The records of a bucket in a history archive. Its name is the SHA-256 of the unpacked file."""
    text, running, total = name.hex(), hashlib.sha256(), 0
    base = archive.rstrip("/") if "://" in archive else Path(archive).absolute().as_uri()
    place = f"{base}/bucket/{text[:2]}/{text[2:4]}/{text[4:6]}/bucket-{text}.xdr.gz"
    with urllib.request.urlopen(place, timeout=60) as packed, io.BufferedReader(gzip.open(packed), 1 << 20) as file:
        while mark := file.read(4):
            length = int.from_bytes(mark, "big") - (1 << 31)
            total += 4 + length
            if not 0 <= length <= MAX_RECORD_BYTES or total > MAX_BUCKET_BYTES:
                raise ValueError(f"{place} has a damaged record")
            running.update(mark + (record := file.read(length)))
            yield record
    if running.digest() != name:
        raise ValueError(f"{place} has other content than its name says")


def read_file(path: str) -> bytes:
    """A file's content, unpacked where its name ends with .gz; what is beyond a bound is left out."""
    with gzip.open(path) if path.endswith(".gz") else Path(path).open("rb") as file:
        return bytes(file.read(MAX_FILE_BYTES))


def main(arguments: Sequence[str] | None = None) -> int:
    """Check what the command line names; say what is proven and what is not."""
    parser = argparse.ArgumentParser(description="Check a proof of the state of a Stellar network.")
    parser.add_argument("proof", help="the proof file")
    parser.add_argument("--trust", required=True, help="the list of organisations that you trust")
    parser.add_argument("--entries", help="the entries that are to be proven")
    parser.add_argument("--sha256", help="the digest that the unpacked entries file must have")
    parser.add_argument("--archive", action="append", help="where buckets come from  [default: those of --trust]")
    parser.add_argument("--levels", type=int, default=LEVELS, help="how many levels of buckets to read  [default: all]")
    options = parser.parse_args(arguments)
    try:
        trust = read_trust(read_file(options.trust))
        proven = check_proof(read_file(options.proof), trust)
        closed = datetime.fromtimestamp(proven.closed[proven.ledger], UTC)
        print(f"proven: ledger {proven.ledger} of {proven.network}, closed {closed}, hash {proven.hash.hex()}")
        print(f"  signed with ledger {proven.signed_ledger} by, of which {trust.needed} organisations must have:")
        for name, count in proven.signed.items():
            print(f"  {name}: {count} of {len(trust.organisations[name])} validators")
        print(f"  list of {trust.date}, {(date.today() - trust.date).days} days old: {trust.source}")
        if options.entries is not None:
            content = read_file(options.entries)
            need(options.sha256 in (None, sha256(content).hex()), "the entries file has another SHA-256")
            claims = read_claims(content)
            sources = [partial(bucket_records, archive) for archive in options.archive or trust.archives]
            sure, changed, left = map(len, check_entries(claims, proven, sources, options.levels))
            print(f"proven: {sure} of {len(claims.entries)} entries of ledger {claims.ledger}")
            print(f"not proven: {changed} entries changed since, {left} not looked up, {claims.calls} results of calls")
    except RefusedError as error:
        print(f"refused: {error}", file=sys.stderr)
        return 8
    except (OSError, EOFError) as error:
        print(f"nothing is said: {error}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
