"""The types of values that documents share."""

from __future__ import annotations

import re

import msgspec
import pytest

from exporter.tree.values import AccountAddress, ContractAddress


@pytest.mark.parametrize("kind", [ContractAddress, AccountAddress])
def test_an_address_is_described_by_an_example_that_fits(kind: type[str]) -> None:
    """The API's description shows what an address looks like, and the example is one."""
    schema = msgspec.json.schema(kind)

    assert schema["examples"]
    assert all(re.fullmatch(schema["pattern"], example) for example in schema["examples"])
