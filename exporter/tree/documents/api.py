"""The index of the API, and its description (OpenAPI)."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Struct

from exporter.tree.values import FileReference, Words, doc


class Endpoint(Struct, frozen=True, forbid_unknown_fields=True):
    """A path of the API, with a sentence about it."""

    path: Annotated[str, doc("The path, with names in braces that a client replaces by values.")]
    parameters: Annotated[list[Words], doc("Names of the parameters that the path's query may have.")]
    summary: Annotated[str, doc("What the path answers with.")]


class LaterEndpoint(Endpoint, frozen=True, forbid_unknown_fields=True):
    """A path that answers 404 until a command has added its first file."""

    added_by: Annotated[str, doc("The command that adds it, such as `exporter prove`.")]


class ApiIndex(Struct, frozen=True, forbid_unknown_fields=True):
    """The endpoints of the API. `/v1/openapi.json` describes them in full."""

    endpoints: Annotated[list[Endpoint], doc("The endpoints that every tree has, in the order of the description.")]
    later: Annotated[list[LaterEndpoint], doc("Endpoints that a tree has once a command added their files.")]
    openapi: Annotated[FileReference, doc("Where the description is, relative to this document.")]


class OpenApiDocument(Struct, frozen=True, forbid_unknown_fields=True):
    """The description of the API itself (OpenAPI 3.1)."""

    openapi: Annotated[str, doc("The version of OpenAPI.")]
    info: Annotated[dict[str, Any], doc("The API's title, version and description.")]
    servers: Annotated[list[dict[str, Any]], doc("The URLs at which the API is served.")]
    tags: Annotated[list[dict[str, Any]], doc("The groups of paths.")]
    paths: Annotated[dict[str, dict[str, Any]], doc("The paths that a client can ask for.")]
    components: Annotated[dict[str, dict[str, Any]], doc("The schemas of all documents.")]
    security: Annotated[list[dict[str, Any]], doc("Empty, because nobody needs a key.")]
