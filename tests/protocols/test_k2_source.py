"""K2 against its published source: bits and limits that the states of test_contract_states have one value of.

The source has no licence, so it is not in the repository: its files are in the folder ``k2`` of the real data
(scripts/test-real), one folder a crate.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from exporter.protocols.k2 import layout


@pytest.fixture(scope="module")
def source(real_data: Path) -> Path:
    """The folder of K2's source."""
    folder = real_data / "k2"
    if not folder.is_dir():
        pytest.skip(f"K2's source is not at {folder}; scripts/test-real --fetch DIR brings it")
    return folder


def test_bits(source: Path) -> None:
    """The bits of the configuration are where the source's own readers take them from."""
    text = (source / "shared/utils.rs").read_text()
    found = {
        name: (word, int(first or 0), int(mask or "1", 0).bit_length())
        for name, word, first, mask in re.findall(
            r"pub fn (?:get_|is_)(\w+)\(&self\) -> \w+ \{\s+\(?\(?self\.(data_\w+)(?: >> (\d+)\))? & (0x\w+|1\b)", text
        )
    }
    read = {
        name: ("data_high" if first >= 128 else "data_low", first % 128, bits)
        for name, (first, bits, _) in layout.BITS.items()
    }

    assert found == read


def test_limits_of_age(source: Path) -> None:
    """The asset's limit goes before the router's, which is an hour unless it is set, and none is above a day."""
    storage = (source / "kinetic-router/storage.rs").read_text()
    rule = (source / "kinetic-router/price.rs").read_text()
    constants = (source / "shared/constants.rs").read_text()
    (default,) = re.findall(r"\.get\(&PRICE_STALENESS_THRESHOLD\)\s+\.unwrap_or\((\d+)\)", storage)
    own, shared = (rule.index(f"get_{name}staleness_threshold(env") for name in ("asset_", "price_"))

    assert layout.DEFAULT_PRICE_AGE == int(default)
    assert own < shared
    assert (
        "let map: Map<Address, u64> = env.storage()\n        .instance()\n        .get(&ASSET_STALENESS_MAP)" in storage
    )
    assert "if age > staleness_threshold" in rule
    assert "MAX_PRICE_STALENESS_THRESHOLD: u64 = 86400;" in constants
