"""The description of the API: well-formed, complete, and true of every file and every problem."""

from __future__ import annotations

import json
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import jsonschema
import msgspec
import openapi_spec_validator
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from exporter.render.api_examples import filled
from exporter.render.changes import UNITS
from exporter.render.openapi import DESCRIBED, PROBLEMS, YIELDS_MODELS, openapi_document, render_llms
from exporter.tree.families import CENSUS, ERROR, PROOFS, RISK, WATCHED, YIELDS, family_of
from exporter.tree.pools import PoolSnapshot
from exporter.tree.problems import encode_problem
from exporter.tree.read_back import render_document
from exporter.tree.routes import LISTS, Served, route
from exporter.tree.values import RewardReason
from tests.examples import examples
from tests.render.rendering import SIZES, contract

M, P = contract(1), contract(2)

ADDED = {PROOFS.path, CENSUS.path, RISK.path}
"""Paths of what no run writes: `exporter prove` and `exporter census` add it."""


YIELDS_PATHS = list(YIELDS_MODELS)


@cache
def description() -> dict[str, Any]:
    """The description as a client reads it."""
    document: dict[str, Any] = json.loads(render_document(openapi_document()).data)
    return document


def closed(schema: Any) -> Any:
    """A schema that refuses fields which it does not name."""
    if isinstance(schema, dict):
        made = {name: closed(value) for name, value in schema.items()}
        return made | {"additionalProperties": False} if "properties" in schema and "title" in schema else made
    return [closed(item) for item in schema] if isinstance(schema, list) else schema


def refused(document: Any, path: str, status: str = "200") -> list[str]:
    """The faults of a document as the answer of a route with a status."""
    (content,) = description()["paths"][path]["get"]["responses"][status]["content"].values()
    schema = content["schema"] | {"components": description()["components"]}
    return [error.message for error in jsonschema.Draft202012Validator(schema).iter_errors(document)]


def test_it_is_a_valid_description() -> None:
    """A validator of OpenAPI 3.1 finds nothing wrong, and it is right wherever the tree is served from."""
    openapi_spec_validator.validate(description())

    assert [".."] == [server["url"] for server in description()["servers"]]
    assert "3.1.0" == description()["openapi"]


def test_every_file_validates(tree: Path) -> None:
    """Every document of a published tree is what the description says about its route, and each has a route.

    No document has a field that the description does not name, though clients must put up with such.
    """
    counts: Counter[str] = Counter()
    components = closed(description()["components"])
    for file in sorted(tree.rglob("*.json")):
        key = file.relative_to(tree).as_posix()
        family = family_of(key)
        assert family is not None, key
        if family in (ERROR, WATCHED) or family.model is None:
            continue  # for platforms and for the next run, not for clients; or of no model of ours
        counts.update(path for path, model, _ in DESCRIBED if model is family.model)
        if key != "v1/openapi.json":
            schema = {"$ref": f"#/components/schemas/{family.model.__name__}", "components": components}
            jsonschema.Draft202012Validator(schema).validate(json.loads(file.read_bytes()))
    assert {*counts, *YIELDS_PATHS, *ADDED} == set(description()["paths"])
    assert counts["/v1/assets/{market}/{pool}/history"] >= 4 * counts["/v1/assets/{market}/{pool}"] > 80


@pytest.mark.parametrize("path", YIELDS_PATHS)
def test_yields_are_as_described(tree: Path, path: str) -> None:
    """The documents in another service's shape have every field that the description names, and no others."""
    document = json.loads((tree / f"{path[1:]}.json").read_bytes())
    (model,) = (model for found, model, _ in DESCRIBED if found == path)
    schema = {"$ref": f"#/components/schemas/{model.__name__}", "components": description()["components"]}
    jsonschema.Draft202012Validator(closed(schema)).validate(document)
    row = description()["components"]["schemas"][f"Yields{path.rsplit('/', 1)[1].removesuffix('s').capitalize()}"]

    assert row["properties"].keys() == {name for item in document["data"] for name in item}


def test_every_property_has_a_description_of_its_own() -> None:
    """Each property says what it is, its unit, and what null means if it can be null; no other name has the text."""
    names: dict[str, set[str]] = {}
    for model, schema in description()["components"]["schemas"].items():
        for name, found in schema["properties"].items():
            assert found.get("description"), (model, name)
            assert "null" in found["description"] or {"type": "null"} not in found.get("anyOf", ()), (model, name)
            for part, unit in (("_bps", "basis points"), ("_usd_cents", "US cents")):
                assert part not in name or unit in found["description"], (model, name)
            assert found["description"].count("; null") <= 1, (model, name)
            names.setdefault(found["description"], set()).add(name.removeprefix("market_"))
    assert [] == [(text, shared) for text, shared in names.items() if len(shared) > 1]


