"""Validating documents against the schemas of the tree's own OpenAPI document."""

from __future__ import annotations

import re
from typing import Any

import pytest

from exporter.check.faults import TreeFaultsError
from exporter.check.schemas import Schemas
from exporter.errors import CheckError
from tests.check.trees import change, check, lie, seal, small_tree

OPENAPI = "v1/openapi.json"


def faults(schema: dict[str, Any], value: Any) -> list[str]:
    """What is wrong with a value by a schema."""
    return list(Schemas({"Thing": schema, "Other": {"type": "string"}}).faults("Thing", value))


def test_the_place_is_named() -> None:
    """A fault says where in the document it is."""
    schema = {"properties": {"data": {"items": {"properties": {"n": {"type": "integer"}}}}}}

    assert ['is not as the OpenAPI document says: $.data[1].n: "1" is not of type "integer"'] == faults(
        schema, {"data": [{"n": 1}, {"n": "1"}]}
    )


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "text"},
        {"pattern": "("},
        {"$ref": "#/components/schemas/Nothing"},
        {"$ref": "https://elsewhere/schema"},
        {"items": 3},
    ],
)
def test_unknown_schemas_are_refused(schema: dict[str, Any]) -> None:
    """What is no schema, or refers to what is not in the document, is refused; nothing is fetched for it."""
    with pytest.raises(CheckError, match="Thing"):
        Schemas({"Thing": schema})


def test_patterns_end_soon() -> None:
    """A pattern with which other engines would be busy for years is done at once."""
    schema = {"pattern": "^(a+)+$"}

    assert [] == faults(schema, "a" * 40)
    assert 1 == len(faults(schema, "a" * 40 + "b"))


class TestTree:
    """Whole trees."""

    def named(self, files: dict[str, bytes], key: str, text: str) -> None:
        with pytest.raises(TreeFaultsError) as caught:
            check(files)
        found = [str(fault) for fault in caught.value.faults]
        assert any(re.match(f"{re.escape(key)}.*: .*{text}", fault) for fault in found), found

    def test_every_document_is_validated(self) -> None:
        """The documents of a good tree are validated, those with the same bytes once."""
        looked = check(small_tree(3))

        assert 40 < looked.validated <= sum(looked.documents.values())

    def test_documents_and_schemas_disagree(self) -> None:
        """A schema that the documents do not fit is found, although they fit their models."""
        files = small_tree(3)

        def stricter(document: Any) -> None:
            document["components"]["schemas"]["PoolSnapshot"]["properties"]["symbol"]["pattern"] = "^NONE$"

        lie(files, OPENAPI, stricter)
        self.named(files, "v1/assets/index.json", "is not as the OpenAPI document says: .*symbol: .* does not match")
        self.named(files, OPENAPI, "is not the description of the documents of this version")

    def test_schemas_that_cannot_be_used(self) -> None:
        """An OpenAPI document without schemas that can be used is named."""
        files = small_tree(3)
        change(files, OPENAPI, lambda document: document["components"].pop("schemas"))
        seal(files)

        self.named(files, OPENAPI, "its schemas cannot be used")

    def test_missing(self) -> None:
        """A tree has an OpenAPI document."""
        files = small_tree(3)
        del files[OPENAPI]
        seal(files)

        self.named(files, OPENAPI, "is missing")
