"""The wire models: fields, order, form and constraints."""

from __future__ import annotations

import json

import msgspec
import pytest

from exporter.tree.documents import SystemStatus, encode, page_token, timestamp
from exporter.tree.pools import PoolSnapshot
from tests.render.rendering import contract, system_status


def snapshot(**changes: object) -> dict[str, object]:
    """A valid pool snapshot as plain values."""
    return {
        "market": contract(1),
        "pool": contract(2),
        "token_address": contract(2),
        "symbol": "USDC",
        "decimals": 7,
        "supply_apy_bps": 610,
        "borrow_apy_bps": 1199,
        "utilization_bps": 6540,
        "total_supplied": "32967024554566",
        "total_borrowed": "0",
        "oracle_price_usd": "1.00000000000000",
        "tvl_usd_cents": "329670245",
        "observed_ledger": 55_261_759,
    } | changes


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("market", contract(1)[:-1] + "1"),
        ("market", contract(1) + "\n"),
        ("pool", ""),
        ("pool", "../x"),
        ("token_address", None),
        ("symbol", 5),
        ("decimals", 2**32),
        ("supply_apy_bps", -1),
        ("borrow_apy_bps", 1.5),
        ("total_supplied", 5),
        ("total_supplied", "05"),
        ("total_borrowed", ""),
        ("oracle_price_usd", "1."),
        ("tvl_usd_cents", "1.5"),
        ("observed_ledger", 0),
    ],
)
def test_constraints_refuse(field: str, value: object) -> None:
    """A value that the API does not allow does not decode, and the error names its field."""
    with pytest.raises(msgspec.ValidationError, match=rf"\$\.{field}"):
        msgspec.json.decode(json.dumps(snapshot(**{field: value})), type=PoolSnapshot)


def test_unknown_and_missing_fields_are_refused() -> None:
    """Our own files may neither have a field that the model does not know nor lack one."""
    with pytest.raises(msgspec.ValidationError, match="unknown field `extra`"):
        msgspec.convert(snapshot(extra=1), PoolSnapshot)
    missing = snapshot()
    del missing["oracle_price_usd"]
    with pytest.raises(msgspec.ValidationError, match="missing required field `oracle_price_usd`"):
        msgspec.convert(missing, PoolSnapshot)


def test_page_token_is_base64url_of_sha256() -> None:
    """The token begins base64url(SHA-256): for no bytes at all 47DEQpj8HBSa-_TImW-5JC, a well-known digest."""
    assert "47DEQpj8HBSa-_TImW-5JC" == page_token(b"")


def test_timestamps_are_rfc3339_utc() -> None:
    """Unix seconds are written to the second, with a Z, in a form that the model accepts."""
    assert "2026-11-21T10:55:00Z" == timestamp(1_795_258_500)
    status = system_status(ledger_close_time=timestamp(0))

    assert "1970-01-01T00:00:00Z" == msgspec.json.decode(encode(status), type=SystemStatus).ledger_close_time