def test_a_yield_of_the_protocol_names_the_one_to_compare() -> None:
    """Where a document has a yield as its protocol compounds it, and one compounded daily, the first names that."""
    pairs = []
    for model, schema in description()["components"]["schemas"].items():
        for name, found in schema["properties"].items():
            sibling = re.sub("(?=(?:supply|borrow)_apy_bps)|^(?=apy_bps)", "comparable_", name, count=1)
            if name != sibling and sibling in schema["properties"]:
                pairs.append((model, name))
                assert sibling in found["description"], (model, name)
    assert len(pairs) >= 17


WORDS_OF_OTHERS = {"comet_spot", "update_status", "new_market", "supply_rate", "basis_points", "base_units"}
"""Names in descriptions that are no fields: of contracts, and values of fields."""


def test_descriptions_name_fields_that_clients_have() -> None:
    """A name in a description is that of a field or of a value in some document, not that of a column alone."""
    schemas = description()["components"]["schemas"]
    known = {name for schema in schemas.values() for name in schema["properties"]} | WORDS_OF_OTHERS
    known |= set(re.findall('"([a-z_0-9]+)"', json.dumps([schema["properties"] for schema in schemas.values()])))
    for model, schema in schemas.items():
        for name, found in (("", schema), *schema["properties"].items()):
            assert set(re.findall("[a-z]+(?:_[a-z0-9]+)+", found["description"])) <= known, (model, name)
            assert re.search(r"^[A-Z`0-9(]|^[a-z]+[_(]|^valid,", found["description"]), (model, name)
            assert found["description"].endswith("."), (model, name)


def test_it_can_refuse(tree: Path) -> None:
    """The description is not a rubber stamp: a field too few, another type or form is refused."""
    page = json.loads((tree / "v1/assets/index.json").read_bytes())
    row = page["data"][0]
    for name in PoolSnapshot.__struct_fields__:
        missing = {field: value for field, value in row.items() if field != name}
        assert refused({"data": [missing], "next_cursor": None, "observed_ledger": 1}, "/v1/assets"), name
        assert refused({"data": [row | {name: -1.5}], "next_cursor": None, "observed_ledger": 1}, "/v1/assets"), name
    assert refused({"data": [row | {"total_supplied": 5}], "next_cursor": None, "observed_ledger": 1}, "/v1/assets")
    assert not refused({"data": [row | {"a_new_field": 5}], "next_cursor": None, "observed_ledger": 1}, "/v1/assets")


def test_a_refused_parameter_is_one_of_the_operation() -> None:
    """An example that says how a parameter must be names a parameter that the operation has."""
    named = 0
    for path, item in description()["paths"].items():
        parameters = {parameter["name"] for parameter in item["get"].get("parameters", ())}
        parameters.update(LISTS.get(path.removeprefix("/v1/"), ()))
        refusals = item["get"]["responses"].get("400", {}).get("content", {}).get("application/problem+json", {})
        for example in refusals.get("examples", {}).values():
            name, is_one, _ = example["value"]["detail"].partition(" must be ")
            assert not is_one or name in parameters, (path, name)
            named += bool(is_one)
    assert named > 5


def test_every_problem_has_its_example() -> None:
    """Each problem of each route has an example, of its status, which validates."""
    seen = set()
    for path, item in description()["paths"].items():
        for status, response in item["get"]["responses"].items():
            content = response.get("content", {}).get("application/problem+json")
            for name, example in (content or {"examples": {}})["examples"].items():
                seen.add(name)
                assert int(status) == example["value"]["status"]
                assert [] == refused(example["value"], path, status)
                assert json.loads(encode_problem(PROBLEMS[name])) == example["value"]
    assert set(PROBLEMS) == seen


PLACES = {"market": M, "pool": P, "address": M, "token": M, "protocol": "blend", "run_id": "1-a", "checkpoint": "63"}


@pytest.mark.parametrize("path", [path for path, _, _ in DESCRIBED])
def test_problems_that_are_answered_are_described(path: str) -> None:
    """Every refusal of the rule, and its answer without a file, has a status and a body of the description."""
    parameters = description()["paths"][path]["get"].get("parameters", ())
    for wrong in ("sort", "", *(parameter["name"] for parameter in parameters)):
        places = PLACES | {wrong: "!"}
        query = urlencode({wrong: "!"} if f"{{{wrong}}}" not in path else {})
        answer = route(path.format(**places), query, SIZES)
        problem = answer.missing if isinstance(answer, Served) else answer

        assert [] == refused(msgspec.to_builtins(problem), path, str(problem.status)), wrong


