"""Turns documents into files, and reads each file back with the model of its key before anybody relies on it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from exporter.errors import CheckError
from exporter.tables import GATES
from exporter.tree import documents
from exporter.tree.families import FAMILIES, RUN_FILES, key_of, kind_of, parse_key
from exporter.tree.files import RenderedFile
from exporter.tree.pools import AssetDetail
from exporter.tree.risk_documents import RiskDocument


def contradiction(document: Struct, names: Mapping[str, str], data: bytes) -> str | None:
    """What in a decoded document contradicts its key; None if nothing does.

    ``names`` are the fields that the key fixes (`families.parse_key`), and ``data`` are the document's bytes.
    """
    for field in ("market", "pool", "bucket", "address", "scope", "protocol", "run_id"):
        value = getattr(document, field, None)
        if value is not None and value != names.get(field, value):
            return f"$.{field} is {value}"
    if "cursor" in names:
        token = documents.page_token(data)
        if token != names["cursor"]:
            return f"its content has the token {token}"
    if "sha256" in names:
        digest = hashlib.sha256(data).hexdigest()
        if digest != names["sha256"]:
            return f"its content has the digest {digest}"
    match document:
        case documents.AssetsPage():
            return _page(document, names)
        case AssetDetail():
            return _detail(document)
        case documents.HistoryManifest():
            for index, file in enumerate(document.files):
                if file.url != f"../{file.key}":
                    return f"$.files[{index}].url does not lead to its key {file.key}"
        case RiskDocument():
            if names.get("checkpoint") != str(document.checkpoint):
                return f"$.checkpoint is {document.checkpoint}"
        case documents.RunManifest():
            if document.files_key != RUN_FILES.key(run_id=document.run_id):
                return f"$.files_key is {document.files_key}"
    return None


def _page(page: documents.AssetsPage, names: Mapping[str, str]) -> str | None:
    if "empty" in names and (page.data or page.next_cursor is not None):
        return "$.data must be empty and $.next_cursor null"
    if "limit" in names and len(page.data) > int(names["limit"]):
        return f"$.data has {len(page.data)} rows"
    for name, field in (("market", "market"), ("token", "token_address")):
        expected = names.get(name)
        if expected is not None and any(getattr(row, field) != expected for row in page.data):
            return f"$.data has a row with another {field}"
    return None


def _detail(detail: AssetDetail) -> str | None:
    price = detail.price
    liquidity = detail.liquidity
    parts = (
        price.oracle_price,
        price.oracle_decimals,
        detail.oracle_price_usd,
        detail.tvl_usd_cents,
        liquidity.supplied_usd_cents,
        liquidity.borrowed_usd_cents,
    )
    priced = price.price_reason == "valid"
    if any((part is not None) != priced for part in parts) or (price.price_timestamp is not None and not priced):
        return f"$.price.validity is {price.price_reason!r}: price and values must be there if and only if it is valid"
    for section, amount, worth in (
        ("liquidity", "available_to_withdraw", "available_usd_cents"),
        ("liquidity", "available_to_supply", "available_to_supply_usd_cents"),
        ("liquidity", "available_to_borrow", "available_to_borrow_usd_cents"),
        ("risk", "supply_cap", "supply_cap_usd_cents"),
        ("risk", "borrow_cap", "borrow_cap_usd_cents"),
    ):
        part = getattr(detail, section)
        if (getattr(part, worth) is not None) != (priced and getattr(part, amount) is not None):
            return f"$.{section}.{worth} must be there if and only if the price and the amount are"
    for gate, amount in GATES.items():
        is_open, available = getattr(detail.operations, gate), getattr(liquidity, amount)
        if (is_open is None and available is not None) or (is_open is False and available != "0"):
            return f"$.liquidity.{amount} is {available}, but $.operations.{gate} is {is_open}"
    return None


_DECODERS = {family.model: msgspec.json.Decoder(family.model) for family in FAMILIES if family.model is not None}


def file_of(document: Struct) -> RenderedFile:
    """The file of a document that is not a page. It is not read back."""
    key = key_of(document)
    return RenderedFile(key, documents.encode(document), kind_of(key))


def render_document(document: Struct) -> RenderedFile:
    """The file of a document that is not a page. Raises `CheckError` if it breaks a constraint of its model."""
    return read_back(file_of(document))


def read_back(file: RenderedFile) -> RenderedFile:
    """The given file, if `parse_back` finds nothing wrong with it. Raises `CheckError`."""
    parse_back(file.key, file.data)
    return file


def parse_back(key: str, data: bytes) -> Struct:
    """Decode a file with the model of its key, and compare it with the key.

    Raises `CheckError`, which names the key and the field.
    """
    parsed = parse_key(key)
    if parsed is None:
        raise CheckError(f"{key}: no document has such a key")
    family, names = parsed
    model = family.model
    if model is None:
        raise CheckError(f"{key}: no document has such a key")
    try:
        document: Struct = _DECODERS[model].decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CheckError(f"{key}: does not decode as {model.__name__}: {error}") from error
    if documents.encode(document) != data:
        raise CheckError(f"{key}: not in canonical form: compact, every field once and in the model's order")
    wrong = contradiction(document, names, data)
    if wrong:
        raise CheckError(f"{key}: {wrong}")
    return document
