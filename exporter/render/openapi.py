"""Makes the OpenAPI 3.1 description of the API, from its operations and from the models that write every file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType, ModuleType
from typing import Any

import msgspec

from exporter import FORMAT
from exporter.docstrings import restore
from exporter.render import yields
from exporter.render.api_examples import Examples
from exporter.render.operations import OPERATIONS, TAGS, Operation
from exporter.render.site.templates import environment
from exporter.render.yields import YieldsBorrows, YieldsPools
from exporter.tree import documents, pool_parts, pool_periods, pool_rows, pools, problems, risk_documents, values
from exporter.tree.documents import EXPORTER_VERSION, ApiIndex, Endpoint, LaterEndpoint, OpenApiDocument
from exporter.tree.families import FAMILIES, LLMS, OPENAPI
from exporter.tree.files import FileKind, RenderedFile
from exporter.tree.headers import CONTENT_TYPES, PROBLEM_CONTENT_TYPE
from exporter.tree.problems import (
    METHOD_NOT_ALLOWED,
    MUTUALLY_EXCLUSIVE,
    PHRASES,
    UNKNOWN_BUCKET_PAGE,
    UNKNOWN_CURSOR,
    URL_TOO_LONG,
    Problem,
    invalid_parameter,
    not_a_parameter,
    not_found,
    problem,
    unknown_market,
    unknown_pool,
    unknown_protocol,
    unknown_symbol,
    unknown_token,
)
from exporter.tree.routes import LISTS, MAX_LIMIT, STRKEY_ACCEPTED, SYMBOL_ACCEPTED, UNSUPPORTED_FILTERS
from exporter.tree.values import BUCKET_NAMES, DEFAULT_BUCKET

MARKET = "CDVQVKOY2YSXS2IC7KN6MNASSHPAO7UN2UR2ON4OI2SKMFJNVAMDX6DP"
POOL = "CAS3J7GYLGXMF6TDJBBYYSE3HQ6BBSMLNUQ34T6TZMYMW2EVH34XOWMA"
"""Well-formed addresses for the examples."""


YIELDS_MODELS: dict[str, type[msgspec.Struct]] = {
    "/v1/yields/pools": YieldsPools,
    "/v1/yields/borrow": YieldsBorrows,
}
"""Models of documents that have the shape of another service. These documents are not read back."""

_MODELS = {family.path: family.model for family in FAMILIES if family.model is not None} | YIELDS_MODELS

DESCRIBED: tuple[tuple[str, type[msgspec.Struct], Operation], ...] = tuple(
    (path, _MODELS[path], operation) for path, operation in OPERATIONS.items()
)
"""Everything that is described: each path, the model of its document, and its operation, in order."""

VERSION_FIELD = "x-exporter-version"
"""The field of `info` with the version of the exporter that wrote the document."""

MODULES_WITH_MODELS: tuple[ModuleType, ...] = (
    *(module for module in vars(documents).values() if isinstance(module, ModuleType)),
    pool_parts,
    pool_periods,
    pool_rows,
    pools,
    problems,
    risk_documents,
    yields,
)
"""The modules whose docstrings are descriptions of the API."""

_CURSOR = {name: msgspec.json.schema(values.Cursor)[name] for name in ("type", "pattern", "maxLength")}


def _query(name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": "query", "description": description, "allowEmptyValue": True, "schema": schema}


def _in_path(name: str, kind: str, description: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "description": description, "schema": {"$ref": kind}}


PARAMETERS: Mapping[str, dict[str, Any]] = {
    "market": _query("market", "Only pools of this market.", {"$ref": "ContractAddress"}),
    "token": _query("token", "Only pools of this token.", {"$ref": "ContractAddress"}),
    "cursor": _query(
        "cursor",
        "The `next_cursor` of a page. It fixes the run, the filter and the page size; the other "
        "parameters are then ignored.",
        _CURSOR,
    ),
    "limit": _query(
        "limit",
        "The largest number of rows wanted. Pages are rendered in a few sizes (`page_sizes` of `/v1/system/status`). "
        "The largest size that is not above the limit is served. Without a limit it is `default_page_size` of the "
        "status. A limit of 0 gives no rows and a cursor to the first page; with a market and a token it gives the "
        "empty page.",
        {"type": "integer", "format": "int32", "minimum": 0, "maximum": MAX_LIMIT},
    ),
    "bucket": _query(
        "bucket",
        "The length of the buckets.",
        {"type": "string", "enum": list(BUCKET_NAMES), "default": DEFAULT_BUCKET},
    ),
    "day_bucket": _query(
        "bucket", "The length of the buckets.", {"type": "string", "enum": [DEFAULT_BUCKET], "default": DEFAULT_BUCKET}
    ),
    "history_cursor": _query(
        "cursor",
        "The `next_cursor` of a page of a history. It fixes whose history it is, the bucket and the page; "
        "`bucket` is then ignored.",
        _CURSOR,
    ),
    "protocol": _query("protocol", "Only pools of this protocol, in any case.", {"$ref": "ProtocolName"}),
    "symbol": _query(
        "symbol", "Only tokens of this symbol, in any case.", {"type": "string", "pattern": f"^{values.SYMBOL}$"}
    ),
    "status": _query(
        "status", "`open`: only pools that let somebody supply now.", {"type": "string", "enum": ["open"]}
    ),
    "market_path": _in_path("market", "ContractAddress", "The market's contract."),
    "pool_path": _in_path("pool", "PoolId", "The pool's id inside the market."),
    "address_path": _in_path("address", "ContractAddress", "The token's contract."),
    "token_path": _in_path("token", "ContractAddress", "The token's contract."),
    "protocol_path": _in_path("protocol", "ProtocolName", "The protocol's name in `/v1/protocols`."),
    "checkpoint_path": _in_path("checkpoint", "Ledger", "The ledger of a checkpoint: `risk.checkpoint` of a market."),
    "run_id_path": _in_path("run_id", "RunId", "The id of a run: `run_id` of `/v1/system/status`."),
}
"""Descriptions of parameters, by name. A schema that is only a name is that kind of value in `exporter.tree.values`."""

PROBLEMS: Mapping[str, Problem] = {
    "invalid_parameter": invalid_parameter("market", "usdc", STRKEY_ACCEPTED),
    "invalid_address": invalid_parameter("address", "usdc", STRKEY_ACCEPTED),
    "invalid_symbol": invalid_parameter("symbol", "$usd", SYMBOL_ACCEPTED),
    **{
        f"not_a_parameter_of_{name}": not_a_parameter("sort", f"/v1/{name}", LISTS[name])
        for name in ("assets", "changes", "markets", "pools", "protocols", "tokens", "yields/pools", "yields/borrow")
    },
    "mutually_exclusive": MUTUALLY_EXCLUSIVE,
    "invalid_bucket": invalid_parameter("bucket", "2h", f"one of {', '.join(BUCKET_NAMES)}"),
    "invalid_day_bucket": invalid_parameter("bucket", "1h", DEFAULT_BUCKET),
    "unknown_cursor": UNKNOWN_CURSOR,
    "unknown_bucket_page": UNKNOWN_BUCKET_PAGE,
    "unknown_market": unknown_market(MARKET),
    "unknown_pool": unknown_pool(MARKET, POOL),
    "unknown_protocol": unknown_protocol("lend"),
    "unknown_symbol": unknown_symbol("usdx"),
    "unknown_token": unknown_token(POOL),
    "not_found": not_found(),
    "method_not_allowed": METHOD_NOT_ALLOWED,
    "url_too_long": URL_TOO_LONG,
    "range_not_satisfiable": problem(416, "The file has 2448 bytes; no byte of the range is among them."),
    "nothing_published": problem(503, "No run is published here: v1/system/status.json is missing."),
}
"""An example of each problem, by name.

