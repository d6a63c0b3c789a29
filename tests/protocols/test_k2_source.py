"""K2 against its published source: names, types and bits, as the source's own text has them.

No entries that K2's contracts wrote are public, and no code of theirs. The source has no licence, so it is not in the
repository either: its files are in the folder ``k2`` of the real data (scripts/test-real), one folder a crate.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from exporter.ledger.codec import scval
from exporter.ledger.codec.scval import ContractInstance, ScVal
from exporter.protocols.k2 import layout
from tests.entries import name_of, recorded, recorded_instance

KINDS = {
    "u128": scval.U128,
    "i128": scval.I128,
    "u64": scval.U64,
    "u32": scval.U32,
    "Address": scval.ADDRESS,
    "String": scval.STRING,
    "ReserveConfiguration": scval.MAP,
}


@pytest.fixture(scope="module")
def source(real_data: Path) -> Path:
    """The folder of K2's source."""
    folder = real_data / "k2"
    if not folder.is_dir():
        pytest.skip(f"K2's source is not at {folder}; scripts/test-real --fetch DIR brings it")
    return folder


def fields(source: Path, file: str, struct: str) -> dict[str, int]:
    """The kinds of a struct's fields, in ascending order of their names."""
    found = re.search(rf"pub struct {struct} \{{(.*?)\n\}}", (source / file).read_text(), re.DOTALL)
    assert found is not None
    pairs = re.findall(r"^    pub (\w+): (\w+),", found[1], re.MULTILINE)
    return {name: KINDS[kind] for name, kind in sorted(pairs)}


def kinds(value: ScVal) -> dict[str, int]:
    """The kinds of the fields of a stored struct, in their order."""
    return {name: kind for (_, name), (kind, _) in value[1]}


def storage_of(instance: ContractInstance) -> dict[str, ScVal]:
    """An instance's storage by the symbols of its keys, bare or of a variant."""
    return {name_of(key): value for key, value in instance.storage or ()}


def test_structs(source: Path) -> None:
    """Every struct of the recording has the fields of the source, each of its kind, and no other."""
    stored = recorded("RDATA")
    configuration = next(value for key, value in stored[1] if key[1] == "configuration")
    supply, debt = (
        storage_of(recorded_instance("State", field=total))["State"]
        for total in ("total_supply_scaled", "total_debt_scaled")
    )

    assert fields(source, "shared/types.rs", "ReserveData") == kinds(stored)
    assert fields(source, "shared/types.rs", "ReserveConfiguration") == kinds(configuration)
    assert fields(source, "a-token/storage.rs", "ATokenState") == kinds(supply)
    assert fields(source, "debt-token/storage.rs", "DebtTokenState") == kinds(debt)
    assert fields(source, "interest-rate-strategy/storage.rs", "InterestRateParams") == kinds(recorded("APARAMS"))


def test_keys(source: Path) -> None:
    """Every key that is read or written is one of the source's."""
    text = (source / "kinetic-router/storage.rs").read_text()
    known = set(re.findall(r'symbol_short!\("(\w+)"\)', text))
    rates = set(re.findall(r'symbol_short!\("(\w+)"\)', (source / "interest-rate-strategy/storage.rs").read_text()))

    assert {
        "RLIST",
        "RDATA",
        "PSTALE",
        "ASTALMP",
        "ORACFG",
        "INIT",
        "ORACLE",
        "PADMIN",
        "PAUSED",
        "PCONFIG",
        "TREASURY",
    } <= known
    assert layout.NOT_CONFIGURATION <= known
    assert {"APARAMS", "ADMIN", "BVR", "OU", "VS1", "VS2"} <= rates


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
        name: (word, first, bits)
        for word, table in (("data_low", layout._LOW_BITS), ("data_high", layout._HIGH_BITS))
        for name, (first, bits, _) in table.items()
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
