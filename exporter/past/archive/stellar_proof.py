"""Checks a proof that ledger entries are the state of a Stellar network. It trusts only the network's validators.

    python stellar_proof.py PROOF.json --trust TRUST.json [--entries ENTRIES.jsonl.gz [--archive FOLDER_OR_URL]...]

This file needs Python 3.11 or newer, its standard library, and PyNaCl for the signatures. It takes these steps:

1. `read_trust` reads whom you trust: organisations and the keys of their validators. The choice is yours.
2. `check_messages` checks that enough of them signed the same close value for ledger T, in EXTERNALIZE messages.
3. `check_link` checks that this value, or the set of transactions that it names, was made on the header of T - 1.
4. `check_headers` checks that each header holds the hash of the one before it, from T - 1 down to the checkpoint C, or
   further down.
5. `check_state` checks that the checkpoint's header holds the hash of the bucket list, and so of all buckets' digests.
6. `check_entries` reads buckets that have these digests, from any history archive, the newest first. The first record
   that mentions a key is what the state has under it. Every claimed entry is compared with that record. If no record
   mentions the key, `bucket_spans` says whether an entry could have been removed without a trace.

An organisation counts if more than half of its validators signed. Of n organisations n - floor((n-1)/3) must count, as
in Stellar Core's automatic quorum sets. docs/proofs.md of the exporter describes the formats of the files.

Exit codes: 0: all of it is proven. 9: nothing contradicts it, but not all of it is proven; the rest is counted and
named. 8: something is wrong. 3: no archive has what is needed, or a file is too large. 2: wrong usage.
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
import zlib
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime
from functools import partial
from itertools import groupby, pairwise
from operator import index
from pathlib import Path
from typing import NamedTuple

from nacl.exceptions import BadSignatureError
from nacl.signing import VerifyKey

FORMAT = "stellar-state-proof-1"
FIELDS = {"format", "headers", "hot", "ledger", "live", "messages", "network", "transaction_set"}
MAX_FILE_BYTES, MAX_BUCKET_BYTES, MAX_RECORD_BYTES = 1 << 24, 1 << 36, 1 << 25
MAX_ENTRIES_BYTES, MAX_LINES, MAX_LINE_BYTES = 1 << 26, 1 << 18, 1 << 20  # limits of an unpacked entries file
MAX_NAMES = 20  # names printed for each reason why something is not proven; the rest is counted
LEVELS = 11  # a bucket list has so many levels, each with the digests of two buckets, "curr" and "snap", newest first
NEWEST_LEVELS = 3  # they hold what the last 84 ledgers changed, a few megabytes
HOT_ARCHIVE_PROTOCOL = 23  # from here on a header's bucket list hash covers the list of evicted entries, too
VALUE_TAILS = {0: 0, 1: 104, 2: 172, 3: 112, 4: 180}  # by kind of a close value: how many bytes follow the kind
LIVE, DEAD, INIT = b"\0\0\0\0", b"\0\0\0\1", b"\0\0\0\2"  # kinds of a bucket's records
SCVAL_BYTES = {0: 4, 1: 0, 2: 8, 3: 4, 4: 4, 5: 8, 6: 8, 7: 8, 8: 8, 9: 16, 10: 16, 11: 32, 12: 32, 20: 0, 21: 8}
REASONS = {  # why an entry is not confirmed
    "changed": "were changed after the ledger",
    "not_looked_up": "may be in older buckets, which were not read",
    "short_lived": "left no trace, as only an entry can that was created shortly before",
    "absent": "are absent, and could have existed for a short time",
}
DATA, CODE, CONFIG, TTL = b"\0\0\0\6", b"\0\0\0\7", b"\0\0\0\x08", b"\0\0\0\x09"  # kinds of ledger entries
MALFORMED = (ValueError, LookupError, TypeError, AttributeError, RecursionError)


class RefusedError(Exception):
    """The proof or a claim is wrong. The message names the first thing that failed."""


def need(true: bool, message: str) -> None:
    """Raise `RefusedError` with this message unless a condition is true."""
    if not true:
        raise RefusedError(message)


def sha256(*parts: bytes) -> bytes:
    """The SHA-256 of the parts, joined in this order."""
    return hashlib.sha256(b"".join(parts)).digest()


def number(data: bytes, at: int, size: int = 4) -> int:
    """The unsigned number that ``size`` bytes hold, from the offset ``at`` on."""
    need(at + size <= len(data), "bytes end where a number must be")
    return int.from_bytes(data[at : at + size], "big")


# 1. Whom you trust
class Trust(NamedTuple):
    """The list of trusted organisations: the keys of their validators, by name, its source, and their archives."""

    network: str
    organisations: dict[str, list[bytes]]
    source: str
    date: date
    archives: list[str]
    needed: int  # how many of the organisations must have signed


def read_trust(content: bytes) -> Trust:
    """Read a list of trusted organisations. No organisation, validator, or name in an object may be in it twice."""
    try:
        document = json.loads(content, object_pairs_hook=each_once)
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


def each_once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """A JSON object whose names all differ. Readers of JSON do not agree on which of two equal names counts."""
    for (name, _), (following, _) in pairwise(sorted(pairs, key=lambda pair: pair[0])):
        need(name != following, f"the list of trusted organisations has the key {name[:60]!r} twice in one object")
    return dict(pairs)


def public_key(text: str) -> bytes:
    """The 32 bytes of a validator's key, which is written G…, with a checksum."""
    raw = base64.b32decode(text)
    if len(raw) != 35 or raw[0] != 6 << 3 or binascii.crc_hqx(raw[:-2], 0).to_bytes(2, "little") != raw[-2:]:
        raise ValueError(f"{text[:60]!r} is not a validator's key")
    return raw[1:33]