Other servers than the preview server may have their own bodies for 405 to 503.
"""

ALWAYS = ("method_not_allowed", "url_too_long", "range_not_satisfiable", "nothing_published")
"""Names of the problems with which every route may answer."""


_SCHEMAS = "#/components/schemas/"

_DESCRIPTION = (
    """Exact snapshots of every lending market on Soroban, at one ledger a run.

Everything is a file. A path without an extension is also served under its name with `.json` at the end, but for four:
`/v1` is `/v1/index.json`, `/v1/assets` is `/v1/assets/index.json`, `/v1/pools` is `/v1/pools/index.json`, and a
`/history` is `/history/1d.json`, or another bucket's name. A host that only serves files, such as GitHub Pages, ignores
query strings and answers errors in its own way: ask it for files, and follow cursors to `/v1/pages/{cursor}.json` or
`/v1/pool-pages/{cursor}.json`.

Token amounts, prices and money are decimal strings, because they exceed 2^53; basis points, decimals, ledgers and
counts are integers. A number at its schema's maximum means that or more. Null is allowed only where the schema
says so. Order everywhere is by market, then pool,
ascending bytes. Every document states the ledger that it was observed at.

Within a major version (`/v1`) fields are only added: clients must ignore fields that they do not know. Renaming,
removing, or changing the type or meaning of a field makes a new major version, next to which the old one stays.

