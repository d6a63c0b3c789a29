"""Reading structs by field name and kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.errors import DecodeError
from exporter.ledger.codec import scval
from exporter.ledger.codec.fields import Fields, addresses, contracts, text_of
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import VOID, address, i128, string, struct_map, symbol, u32, u64, vec
from tests.protocols.made_ledger import account, contract

TRUE: ScVal = (scval.BOOL, True)
STRUCT = struct_map(
    {
        "amount": i128(-5),
        "count": u32(7),
        "inner": struct_map({"deep": u32(1)}),
        "on": TRUE,
        "text": string("XLM"),
        "time": u64(2**64 - 1),
        "who": address(contract("pool")),
    }
)

# Every reader with a field it reads, and what that field is.
READERS: dict[str, tuple[Callable[[Fields, str], Any], str, Any]] = {
    "u32": (Fields.u32, "count", 7),
    "u64": (Fields.u64, "time", 2**64 - 1),
    "i128": (Fields.i128, "amount", -5),
    "boolean": (Fields.boolean, "on", True),
    "address": (Fields.address, "who", contract("pool")),
    "string": (Fields.string, "text", "XLM"),
}


class TestFields:
    @pytest.mark.parametrize("reader", READERS)
    def test_reads_its_kind(self, reader: str) -> None:
        """Each reader gives a field of its kind; one that is missing or of another kind is named with the struct."""
        read, name, expected = READERS[reader]

        assert expected == read(Fields.of(STRUCT, "Pool"), name)
        with pytest.raises(DecodeError, match=r"^Pool: field absent is missing$"):
            read(Fields.of(STRUCT, "Pool"), "absent")
        with pytest.raises(DecodeError, match=rf"^Pool: field {name}: expected \w+, found void$"):
            read(Fields.of(struct_map({name: VOID}), "Pool"), name)

    def test_struct_inside_a_struct(self) -> None:
        """A field that is a struct is read with its path in errors."""
        inner = Fields.of(STRUCT, "Pool").struct("inner")

        assert 1 == inner.u32("deep")
        with pytest.raises(DecodeError, match=r"^Pool.inner: field shallow is missing$"):
            inner.u32("shallow")

    def test_unknown_fields_are_ignored(self) -> None:
        """A field that nobody asks for, of any kind, costs nothing: an upgrade may add some."""
        pairs = (*STRUCT[1], (symbol("zz_new"), vec(VOID)), (u32(3), VOID), (vec(symbol("Admin")), VOID))

        assert 7 == Fields(pairs, "Pool").u32("count")

    def test_two_values_under_one_name_are_an_error(self) -> None:
        """Two values under one name are an error: which one would the contract have meant?"""
        with pytest.raises(DecodeError, match=r"^Pool: field count is listed twice$"):
            Fields(((symbol("count"), u32(1)), (symbol("count"), u32(2))), "Pool")


@given(st.binary())
def test_bytes_that_are_no_text(content: bytes) -> None:
    """Any bytes give a text that can be written as UTF-8 again; what is not an UTF-8 shows as escapes."""
    text = text_of(content)

    assert text.encode("utf-8").decode("utf-8") == text
    assert (b"\xff" in content) <= ("\\xff" in text)


@pytest.mark.parametrize(
    ("value", "wrong"),
    [
        (vec(address(contract("a")), u32(1)), r"list\[1\]: expected address, found u32"),
        ((scval.VEC, None), "list: the vector is missing"),
        (vec(*[address(contract("a"))] * 3), "list: 3 addresses, more than 2"),
    ],
)
def test_addresses_keep_the_order_of_the_ledger(value: ScVal, wrong: str) -> None:
    """Addresses are given in the order of the ledger, accounts included; what is not a list of them is named."""
    given_ = (contract("b"), account("a"))

    assert given_ == addresses(vec(*map(address, given_)), "list", most=2)
    with pytest.raises(DecodeError, match=f"^{wrong}$"):
        addresses(value, "list", most=2)


@pytest.mark.parametrize(
    ("listed", "wrong"),
    [
        ((contract("a"), contract("a")), "an address is listed twice"),
        ((contract("a"), account("b")), "an address is not a contract"),
    ],
)
def test_a_list_of_contracts_has_each_once(listed: tuple[str, ...], wrong: str) -> None:
    """A list of contracts has each once, and nothing else."""
    with pytest.raises(DecodeError, match=f"^list: {wrong}$"):
        contracts(vec(*map(address, listed)), "list", most=2)
