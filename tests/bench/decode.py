"""Decoding contract data, as an RPC gives it, against stellar-sdk: base64 text to Python values.

Ours includes the check that the base64 is canonical, as the RPC client makes it. It remembers addresses, which in a
run recur from entry to entry; for information it is measured with none remembered, too. And its values are tagged with
their kind (docs/adr/0001-tagged-values.md) where those of stellar-sdk are bare, so for information it is measured with
a walk that takes the tags away. That both find the same is checked first.
"""

from __future__ import annotations

import os
from binascii import a2b_base64, b2a_base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

from exporter.deployments.local import made_address
from exporter.ledger.codec import scval, strkey
from exporter.ledger.codec.entries import PERSISTENT, ContractData, decode_contract_data, encode_contract_data
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import i128, symbol
from exporter.ledger.rpc.wire import decode_base64
from exporter.ledger.snapshot_file import LedgerSnapshot
from tests.bench.timing import Duel, Finding, Target, duel

FASTER = Target(10.0)
RECORDS, FIELDS = 6, 12
_SNAPSHOT = Path(__file__).resolve().parents[3] / "shared" / "data" / "mainnet-55261759.json"


def run(quick: bool = False) -> list[Finding]:
    """A large made entry, and where the ledger snapshot of mainnet is at hand all contract data in it."""
    large = text_of(encode_contract_data(made_entry()))
    findings = _measure(f"an entry of {RECORDS} records with {FIELDS} fields ({_bytes([large])} bytes)", [large], quick)
    path = Path(os.environ.get("EXPORTER_MAINNET_SNAPSHOT") or _SNAPSHOT)
    if not path.is_file():
        print(f"  (no mainnet entries: {path.name} is not at hand; EXPORTER_MAINNET_SNAPSHOT says where it is)")
        return findings
    population = mainnet_texts(path)
    title = f"all {len(population)} contract-data entries of mainnet ledger 55,261,759 ({_bytes(population)} bytes)"
    return findings + _measure(title, population[: 20 if quick else None], quick)


def made_entry() -> ContractData:
    """A large contract-data entry: a map of maps of i128."""
    record = (
        scval.MAP,
        tuple((symbol(f"field_{field:02}"), i128(10**18 + field)) for field in range(FIELDS)),
    )
    records = (scval.MAP, tuple((symbol(f"record_{number}"), record) for number in range(RECORDS)))
    return ContractData(made_address("bench"), symbol("Records"), PERSISTENT, records)


def mainnet_texts(path: Path) -> list[str]:
    """Every contract-data entry of a ledger snapshot file, as base64."""
    entries = LedgerSnapshot.load(path).entries
    return [text_of(entry.data) for key, entry in entries.items() if key[:4] == b"\0\0\0\x06"]


def text_of(data: bytes) -> str:
    """XDR as base64 text."""
    return b2a_base64(data, newline=False).decode("ascii")


def _bytes(texts: list[str]) -> str:
    return f"{sum(len(a2b_base64(text)) for text in texts):,}"


def _measure(title: str, texts: list[str], quick: bool) -> list[Finding]:
    theirs = _sdk_decoder()
    for text in texts:
        agree(_decode_plain(text), theirs(text))
    rounds, seconds = (1, 0.0) if quick else (31, 0.03)

    def against_sdk(decode: Callable[[str], object], forget: bool = False) -> Duel:
        def all_ours() -> None:
            if forget:
                strkey.encode.cache_clear()
            for text in texts:
                decode(text)

        def all_theirs() -> None:
            for text in texts:
                theirs(text)

        count = len(texts)
        return duel(all_ours, all_theirs, rounds=rounds, seconds=seconds, our_units=count, their_units=count)

    findings = [
        _finding(f"{title}: from_xdr + to_native of stellar-sdk / decode_contract_data", against_sdk(_decode), FASTER),
        _finding("the same, ours with a walk to bare values", against_sdk(_decode_plain)),
    ]
    if len(texts) > 1:
        findings.append(_finding("the same, ours with no address remembered", against_sdk(_decode, forget=True)))
    return findings


def _finding(title: str, result: Duel, target: Target | None = None) -> Finding:
    facts = {"ours_us": round(result.ours.median * 1e6, 2), "stellar_sdk_us": round(result.theirs.median * 1e6, 2)}
    return Finding(title, result.ratio, "times as fast", target, facts)


def _decode(text: str) -> ContractData:
    return decode_contract_data(decode_base64(text, "an entry"))


def _decode_plain(text: str) -> Any:
    return plain(_decode(text).value)


def _sdk_decoder() -> Callable[[str], Any]:
    from stellar_sdk import scval as sdk_scval
    from stellar_sdk import xdr

    def decode(text: str) -> Any:
        entry = xdr.LedgerEntryData.from_xdr(text)
        assert entry.contract_data is not None
        return sdk_scval.to_native(entry.contract_data.val)

    return decode


def plain(value: ScVal) -> Any:
    """A value without its kinds, as `to_native` of stellar-sdk gives it; contract instances are left as they are."""
    kind, payload = value
    if kind == scval.MAP and payload is not None:
        return {plain(key): plain(item) for key, item in payload}
    if kind == scval.VEC and payload is not None:
        return [plain(item) for item in payload]
    if kind == scval.STRING:
        try:
            return payload.decode()
        except UnicodeDecodeError:
            return payload
    return payload


def agree(ours: Any, theirs: Any) -> None:
    """Refuse to measure decoders that do not find the same."""
    if isinstance(ours, scval.ContractInstance):
        return  # stellar-sdk leaves an instance as it is; tests/ledger/codec/test_scval.py compares them
    if _comparable(theirs) != ours:
        raise AssertionError(f"the decoders disagree: {ours!r:.200} and {theirs!r:.200}")


def _comparable(value: Any) -> Any:
    if isinstance(value, dict):
        return {_comparable(key): _comparable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_comparable(item) for item in value]
    return getattr(value, "address", value)