# 2. What they signed
def check_messages(messages: Sequence[bytes], network: str, ledger: int, trust: Trust) -> tuple[bytes, dict[str, int]]:
    """The close value that all messages name for a ledger, and how many validators of each organisation signed it."""
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
    """Check that the close value of a ledger was made on the header with the hash ``previous``."""
    if (kind := number(value, kind_at := kind_position(value, 0))) in {2, 4}:  # it names the header itself
        named = kind_at + (44 if kind == 4 else 36)
        need(value[named : named + 32] == previous, f"the value of ledger {ledger} was not made on the last header")
        need(not transactions, f"ledger {ledger} has no transactions, and a set of them is given")
        return
    need(sha256(transactions) == value[:32], f"the transactions of ledger {ledger} are not those that were signed")
    named = 4 if transactions[4:36] == previous else 0  # behind a version since protocol 20
    need(transactions[named : named + 32] == previous, f"the transactions of {ledger} are not made on the last header")


def kind_position(data: bytes, start: int) -> int:
    """The offset of the kind of a close value that starts at ``start``. Hash, time and upgrades come before it."""
    position, upgrades = start + 44, number(data, start + 40)
    for _ in range(upgrades):
        position += 4 + (number(data, position) + 3 & ~3)
    return position


# 4. From header to header, and 5. from the checkpoint's header to its buckets
def check_headers(headers: Sequence[bytes], ledger: int) -> tuple[dict[int, int], bytes, bytes]:
    """When each of these linked ledgers closed, the header of ``ledger``, and the hash of the last header."""
    closed, checkpoint, last = dict[int, int](), b"", b""
    for data in headers:
        at = number(data, bucket_list_hash_at(data) + 32)
        need(last in (b"", data[4:36]), f"the header of ledger {at} does not hold the hash of the one before")
        checkpoint, last, closed[at] = data if at == ledger else checkpoint, sha256(data), number(data, 68, 8)
    need(checkpoint != b"", "the proof does not have the header of its ledger")
    return closed, checkpoint, last


def bucket_list_hash_at(header: bytes) -> int:
    """The offset of the bucket list's hash in a header. The close value and the hash of the results come before it."""
    kind = number(header, kind_at := kind_position(header, 36))
    need(kind in VALUE_TAILS, "a header is of an unknown kind")
    return kind_at + 4 + VALUE_TAILS[kind] + 32


