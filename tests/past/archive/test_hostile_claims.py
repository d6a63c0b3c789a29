"""Entries files that attack the verifier: by their keys, and by what they unpack to."""

from __future__ import annotations

import gzip
import json
import resource
import subprocess
import sys
from base64 import b64encode
from itertools import chain, repeat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.ledger.codec.entries import code_key, data_key, instance_key, ttl_key
from exporter.ledger.codec.scval import BOOL, ScVal
from exporter.ledger.codec.scval_encode import address, i128, string, symbol, u32, vec
from exporter.past.archive import stellar_proof
from exporter.past.archive.stellar_proof import RefusedError, check_key, read_claims
from tests.past.archive.simulated_archive import (
    CONTRACT,
    ONE,
    OTHER,
    PASSPHRASE,
    SimulatedArchive,
    entries_content,
    live,
    time_to_live,
    trust_document,
)

MEMORY = 400 << 20
TRUE: ScVal = (BOOL, True)
KEYS = [
    ONE,
    instance_key(CONTRACT),
    code_key(bytes(32)),
    ttl_key(ONE),
    b"\0\0\0\x08\0\0\0\x0a",
    data_key(CONTRACT, vec(symbol("Balance"), address(OTHER), vec(), TRUE, string("abc")), durability=0),
    data_key(CONTRACT, vec(vec(u32(7), i128(-1)), symbol("Positions"))),
]


@pytest.mark.parametrize("key", KEYS, ids=range(len(KEYS)))
def test_a_key_is_one_whole_ledger_key(key: bytes) -> None:
    """Not a byte more, not a byte less, and no other durability."""
    check_key(key)
    for other in (*(key[:end] for end in range(len(key))), key + b"\0", key + bytes(4), key + key):
        with pytest.raises(RefusedError):
            check_key(other)
    if key[:4] == stellar_proof.DATA:
        with pytest.raises(RefusedError, match="durability"):
            check_key(key[:-1] + b"\2")


@given(st.sampled_from(KEYS), st.binary(max_size=60), st.integers(0, 80))
def test_any_bytes_are_a_key_or_refused(key: bytes, some: bytes, at: int) -> None:
    """Nothing else can happen, and it ends soon: also with a vector that claims four billion values."""
    for data in (some, key[:at] + some + key[at:], key[:at] + b"\xff" * 4 + key[at + 4 :]):
        try:
            check_key(data)
        except RefusedError:
            continue
        with pytest.raises(RefusedError):
            check_key(data + bytes(4))


def test_a_padded_key_and_a_truth_of_two_are_refused() -> None:
    """Another spelling of a key is absent in every state, so it must not be asked for."""
    key = data_key(CONTRACT, symbol("abc"))
    with pytest.raises(RefusedError, match="padded"):
        check_key(key.replace(b"abc\0", b"abc\1"))
    true = data_key(CONTRACT, TRUE)
    with pytest.raises(RefusedError, match="truth"):
        check_key(true[:-8] + b"\0\0\0\2" + true[-4:])


def line(*fields: object) -> bytes:
    return json.dumps(fields).encode() + b"\n"


def test_an_entrys_own_key_is_that_of_its_line() -> None:
    """A key with bytes of the value appended, and an entry under another key, are refused, live or absent."""
    entry = live(ONE, u32(7))[8:-4]
    head = line("ledger", PASSPHRASE, 127, 1)
    for key in (ONE + entry[len(ONE) + 4 :][:4], ONE + bytes(4)):
        for lines in (
            line("entry", b64encode(key).decode(), 7, None, b64encode(entry).decode()),
            line("absent", b64encode(key).decode()),
        ):
            with pytest.raises(RefusedError, match="is not one whole LedgerKey"):
                read_claims(head + lines)
    other = data_key(OTHER, symbol("One"))
    with pytest.raises(RefusedError, match="has another key in it"):
        read_claims(head + line("entry", b64encode(other).decode(), 7, None, b64encode(entry).decode()))


BOMBS = {
    "lines": lambda: repeat(b"[1]\n" * (1 << 18), 128),
    "one line": lambda: repeat(b" " * (1 << 20), 256),
    "lists": lambda: repeat(b"[" + b"[]," * 340_000 + b"[]]\n", 100),
    "depth": lambda: repeat(b"[" * 1_000_000 + b"\n", 50),
    "calls": lambda: repeat(b'["call","C","f",[],null,null]\n' * 1000, 300),
    "nothing": lambda: repeat(b"\0" * (1 << 20), 300),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name == "lines" else [pytest.mark.slow]) for name in BOMBS]
)
def test_a_file_that_unpacks_to_much_ends_within_bounds(name: str, tmp_path: Path) -> None:
    """A small gzip of many lines, long ones or deep ones ends with 3 or 8, in little memory and time."""
    made = SimulatedArchive(tmp_path / "archive", [[live(ONE, u32(7)), time_to_live(ONE, 900)]])
    (tmp_path / "trust.json").write_bytes(trust_document(made.organisations))
    (tmp_path / "proof.json").write_bytes(made.proof()[1])
    with gzip.open(tmp_path / "bomb.gz", "wb", 9) as file:
        for chunk in chain([entries_content(PASSPHRASE, 127, 1_700_000_127, {})], BOMBS[name]()):
            file.write(chunk)
    ended = subprocess.run(
        [
            *(sys.executable, stellar_proof.__file__, "proof.json", "--trust", "trust.json"),
            *("--entries", "bomb.gz", "--archive", str(made.folder)),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY)),
    )

    assert (tmp_path / "bomb.gz").stat().st_size < 1_500_000
    assert ended.returncode in (3, 8), ended
    assert "MemoryError" not in ended.stderr
    assert "entries file" in ended.stderr