def allowed_by(schema: dict[str, Any]) -> st.SearchStrategy[str]:
    """Values of a parameter that its schema allows, as they are in a URL."""
    if schema["type"] == "integer":
        return st.integers(schema["minimum"], schema["maximum"]).map(str)
    return st.sampled_from(schema["enum"]) if "enum" in schema else st.from_regex(schema["pattern"], fullmatch=True)


@pytest.mark.parametrize(("path", "model"), [row[:2] for row in DESCRIBED])
@examples(fast=8, thorough=2_000)
@given(data=st.data())
def test_what_is_described_is_never_refused(path: str, model: type[Struct], data: st.DataObject) -> None:
    """Whatever values the description allows, the rule takes them, and picks a file of the described model."""
    places: dict[str, str] = {}
    query: dict[str, str] = {}
    for parameter in description()["paths"][path]["get"].get("parameters", ()):
        values = places if parameter["in"] == "path" else query
        values[parameter["name"]] = data.draw(allowed_by(parameter["schema"]))
    without_cursor = {name: value for name, value in query.items() if name != "cursor"}
    for parameters in ({}, query, without_cursor):
        answer = route(path.format(**places), urlencode(parameters), SIZES)
        assert isinstance(answer, Served)
        family = family_of(answer.keys[0])
        assert family is not None
        assert family is YIELDS if path in YIELDS_PATHS else model is family.model


def test_files_next_to_paths_are_as_described(tree: Path) -> None:
    """Each path without an extension has its file under the same name with .json; those that have not are named."""
    row = json.loads((tree / "v1/assets/index.json").read_bytes())["data"][0]
    run = json.loads((tree / "v1/system/status.json").read_bytes())["run_id"]
    tokens = dict.fromkeys(("address", "token"), row["token_address"])
    values = PLACES | row | tokens | {"run_id": run}
    histories = [path for path in description()["paths"] if path.endswith("/history") and path != "/v1/history"]
    listings = {path: f"{path}/index.json" for path in ("/v1", "/v1/assets", "/v1/pools")}
    named = listings | dict.fromkeys(histories, "/history/1d.json")
    for path in description()["paths"].keys() - ADDED:
        file = tree / f"{path.format(**values)[1:]}.json"
        assert file.is_file() == (path not in named and not path.endswith(".json")), path
    for path, text in named.items():
        assert f"`{text}`" in description()["info"]["description"]
        answer = route(path.format(**values), "", SIZES)
        assert isinstance(answer, Served)
        assert answer.keys[0].endswith(text[1:])
        assert (tree / answer.keys[0]).is_file()


def test_a_field_that_may_be_left_out_is_optional(tree: Path) -> None:
    """A field that some document lacks is not required, and has no default, which generators take for its presence."""
    schemas = description()["components"]["schemas"]
    manifest = json.loads((tree / "v1/history.json").read_bytes())

    assert "liquidations" not in manifest.keys() | {*schemas["HistoryManifest"]["required"]}
    assert [] == [
        (model, name)
        for model, schema in schemas.items()
        for name, found in schema["properties"].items()
        if "default" in found
    ]


def test_a_closed_set_of_words_is_an_enum() -> None:
    """Generators of clients make a union of words if no other word ever comes; every other pattern stays."""
    schemas = description()["components"]["schemas"]
    detail = schemas["AssetRewards"]["properties"]["supply_reward_reason"]

    assert [reason.value for reason in RewardReason] == detail["enum"]
    assert "pattern" not in detail
    nullable = schemas["AssetRisk"]["properties"]["liquidation_kind"]["anyOf"]
    assert ["LiquidationKind"] == [part["title"] for part in nullable if "enum" in part]
    assert "pattern" in schemas["PoolSnapshot"]["properties"]["market"]


def test_the_kinds_of_changes_are_a_closed_set(project_root: Path) -> None:
    """A client gets a union of the kinds that docs/api.md describes, and of the kinds of what is queued."""
    schemas = description()["components"]["schemas"]
    page = (project_root / "docs/api.md").read_text().partition("\nKind | When\n")[2].partition("\n\n")[0]
    described = [kind for row in page.splitlines() for kind in re.findall("`([a-z_]+)`", row.partition(" | ")[0])]

    assert sorted(described) == sorted(schemas["RunChange"]["properties"]["kind"]["enum"])
    assert ["terms", "admin", "code", "oracle"] == schemas["PendingChange"]["properties"]["kind"]["enum"]
    assert {*UNITS.values()} == {*schemas["RunChange"]["properties"]["unit"]["anyOf"][0]["enum"]}