def check_state(header: bytes, live: Sequence[bytes], hot: Sequence[bytes]) -> None:
    """Check that a header commits to these buckets."""
    lists = [live, hot] if number(header, 0) >= HOT_ARCHIVE_PROTOCOL else [live]
    whole = all(len(digests) == 2 * LEVELS and set(map(len, digests)) == {32} for digests in lists)
    need(whole, f"a bucket list does not have two digests of 32 bytes for each of {LEVELS} levels")
    need(len(lists) == 2 or not hot, f"protocol {number(header, 0)} has no hot archive")
    hashes = [sha256(*(sha256(*of[at : at + 2]) for at in range(0, 2 * LEVELS, 2))) for of in lists]
    named = header[bucket_list_hash_at(header) :][:32] == (sha256(*hashes) if hot else hashes[0])
    need(named, "the buckets are not those that the checkpoint's header commits to")


class Proven(NamedTuple):
    """A proven checkpoint: its buckets, when ledgers closed, and how many validators of each organisation signed."""

    network: str
    ledger: int
    hash: bytes
    closed: dict[int, int]
    live: list[bytes]
    hot: list[bytes]
    signed_ledger: int
    signed: dict[str, int]


def check_proof(content: bytes, trust: Trust) -> Proven:
    """Do steps 2 to 5 with the bytes of a proof file."""
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
    """The bytes of a base64 text, which must have its only canonical spelling."""
    data = base64.b64decode(text, validate=True)
    need(base64.b64encode(data).decode() == text, "base64 is not in its one spelling")
    return data


# 6. From the buckets to the entries

Source = Callable[[bytes], Iterator[bytes]]  # gives a bucket's records; raises OSError, EOFError or ValueError
Entry = tuple[bytes, int, int | None]  # LedgerEntryData, ledger of the last change, last of its life (0: archived)


class Claims(NamedTuple):
    """The content of an entries file: its ledger, the entry of each key, or None, and which calls have results."""

    network: str
    ledger: int
    close_time: int
    entries: dict[bytes, Entry | None]
    calls: list[str]
    sha256: bytes  # of the unpacked file