Lists refuse with 400 the filters, orders and pages that they do not have: """
    + ", ".join(f"`{name}`" for name in UNSUPPORTED_FILTERS)
    + ", where they have a value. All other names that are not described are ignored everywhere."
)


_HEADERS = {
    "ETag": {"description": "A strong validator of the bytes, for `If-None-Match`.", "schema": {"type": "string"}},
    "Cache-Control": {
        "description": "How long the answer may be kept: pages of a run for good, documents for seconds.",
        "schema": {"type": "string"},
    },
}


def openapi_document(examples: Examples = MappingProxyType({})) -> OpenApiDocument:
    """The description of the API, with examples for parameters. All else is the same in every run of a version."""
    document = _document_without_examples()
    return msgspec.structs.replace(document, paths=_with_examples(document.paths, examples))


def _with_examples(paths: Mapping[str, Any], examples: Examples) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for path, methods in paths.items():
        operation = dict(methods["get"])
        if "parameters" in operation:
            operation["parameters"] = [
                parameter | {"example": examples[parameter["name"]]} if parameter["name"] in examples else parameter
                for parameter in operation["parameters"]
            ]
        result[path] = {"get": operation}
    return result


@cache
def _document_without_examples() -> OpenApiDocument:
    return OpenApiDocument(
        openapi="3.1.0",
        info={
            "title": "Lending markets of Soroban",
            "version": f"{FORMAT}.0.0",
            "summary": "A static JSON API of exact lending market snapshots.",
            "description": _DESCRIPTION,
            "contact": {"name": "Whoever publishes this tree"},
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            VERSION_FIELD: EXPORTER_VERSION,
        },
        servers=[{"url": "..", "description": "Wherever this file is served from: its folder's parent."}],
        tags=[{"name": name, "description": description} for name, description in TAGS.items()],
        paths={path: {"get": _operation(path, model, operation)} for path, model, operation in DESCRIBED},
        components={"schemas": _schemas(), "headers": _HEADERS},
        security=[],
    )


def api_index() -> ApiIndex:
    """The list of endpoints that `/v1` answers with."""
    endpoints, later = list[Endpoint](), list[LaterEndpoint]()
    for path, _, operation in DESCRIBED:
        parameters = [str(PARAMETERS[name]["name"]) for name in operation.query]
        if operation.added_by is None:
            endpoints.append(Endpoint(path, parameters, operation.summary))
        else:
            later.append(LaterEndpoint(path, parameters, operation.summary, operation.added_by))
    return ApiIndex(endpoints, later, f"../{OPENAPI.only_key}")


def _operation(path: str, model: type[msgspec.Struct], operation: Operation) -> dict[str, object]:
    result: dict[str, object] = {
        "operationId": operation.name,
        "tags": [operation.tag],
        "summary": operation.summary,
        "description": operation.description,
    }
    parameters = [*(f"{name}_path" for name in re.findall(r"\{(\w+)\}", path)), *operation.query]
    if parameters:
        result["parameters"] = [_parameter(name) for name in parameters]
    return result | {"responses": _responses(model, operation)}


def _parameter(name: str) -> dict[str, object]:
    parameter = dict(PARAMETERS[name])
    kind = parameter["schema"].get("$ref")
    if kind is not None:
        schema = msgspec.json.schema(getattr(values, kind))
        schema.pop("examples", None)  # the tree that has it gives the parameter's example
        parameter["schema"] = _tolerant(schema)
    # Generators of clients take the description of a parameter from its schema.
    parameter["schema"] = parameter["schema"] | {"description": parameter["description"]}
    return parameter


def _responses(model: type[msgspec.Struct], operation: Operation) -> dict[str, object]:
    headers = {name: {"$ref": f"#/components/headers/{name}"} for name in ("ETag", "Cache-Control")}
    responses: dict[str, object] = {
        "200": {
            "description": operation.summary,
            "headers": headers,
            "content": {CONTENT_TYPES["json"]: {"schema": {"$ref": _SCHEMAS + model.__name__}}},
        },
        "304": {"description": "`If-None-Match` names the file as it is.", "headers": headers},
    }
    by_status: dict[int, dict[str, object]] = {}
    # If a tree does not have the document at all, its path answers 404.
    for name in (*operation.problems, "not_found", *ALWAYS):
        example = PROBLEMS[name]
        by_status.setdefault(example.status, {})[name] = {"value": msgspec.to_builtins(example)}
    for status, examples in sorted(by_status.items()):
        content = {"schema": {"$ref": f"{_SCHEMAS}Problem"}, "examples": examples}
        responses[str(status)] = {
            "description": PHRASES[status],
            "content": {PROBLEM_CONTENT_TYPE: content},
        }
    return responses


def _schemas() -> dict[str, object]:
    models = [*{model: None for _, model, _ in DESCRIBED}, Problem]
    restore(*MODULES_WITH_MODELS)
    _, components = msgspec.json.schema_components(models, ref_template=_SCHEMAS + "{name}")
    for schema in components.values():
        for name, described in schema["properties"].items():
            for ending, unit in (("_bps", "basis points"), ("_usd_cents", "US cents")):
                if name.endswith(ending) and unit not in described["description"]:
                    meaning, separator, rest = described["description"].partition(";")
                    described["description"] = f"{meaning}, in {unit}{separator}{rest}"
            described["description"] = _sentence(described["description"])
            described.pop(
                "default", None
            )  # generators would take a field that is left out for one that is always there
    return {name: _with_titles(_tolerant(components[name])) for name in sorted(components)}


def _with_titles(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with the field's name as the title of a closed set that may be null.

    Generators of clients name the type of a field by its place in the schema, and without a title by a number.
    """
    for name, described in schema["properties"].items():
        for part in described.get("anyOf", ()):
            if "enum" in part:
                part["title"] = "".join(word.capitalize() for word in name.split("_"))
    return schema


