"""Validating documents against the schemas that the tree itself publishes in its OpenAPI document.

Documents are read by the models that the schemas are made from, too; but clients have only the schemas, and these must
hold on their own. So this knows none of the models.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema_rs

from exporter.errors import CheckError

MAX_FAULTS = 20
"""So many faults of one document are named."""


class Schemas:
    """The schemas of an OpenAPI document, by name. They are a stranger's: none is fetched, every pattern ends soon."""

    def __init__(self, components: Mapping[str, Any]) -> None:
        """Compile them. Raises `CheckError` for one that is no schema, or that refers to none of the others."""
        self._validators = {}
        for name, schema in components.items():
            if not isinstance(schema, dict):
                raise CheckError(f"$.components.schemas: {name} is no schema")
            try:
                self._validators[name] = jsonschema_rs.Draft202012Validator(
                    {**schema, "components": {"schemas": components}},
                    offline=True,
                    pattern_options=jsonschema_rs.RegexOptions(),  # of all its engines the one that never goes back
                )
            except ValueError as error:
                raise CheckError(f"$.components.schemas: {name} is not known here: {_first_line(error)}") from error

    def __contains__(self, name: str) -> bool:
        return name in self._validators

    def faults(self, name: str, value: Any) -> Iterator[str]:
        """What is wrong with a decoded JSON value by the schema of a name."""
        for count, error in enumerate(self._validators[name].iter_errors(value)):
            if count == MAX_FAULTS:
                return
            place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.instance_path)
            yield f"is not as the OpenAPI document says: ${place}: {_first_line(error)}"


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