def read_claims(content: bytes) -> Claims:
    """Read an entries file, gzip or unpacked. No key may be in it twice. Lines of other kinds say nothing of the state.

    Raises OSError where it is larger than what is accepted.
    """
    entries, calls, running = dict[bytes, Entry | None](), list[str](), hashlib.sha256()
    try:
        lines = unpacked_lines(content, running.update)
        first, network, ledger, close_time, *_ = json.loads(next(lines, b"[]"))
        need(first == "ledger", "an entries file does not begin with its ledger")
        for kind, *rest in map(json.loads, lines):
            need(kind != "ledger", "an entries file is of two ledgers")
            if kind == "call":
                calls.append(f"{rest[0]!s:.60}.{rest[1]!s:.60}")
            if kind in ("entry", "absent"):
                key = decode(rest[0])
                check_key(key)
                need(key not in entries, f"the entries file has the key {key.hex()[:120]} twice")
                entries[key] = read_entry(key, rest[3], rest[1], rest[2]) if kind == "entry" else None
        return Claims(network, index(ledger), index(close_time), entries, calls, running.digest())
    except (*MALFORMED, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise RefusedError(f"the entries file cannot be read: {type(error).__name__}: {error}") from None


def unpacked_lines(content: bytes, on_line: Callable[[bytes], object]) -> Iterator[bytes]:
    """The lines of an entries file, one at a time, because a small compressed file may be huge when unpacked."""
    stream, left, count = io.BytesIO(content), MAX_ENTRIES_BYTES, 0
    file = gzip.GzipFile(fileobj=stream) if content[:2] == b"\x1f\x8b" else stream
    while line := file.readline(MAX_LINE_BYTES + 1):
        left, count = left - len(line), count + 1
        if left < 0 or count > MAX_LINES or len(line) > MAX_LINE_BYTES:
            bounds = f"{MAX_ENTRIES_BYTES:,} bytes, {MAX_LINES:,} lines, or {MAX_LINE_BYTES:,} bytes in one line"
            raise OSError(f"the entries file has more than {bounds} when it is unpacked")
        on_line(line)
        yield line


def read_entry(key: bytes, data: str, last: int, until: int | None) -> Entry:
    """The entry that a file claims. It must be the entry of its key."""
    entry = decode(data), index(last), None if until is None else index(until)
    own = entry[0][:4] == key[:4] and entry[0].startswith(key[4:], key_at(entry[0]))
    need(own, f"the entry claimed under {key.hex()[:160]} has another key in it")
    return entry


def check_key(key: bytes) -> None:
    """Check that these bytes are one complete LedgerKey of contract data, code, a setting, or a time to live."""
    end = {CODE: 36, TTL: 36, CONFIG: 8}.get(key[:4], -1)
    if key[:4] == DATA:  # contract, key, durability
        end = value_end(key, address_end(key, 4)) + 4
        need(number(key, end - 4) <= 1, f"the key {key.hex()[:160]} has an unknown durability")
    need(end == len(key), f"the key {key.hex()[:160]} is not one whole LedgerKey of a kind that is proven here")


def address_end(data: bytes, at: int) -> int:
    """The offset at which the SCAddress ends that begins at an offset."""
    sizes = {0: 36, 1: 32, 2: 40, 3: 36, 4: 32}  # account, contract, muxed account, claimable balance, pool
    need((kind := number(data, at)) in sizes, f"a key has an address of the unknown kind {kind}")
    return at + 4 + sizes[kind]


def value_end(data: bytes, at: int) -> int:
    """The offset at which the SCVal ends that begins at an offset."""
    left = 1  # values that have to follow
    while left:
        kind, at, left = number(data, at), at + 4, left - 1
        if kind in SCVAL_BYTES:
            need(kind != 0 or number(data, at) <= 1, "a key has a truth value that is neither true nor false")
            at += SCVAL_BYTES[kind]
        elif kind in (13, 14, 15):  # bytes, string, symbol
            end = at + 4 + number(data, at)
            at = end + (-end & 3)
            need(not any(data[end:at]), "a key is padded with something")
        elif kind == 18:
            at = address_end(data, at)
        else:
            need(kind in (16, 17, 19), f"a key has a value of the unknown kind {kind}")
            if kind == 19:  # a contract's instance: what it runs, then a map
                need((runs := number(data, at)) <= 1, "a key has an unknown executable")
                at += 4 if runs else 36
            need((given := number(data, at)) <= 1, "a key has an optional value that is neither there nor not")
            left += number(data, at + 4) * (1 if kind == 16 else 2) if given else 0
            at += 8 if given else 4
    return at


def key_at(data: bytes, start: int = 0) -> int:
    """The offset of the key in LedgerEntryData that begins at ``start``. Kind and extensions come before it."""
    kind, extended = data[start : start + 4], data[start + 4 : start + 8] > bytes(4)
    return start + (4 if kind not in (DATA, CODE) else 56 if kind == CODE and extended else 8)


def bucket_spans(ledger: int) -> list[tuple[int, int]]:
    """The first and the last ledger whose changes each bucket of a list holds at a ledger, newest first.

    "curr" of level 0 has one or two ledgers. Each half becomes "snap" when 2 * 4^level ledgers are in it, and is then
    merged, with a delay of one such step, into "curr" of the level below. The last level keeps all that is older.
    """
    spans, last = list[tuple[int, int]](), ledger
    for level in range(LEVELS):
        half = 2 << 2 * level
        step = half // 4
        filled = 1 + ledger % 2 if level == 0 else step * (1 + ledger // step % 4)
        for size in (filled if level < LEVELS - 1 else max(last, 0), half):
            spans.append((last - size + 1, last))
            last -= size
    return spans


class Mention(NamedTuple):
    """The newest record about a key: its bucket's place, and an entry's last change, digest, and end if it is a TTL."""

    bucket: int
    changed: int | None = None  # None: the record says that there is no such entry
    digest: bytes = b""
    until: int = 0


def check_entries(
    claims: Claims, proven: Proven, sources: Sequence[Source], newest: bool = False
) -> dict[str, list[bytes]]:
    """Compare claims with the state at the checkpoint. With ``newest`` only the newest levels of buckets are read.

    Claims may be of a ledger before the checkpoint: what was last changed before it and is unchanged at the checkpoint
    was the same all the time between. Gives the keys by what is known of them: `confirmed`; `changed` after the
    ledger, and so unknown at it; `not_looked_up` in older buckets; `short_lived`, claimed and gone without a trace,
    as only an entry created shortly before can; `absent`, where such an entry could have been.
    """
    at, ledger = claims.ledger, proven.ledger
    need(claims.network == proven.network, f"the entries are of the network {claims.network!r}")
    need(at <= ledger and at in proven.closed, f"the entries are of ledger {at}, of which the proof says nothing")
    need(claims.close_time == proven.closed[at], f"ledger {at} closed at {proven.closed[at]}, not {claims.close_time}")
    keys = set(claims.entries) | {TTL + sha256(key) for key in claims.entries if key[:4] in (DATA, CODE)}
    live = first_mentions(keys, proven.live[: 2 * NEWEST_LEVELS] if newest else proven.live, sources)
    gone = {key for key in claims.entries if not newest and live.get(key, Mention(0)).changed is None}
    state = State(at, ledger, live, first_mentions(gone, proven.hot, sources), bool(proven.hot), newest)
    found: dict[str, list[bytes]] = {"confirmed": [], **{reason: [] for reason in REASONS}}
    for key, claim in claims.entries.items():
        found[state.judge(key, claim)].append(key)
    return found


class State(NamedTuple):
    """What the buckets that were read say about ledger ``at``, which is at or before the checkpoint ``ledger``."""

    at: int
    ledger: int
    live: dict[bytes, Mention]
    hot: dict[bytes, Mention]
    has_hot: bool
    newest: bool

    def judge(self, key: bytes, claim: Entry | None) -> str:
        """The verdict on a claim. Raises `RefusedError` if the claim is false."""
        what, found = f"the entry {key.hex()[:160]}", self.live.get(key)
        need(claim is None or claim[1] <= self.at, f"{what} is claimed to have been changed after ledger {self.at}")
        if found is None or found.changed is None:
            return self.judge_gone(key, claim, what, found)
        if found.changed > self.at:
            return "changed"
        expires, life = key[:4] in (DATA, CODE), self.live.get(TTL + sha256(key))
        if self.newest and expires and life is None:
            if claim is not None:
                self.compare(what, claim, found, None, unsure=True)
            return "not_looked_up"
        until, since = (None, None) if life is None else (life.until, life.changed)
        unsure = expires and self.at < self.ledger and (since is None or since > self.at)
        if until is not None and until < self.at and not unsure:  # its life has ended:
            if is_temporary(key):  # it is gone
                need(claim is None, f"{what} is not in the state of ledger {self.ledger}")
                return "confirmed"
            until = 0  # or archived
        self.compare(what, claim, found, until, unsure)
        return "changed" if unsure else "confirmed"

    def judge_gone(self, key: bytes, claim: Entry | None, what: str, dead: Mention | None) -> str:
        """The verdict on a claim about a key for which the buckets that were read have no entry."""
        spans, at = bucket_spans(self.ledger), self.at
        evicted = self.hot.get(key)
        if any(mention is not None and spans[mention.bucket][1] > at for mention in (dead, evicted)):
            return "changed"  # taken away, evicted or restored in a bucket with ledgers behind the one claimed
        if evicted is not None and evicted.changed is not None:
            self.compare(what, claim, evicted, 0, unsure=False)
            return "confirmed"
        if self.newest:
            oldest = spans[2 * NEWEST_LEVELS - 1][0]
            elsewhere = dead is None or (self.has_hot and key[:4] in (DATA, CODE) and not is_temporary(key))
            if elsewhere and (claim is None or claim[1] < oldest or (self.has_hot and claim[2] == 0)):
                return "not_looked_up"
        # A creation and the deletion after `at` leave no trace when they are in one bucket, where they annihilate each
        # other. The oldest bucket that may have such a deletion is that of the ledger after `at`.
        since = next(first for first, _ in spans if first <= at + 1) if at < self.ledger else at + 1
        if since <= at and (claim is None or claim[1] >= since):
            return "absent" if claim is None else "short_lived"
        need(claim is None, f"{what} is not in the state of ledger {self.ledger}, and nothing says that it ever was")
        return "confirmed"

    def compare(self, what: str, claim: Entry | None, found: Mention, until: int | None, unsure: bool) -> None:
        """Refuse a claim that differs from what was found. The end of a life counts if it is known at the ledger."""
        if claim is None:
            raise RefusedError(f"{what} is in the state of ledger {self.ledger}")
        data, last, claimed = claim
        need(last == found.changed, f"{what} was last changed at ledger {found.changed}, not at {last}")
        same = sha256(data, bytes(4)) == found.digest  # no extension: nobody can sponsor such an entry
        need(same, f"{what} has another value in the state of ledger {self.ledger}")
        said = claimed == until or (claimed is None and until != 0)  # or nothing, of a life that goes on
        need(unsure or said, f"{what} lives until ledger {until}, not {claimed}")


def is_temporary(key: bytes) -> bool:
    """Whether a key is of temporary contract data, which is deleted and not archived when its life has ended."""
    return key[:4] == DATA and key[-4:] == bytes(4)


def first_mentions(keys: set[bytes], digests: Sequence[bytes], sources: Sequence[Source]) -> dict[bytes, Mention]:
    """The newest record about each key, for the keys that the buckets mention."""
    lengths = {head: {len(key) for key in group} for head, group in groupby(sorted(keys), lambda key: key[:36])}

    def mentions(place: int, records: Iterator[bytes]) -> Iterator[tuple[bytes, Mention]]:
        for record in records:
            kind = record[8:12]  # behind the record's own kind, and the last change
            if record[:4] == DEAD and record[4:] in keys:
                yield record[4:], Mention(place)
            elif record[:4] in (LIVE, INIT):
                start = key_at(record, 8)
                head = kind + record[start : start + (4 if kind == CONFIG else 32)]
                for key in (kind + record[start : start + length - 4] for length in lengths.get(head, ())):
                    if key in keys:
                        until = number(record, 44) if kind == TTL else 0
                        yield key, Mention(place, number(record, 4), sha256(record[8:]), until)

    known: dict[bytes, Mention] = {}
    for place, name in enumerate(digests):
        problem = "name an archive"
        if name == bytes(32) or len(known) == len(keys):  # empty, or nothing is left to look for
            continue
        for source in sources:
            try:
                known = dict(mentions(place, source(name))) | known  # not before the bucket was read to its end
                break
            except (OSError, EOFError, ValueError, zlib.error, RefusedError) as error:
                problem = str(error)
        else:
            raise OSError(f"bucket {name.hex()} cannot be had: {problem}")
    return known


def bucket_records(archive: str, name: bytes) -> Iterator[bytes]:
    """The records of a bucket in a history archive. The bucket's name is the SHA-256 of its unpacked file."""
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


def read_file(path: str, most: int = MAX_FILE_BYTES) -> bytes:
    """A file's content. Raises OSError if it is larger than a bound."""
    with Path(path).open("rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(f"{path} has more than the {most:,} bytes that are accepted")
    return content


def main(arguments: Sequence[str] | None = None) -> int:
    """Check the files that the command line names, and print what is proven and what is not."""
    parser = argparse.ArgumentParser(description="Check a proof of the state of a Stellar network.")
    parser.add_argument("proof", help="the proof file")
    parser.add_argument("--trust", required=True, help="the list of organisations that you trust")
    parser.add_argument("--entries", help="the entries that are to be proven")
    parser.add_argument("--sha256", help="the digest that the unpacked entries file must have")
    parser.add_argument("--archive", action="append", help="where buckets come from  [default: those of --trust]")
    parser.add_argument("--newest", action="store_true", help=f"read only the newest {NEWEST_LEVELS} bucket levels")
    options = parser.parse_args(arguments)
    unproven = False
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
            claims = read_claims(read_file(options.entries, MAX_ENTRIES_BYTES))
            need(options.sha256 in (None, claims.sha256.hex()), "the entries file has another SHA-256")
            sources = [partial(bucket_records, archive) for archive in options.archive or trust.archives]
            found = check_entries(claims, proven, sources, options.newest)
            print(f"proven: {len(found['confirmed'])} of {len(claims.entries)} entries of ledger {claims.ledger}")
            reasons = {why: [base64.b64encode(key).decode() for key in found[name]] for name, why in REASONS.items()}
            reasons["are results of calls, which nothing proves"] = list(map(ascii, claims.calls))
            for why, names in reasons.items():
                if names:
                    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
                    print(f"not proven: {len(names)} {why}: {', '.join(names[:MAX_NAMES])}{more}")
            unproven = len(found["confirmed"]) < len(claims.entries) or bool(claims.calls) or not claims.entries
    except RefusedError as error:
        print(f"refused: {error}", file=sys.stderr)
        return 8
    except (OSError, EOFError) as error:
        print(f"nothing is said: {error}", file=sys.stderr)
        return 3
    return 9 if unproven else 0


if __name__ == "__main__":
    sys.exit(main())