def _sentence(meaning: str) -> str:
    """The meaning of a column as a sentence. A name or a formula at its beginning stays as it is."""
    first, space, rest = meaning.partition(" ")
    start = first.capitalize() if first.isalpha() and first.islower() else first
    return f"{start}{space}{rest}" if meaning.endswith((".", "?")) else f"{start}{space}{rest}."


_CLOSED_SET = re.compile(r"\^\(([A-Za-z0-9_]+(?:\|[A-Za-z0-9_]+)+)\)\$")
"""Matches a pattern that accepts a list of words and nothing else."""


def _tolerant(schema: Any) -> Any:
    """The schema with which a client ignores unknown fields. A pattern of words becomes an enum."""
    if isinstance(schema, dict):
        kept = {name: value for name, value in schema.items() if (name, value) != ("additionalProperties", False)}
        if (words := _CLOSED_SET.fullmatch(str(kept.get("pattern")))) is not None:
            del kept["pattern"]
            kept["enum"] = words[1].split("|")
        return {
            name: re.sub(r"\s*\n\s*", " ", value)
            if name == "description" and isinstance(value, str)
            else _tolerant(value)
            for name, value in kept.items()
        }
    if isinstance(schema, list):
        return [_tolerant(item) for item in schema]
    return schema


def render_llms() -> RenderedFile:
    """Render `/llms.txt`, which says what this tree is and how to read it, for language models."""
    files = {family.path: family.template for family in FAMILIES}
    files |= {path: f"{path[1:]}.json" for path in YIELDS_MODELS}
    listed = [(files[path], operation.summary) for path, _, operation in DESCRIBED if operation.added_by is None]
    text = environment().get_template("llms.txt.j2").render(files=listed)
    return RenderedFile(LLMS.only_key, f"{text}\n".encode(), FileKind.DOCUMENT)
