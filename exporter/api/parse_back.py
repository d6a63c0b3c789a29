"""Reading a rendered file back with the model that its key implies, before anybody relies on it.

What can be told from one file alone is checked here: that it decodes with every constraint of its model, that
its bytes are the one way to write it, and that it says of itself what its key says. Whether it says what the
tables say is checked where it is rendered.
"""

from __future__ import annotations

import re
from functools import lru_cache

import msgspec

from exporter.api.asset_documents import AssetDetail, AssetHistory
from exporter.api.coverage_documents import ProtocolList
from exporter.api.documents import (
    AssetsPage,
    Document,
    HistoryManifest,
    MarketList,
    MarketSummary,
    OpenApiDocument,
    ProtocolSummary,
    RunManifest,
    SystemStatus,
    TokenDocument,
    encode,
)
from exporter.api.problems import Problem
from exporter.api.self_checks import contradiction
from exporter.errors import CheckError
from exporter.files import RenderedFile

_CONTRACT = "C[A-Z2-7]{55}"
_POOL = "[A-Za-z0-9][A-Za-z0-9_-]*"

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
    (re.compile(rf"v1/assets/(?P<market>{_CONTRACT})/(?P<pool>{_POOL})\.json"), AssetDetail),
    (
        re.compile(rf"v1/assets/(?P<market>{_CONTRACT})/(?P<pool>{_POOL})/history/(?P<bucket>[0-9]+[mhdw])\.json"),
        AssetHistory,
    ),
    (re.compile(r"v1/buckets/(?P<token>[A-Za-z0-9_-]+)\.json"), AssetHistory),
    (re.compile(r"v1/markets\.json"), MarketList),
    (re.compile(rf"v1/markets/(?P<market>{_CONTRACT})\.json"), MarketSummary),
    (re.compile(rf"v1/tokens/(?P<address>{_CONTRACT})\.json"), TokenDocument),
    (re.compile(r"v1/protocol/summary\.json"), ProtocolSummary),
    (re.compile(r"v1/protocols\.json"), ProtocolList),
    (re.compile(r"v1/openapi\.json"), OpenApiDocument),
    (re.compile(r"v1/history\.json"), HistoryManifest),
    (re.compile(r"v1/system/status\.json"), SystemStatus),
    (re.compile(r"v1/errors/(?P<status>[1-5][0-9]{2})\.json"), Problem),
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
    a constraint or are not in canonical form, and for a document that is not the one its key names. The document
    may be shared with an earlier caller: it is to be read only.
    """
    return _parsed(file.key, file.data)


# A run's files go one by one from who renders them to the checker of the whole tree, and both want them parsed.
@lru_cache(maxsize=1)
def _parsed(key: str, data: bytes) -> Document:
    found = _model_and_names(key)
    if found is None:
        raise CheckError(f"{key}: no document has such a key")
    model, names = found
    try:
        document: Document = _DECODERS[model].decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CheckError(f"{key}: does not decode as {model.__name__}: {error}") from error
    if encode(document) != data:
        raise CheckError(f"{key}: not in canonical form: compact, every field once and in the model's order")
    wrong = contradiction(document, names, data)
    if wrong:
        raise CheckError(f"{key}: {wrong}")
    return document


def _model_and_names(key: str) -> tuple[type[Document], dict[str, str]] | None:
    for pattern, model in _MODELS:
        match = pattern.fullmatch(key)
        if match:
            return model, {name: text for name, text in match.groupdict().items() if text is not None}
    return None
