"""Tests of the file of entries that a proof is held against."""

from __future__ import annotations

import gzip

from exporter.ledger.codec.scval_encode import encode_scval, symbol, u32
from exporter.ledger.source import ContractCall, RawEntry, SimulationAnswer
from exporter.proof.entries_file import entries_content, packed
from exporter.proof.stellar_proof import read_claims
from tests.archive.test_checkpoint import CONTRACT, ONE, TWO


def test_what_is_written_is_what_the_checker_reads() -> None:
    """Entries, absences and calls come back; order of reading makes no difference, and the packed file none either."""
    entries = {TWO: None, ONE: RawEntry(b"data", 5, None)}
    calls = [
        (ContractCall(CONTRACT, name, (u32(1),)), SimulationAnswer(9, result, error, (), "an RPC"))
        for name, result, error in (("price", encode_scval(symbol("x")), None), ("gone", None, "HostError"))
    ]
    content = entries_content("a network", 9, 1_700_000_000, entries, calls)
    claims = read_claims(content)

    assert ("a network", 9, 1_700_000_000, 2) == (*claims[:3], claims.calls)
    assert {ONE: (b"data", 5, None), TWO: None} == claims.entries
    assert content == entries_content("a network", 9, 1_700_000_000, dict(reversed(entries.items())), calls[::-1])
    assert content == gzip.decompress(packed(content))
    assert packed(content) == packed(content)
