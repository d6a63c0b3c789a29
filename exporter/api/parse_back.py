"""Reading a rendered file back with the model that its key implies, before anybody relies on it.

What can be told from one file alone is checked here: that it decodes with every constraint of its model, that
its bytes are the one way to write it, and that it says of itself what its key says. Whether it says what the
tables say is checked where it is rendered.
"""

from __future__ import annotations

import re

import msgspec

from exporter.api.documents import (
    AssetsPage,
    Document,
    HistoryManifest,
    MarketSummary,
    RunManifest,
    SystemStatus,
    encode,
    page_token,
)
from exporter.errors import CheckError
from exporter.files import RenderedFile

_CONTRACT = "C[A-Z2-7]{55}"

_MODELS: tuple[tuple[re.Pattern[str], type[Document]], ...] = (
    (re.compile(r"v1/pages/(?P<token>[A-Za-z0-9_-]+)\.json"), AssetsPage),
    (
        re.compile(
            rf"v1/assets(/market/(?P<market>{_CONTRACT}))?(/token/(?P<token_address>{_CONTRACT}))?"
            r"/(index|limit/(?P<limit>0|[1-9][0-9]*))\.json"
        ),
        AssetsPage,
    ),
    (re.compile(r"v1/assets/(?P<empty>empty)\.json"), AssetsPage),
    (re.compile(rf"v1/markets/(?P<market>{_CONTRACT})\.json"), MarketSummary),
    (re.compile(r"v1/history\.json"), HistoryManifest),
    (re.compile(r"v1/system/status\.json"), SystemStatus),
    (re.compile(r"v1/runs/(?P<run_id>[A-Za-z0-9_.-]+)\.json"), RunManifest),
)

_DECODERS = {model: msgspec.json.Decoder(model) for _, model in _MODELS}


def model_of(key: str) -> type[Document] | None:
    """The model of the document that a key names, or None where the key names no document of ours."""
    found = _model_and_names(key)
    return found[0] if found else None


def parse_back(file: RenderedFile) -> Document:
    """Decode a file with its model and check it against its key.

    Raises CheckError, naming the key and the field, for a key without a model, for bytes that do not decode, break
    a constraint or are not in canonical form, and for a document that is not the one its key names.
    """
    found = _model_and_names(file.key)
    if found is None:
        raise CheckError(f"{file.key}: no document has such a key")
    model, names = found
    try:
        document: Document = _DECODERS[model].decode(file.data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CheckError(f"{file.key}: does not decode as {model.__name__}: {error}") from error
    if encode(document) != file.data:
        raise CheckError(f"{file.key}: not in canonical form: compact, every field once and in the model's order")
    contradiction = _contradiction(document, names, file.data)
    if contradiction:
        raise CheckError(f"{file.key}: {contradiction}")
    return document


def _model_and_names(key: str) -> tuple[type[Document], dict[str, str]] | None:
    for pattern, model in _MODELS:
        match = pattern.fullmatch(key)
        if match:
            return model, {name: text for name, text in match.groupdict().items() if text is not None}
    return None


def _contradiction(document: Document, names: dict[str, str], data: bytes) -> str | None:
    """What the document says otherwise than its key, or None."""
    match document:
        case AssetsPage():
            return _page_contradiction(document, names, data)
        case MarketSummary():
            if document.market != names["market"]:
                return f"$.market is {document.market}"
            if len(document.pools) > document.pool_count:
                return f"$.pool_count is {document.pool_count}, but $.pools has {len(document.pools)}"
        case RunManifest():
            if document.run_id != names["run_id"]:
                return f"$.run_id is {document.run_id}"
    return None


def _page_contradiction(page: AssetsPage, names: dict[str, str], data: bytes) -> str | None:
    if "token" in names and page_token(data) != names["token"]:
        return f"its content has the token {page_token(data)}"
    if "empty" in names and (page.data or page.next_cursor is not None):
        return "$.data must be empty and $.next_cursor null"
    if "limit" in names and len(page.data) > int(names["limit"]):
        return f"$.data has {len(page.data)} rows"
    for field in ("market", "token_address"):
        expected = names.get(field)
        if expected is not None and any(getattr(row, field) != expected for row in page.data):
            return f"$.data has a row with another {field}"
    return None