def test_the_index_names_every_endpoint(tree: Path) -> None:
    """`/v1` has each path of the description with the names of its parameters, and leads to the description."""
    index = json.loads((tree / "v1/index.json").read_bytes())
    paths = description()["paths"]

    endpoints = {endpoint["path"]: endpoint for endpoint in (*index["endpoints"], *index["later"])}
    assert sorted(paths) == sorted(endpoints)
    assert ADDED == {endpoint["path"] for endpoint in index["later"]}
    assert {"exporter prove", "exporter census"} == {endpoint["added_by"] for endpoint in index["later"]}
    for endpoint in endpoints.values():
        operation = paths[endpoint["path"]]["get"]
        queries = [each["name"] for each in operation.get("parameters", []) if each["in"] == "query"]
        assert queries == endpoint["parameters"]
    assert (tree / "v1" / index["openapi"]).is_file()


@pytest.mark.parametrize("kind", ["tree", pytest.param("mainnet_tree", marks=pytest.mark.slow)])
def test_each_example_is_answered_by_the_tree_that_has_it(kind: str, request: pytest.FixtureRequest) -> None:
    """Each path with its examples, alone and with each example of the query, and each request of the site's pages."""
    tree: Path = request.getfixturevalue(kind)
    asked: list[str] = []
    for path, item in json.loads((tree / "v1/openapi.json").read_bytes())["paths"].items():
        parameters = item["get"].get("parameters", [])
        examples = {each["name"]: each["example"] for each in parameters if "example" in each}
        assert "examples" not in {word for each in parameters for word in each["schema"]}
        asked.append(filled(path, examples))
        asked += [
            f"{asked[-1]}?{urlencode({name: value})}" for name, value in examples.items() if f"{{{name}}}" not in path
        ]
    pages = "".join(page.read_text() for page in tree.glob("api-*.html"))
    asked += re.findall(r"curl '<span [^>]*>[^<]*</span>([^'<]*)'", pages)
    left = {path for path in asked if "{" in path}
    answers = {path: route(*path.partition("?")[::2], SIZES) for path in asked if path not in left | ADDED}

    assert {"/v1/runs/{run_id}", "/v1/risk/{checkpoint}"} == left
    assert len(asked) > 60
    assert [] == [
        path
        for path, answer in answers.items()
        if not isinstance(answer, Served) or not any((tree / key).is_file() for key in answer.keys)
    ]


@pytest.mark.parametrize("kind", ["tree", pytest.param("mainnet_tree", marks=pytest.mark.slow)])
def test_what_a_tree_lists_is_there(kind: str, request: pytest.FixtureRequest) -> None:
    """Each endpoint of `/v1`, each file of the data package and of the history, and each link of the data page."""
    tree: Path = request.getfixturevalue(kind)
    index, manifest, package = (
        json.loads((tree / key).read_bytes()) for key in ("v1/index.json", "v1/history.json", "datapackage.json")
    )
    row = json.loads((tree / "v1/pools/index.json").read_bytes())["data"][0]
    run = json.loads((tree / "v1/system/status.json").read_bytes())["run_id"]
    values = row | dict.fromkeys(("address", "token"), row["token_address"]) | {"run_id": run}
    unanswered = []
    for endpoint in index["endpoints"]:
        answer = route(endpoint["path"].format(**values), "", SIZES)
        if not isinstance(answer, Served) or not any((tree / key).is_file() for key in answer.keys):
            unanswered.append(endpoint["path"])
    files = [path for resource in package["resources"] for path in resource["path"]]
    files += [entry["key"] for entry in (*manifest["files"], *manifest["rollups"])]
    page = (tree / "data.html").read_text()
    files += [link for link in re.findall(r'href="?([^"\s>#?]+)', page) if ":" not in link]

    assert [] == unanswered
    assert len(files) > 10
    assert [] == [file for file in files if not (tree / file).is_file()]


def test_the_text_for_language_models_leads_somewhere(tree: Path) -> None:
    """Each link of the text is a file of a published tree, and so is each file that it names, whatever is filled in."""
    text = render_llms().data.decode()
    links = re.findall(r"\]\(([^)]+)\)", text)
    named = re.findall(r"^- `([^`]+)`: ", text, re.MULTILINE)
    keys = [str(path.relative_to(tree)) for path in tree.rglob("*.json")]
    patterns = {name: re.sub(r"\\{\w+\\}", "[^/]+", re.escape(name)) for name in named}

    assert (tree / "llms.txt").read_text() == text
    assert len(links) > 8
    assert [] == [link for link in links if not (tree / link).is_file()]
    assert len(named) > 20
    assert [] == [name for name, pattern in patterns.items() if not any(re.fullmatch(pattern, key) for key in keys)]
    assert "`v1/assets/{market}/{pool}.json`: One pool" in text
