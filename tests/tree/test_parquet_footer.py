"""The reader of Parquet footers refuses bytes that no writer makes, whoever made them."""

from __future__ import annotations

import pytest

from exporter.errors import DecodeError
from exporter.parquet_bounds import open_parquet
from exporter.tree.parquet_footer import CompactReader

STRUCTURE, LIST = b"\x1c", b"\x19"
"""The heads of fields: the next number, and the kind of the value."""

REFUSED = {
    "structures in each other": (STRUCTURE * 100_000, "nested too deep"),
    "lists of structures in each other": ((LIST + b"\x1c") * 100_000, "nested too deep"),
    "lists in each other": (LIST + b"\x19" * 100_000, "nested too deep"),
    "a field twice": (b"\x15\x02\x05\x02\x02\x00", "has the field 1 twice"),
    "an unknown kind": (b"\x1d\x00", "unknown kind 13"),
    "more items than bytes": (LIST + b"\xf5\xff\xff\x03", "more items than it has bytes"),
    "more pairs than bytes": (b"\x1b\xff\xff\x03\x55", "more items than it has bytes"),
    "a long number": (b"\x15" + b"\xff" * 10 + b"\x01\x00", "more than 64 bits"),
    "a number that is cut": (b"\x15\xff", "ends too early"),
    "bytes that are cut": (b"\x18\x05abc", "ends too early"),
    "no end": (b"\x15\x02", "ends too early"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_no_writer_makes(case: str) -> None:
    """Each is a `DecodeError` that says what is wrong, from the reader and from whoever opens such a file."""
    footer, reason = REFUSED[case]
    file = b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1"

    with pytest.raises(DecodeError, match=reason):
        CompactReader(footer).structure()
    with pytest.raises(DecodeError, match=reason):
        open_parquet(file)
