"""Reading: decoding against stellar-sdk, and the requests for one ledger against the least while ledgers close."""

from __future__ import annotations

import asyncio
import math
from binascii import b2a_base64
from random import Random
from statistics import median
from typing import Any

import msgspec

from exporter.ledger.codec.entries import decode_contract_data, encode_contract_data
from exporter.ledger.snapshot_file import LedgerSnapshot
from exporter.ledger.source import MAX_KEYS_PER_REQUEST
from exporter.ledger.view import LedgerView, Reading, read_at_one_ledger
from tests.chain_simulator import Chain, ChainSource
from tools.bench.table import Row, in_turn
from tools.real_data import DEFAULT_FOLDER

QUIET, BUSY = 1_000, 5
REQUESTS_PER_LEDGER = 3
_SNAPSHOT = DEFAULT_FOLDER.parent / "mainnet-55261759.json"

State = dict[bytes, bytes | None]


def run(quick: bool = False) -> list[Row]:
    """All of it; without mainnet's snapshot nothing is decoded."""
    rows = []
    if _SNAPSHOT.is_file():
        entries = LedgerSnapshot.load(_SNAPSHOT).entries
        texts = [_text(entry.data) for key, entry in entries.items() if key[:4] == b"\0\0\0\x06"]
        rows.append(_decoding(f"{len(texts)} entries of mainnet's Blend pool", texts, quick))
    readings = [read(seed) for seed in range(2 if quick else 100)]
    least = math.ceil((QUIET + BUSY) / MAX_KEYS_PER_REQUEST)
    title = (
        f"{QUIET:,} quiet entries, {BUSY} that change at every ledger; one closes every {REQUESTS_PER_LEDGER} requests"
    )
    most = max(rounds for rounds, _ in readings)
    asked = [requests / least for _, requests in readings]
    return [*rows, Row(title, f"at most {most} rounds", f"the least requests, {least}", asked, "times as many")]


def _text(data: bytes) -> str:
    return b2a_base64(data, newline=False).decode("ascii")


def _decoding(title: str, texts: list[str], quick: bool) -> Row:
    from stellar_sdk import scval as sdk_scval
    from stellar_sdk import xdr

    def ours() -> None:
        for text in texts:
            decode_contract_data(msgspec.convert(text, bytes))

    def theirs() -> None:
        for text in texts:
            entry = xdr.LedgerEntryData.from_xdr(text)
            assert entry.contract_data is not None
            sdk_scval.to_native(entry.contract_data.val)

    for text in set(texts):  # what is timed finds the same
        again = encode_contract_data(decode_contract_data(msgspec.convert(text, bytes)))
        assert xdr.LedgerEntryData.from_xdr(text).to_xdr_bytes() == again
    our_times, their_times, ratios = in_turn(ours, theirs, 1 if quick else 15)
    each, other = (f"{1e6 * median(times) / len(texts):.1f} µs each" for times in (our_times, their_times))
    return Row(f"decoding {title}", each, f"stellar-sdk, {other}", ratios)


def read(seed: int) -> tuple[int, int]:
    """The rounds and requests of one reading; AssertionError when what it read is not the chain's state."""
    busy = [f"busy {number}".encode() for number in range(BUSY)]
    keys = [f"quiet {number}".encode() for number in range(QUIET)] + busy
    Random(seed).shuffle(keys)
    chain = Chain()
    for key in keys:
        chain.put(key, b"value")
    for _ in range(50):
        chain.close_ledger()

    def change(chain: Chain) -> None:
        for key in busy:
            chain.put(key, str(chain.ledger + 1).encode())

    chain.on_close = change
    chain.close_ledger()
    source = ChainSource(chain, requests_per_ledger=REQUESTS_PER_LEDGER)

    async def program(view: LedgerView) -> State:
        entries = await view.read(keys)
        return {key: None if entry is None else entry.raw.data for key, entry in entries.items()}

    reading: Reading[State] = asyncio.run(read_at_one_ledger(source, program))
    truth: dict[bytes, Any] = {key: chain.at(key, reading.certificate.ledger) for key in keys}
    assert reading.result == {key: None if raw is None else raw.data for key, raw in truth.items()}
    return reading.certificate.rounds, len(source.log)
