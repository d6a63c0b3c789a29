"""XOXNO's own repository against what is written here of it: source, lists, and operations that ran on testnet.

Its licence forbids copying, so nothing of it is here: the tests read an unpacked copy, whose folder
``EXPORTER_XOXNO_REPOSITORY`` names, and are skipped without one. Contracts' test snapshots are not in it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from exporter.deployments import deployments_of
from exporter.ledger.codec.entries import PERSISTENT, ContractData, data_key, encode_contract_data
from exporter.ledger.codec.scval import ScVal, decode_scval
from exporter.ledger.codec.scval_encode import struct_map, symbol, u64, vec
from exporter.ledger.codec.xdr_json import xdr_from_json
from exporter.ledger.observation import Entry
from exporter.ledger.source import RawEntry
from exporter.protocols.xoxno import layout
from exporter.protocols.xoxno.layout import HubAsset
from tests.entries import recorded
from tests.protocols.test_quotes import GOOD
from tests.protocols.world import contract

VARIABLE = "EXPORTER_XOXNO_REPOSITORY"
# Read now: the settings of the machine are kept out of the tests.
_FOLDER = os.environ.get(VARIABLE)


@pytest.fixture(scope="module")
def xoxno_repository() -> Path:
    """The folder of an unpacked copy of XOXNO/rs-lending-xlm."""
    if not _FOLDER:
        pytest.skip(f"no copy of XOXNO/rs-lending-xlm is at hand; set {VARIABLE} to its folder")
    if not (Path(_FOLDER) / "contracts" / "pool").is_dir():
        pytest.fail(f"{VARIABLE} names {_FOLDER}, which is not a copy of XOXNO/rs-lending-xlm")
    return Path(_FOLDER)


def struct_fields(xoxno_repository: Path, file: str, name: str) -> set[str]:
    """The fields of a Rust struct."""
    found = re.search(rf"pub struct {name} {{(.*?)\n}}", (xoxno_repository / file).read_text(), re.DOTALL)
    assert found is not None, name
    return set(re.findall(r"^    pub (\w+):", found[1], re.MULTILINE))


def names_of(value: ScVal) -> set[str]:
    """The fields of a struct's value."""
    return {name for (_, name), _ in value[1]}


@pytest.mark.parametrize(
    ("file", "name", "value"),
    [
        ("common/src/types/pool.rs", "MarketParamsRaw", recorded("Params")),
        ("common/src/types/pool.rs", "PoolStateRaw", recorded("State")),
        (
            "common/src/types/oracle.rs",
            "PriceStatus",
            struct_map({name: value for name, value in GOOD.items() if value is not None}),
        ),
        ("common/src/types/composable_oracle.rs", "AssetOracle", recorded("Oracle", "max_price_stale_seconds")),
    ],
)
def test_structs(xoxno_repository: Path, file: str, name: str, value: ScVal) -> None:
    """Recorded values have the fields of the source, no more and no less."""
    assert struct_fields(xoxno_repository, file, name) == names_of(value)


def test_keys_of_the_controller(xoxno_repository: Path) -> None:
    """All keys without values that the controller has are configuration here, with the pausable module's."""
    source = (xoxno_repository / "common/src/types/controller.rs").read_text()
    found = re.search(r"pub enum ControllerKey {(.*?)\n}", source, re.DOTALL)
    assert found is not None

    assert {*re.findall(r"^    (\w+),", found[1], re.MULTILINE), "Paused"} == set(layout.CONFIGURATION)


def test_quotes_answer_a_map(xoxno_repository: Path) -> None:
    """The interface, as far as it is relied on."""
    interface = (xoxno_repository / "interfaces/price-aggregator/src/lib.rs").read_text()

    assert "fn quotes(env: Env, keys: Vec<PriceKey>) -> Map<PriceKey, PriceStatus>;" in interface


def operations(xoxno_repository: Path, function: str) -> Iterator[dict[str, Any]]:
    """The operations of that function that were recorded as executed."""
    for file in sorted((xoxno_repository / "configs" / "ops").glob("*/*.json")):
        operation = json.loads(file.read_text())
        if operation["function"] == function and operation["executed"]:
            yield operation


def test_parameters_that_ran(xoxno_repository: Path) -> None:
    """Parameters of hub markets that were made on testnet decode to their numbers."""
    count = 0
    for operation in operations(xoxno_repository, "create_liquidity_pool"):
        hub, token, parameters = (decode_scval(xdr_from_json("SCVal", item)) for item in operation["args"])
        key = layout.parameters_key(contract("pool"), HubAsset(hub[1], token[1]))
        data = ContractData(
            contract("pool"), vec(symbol("Params"), HubAsset(hub[1], token[1]).value()), PERSISTENT, parameters
        )
        decoded = layout.decode_parameters(Entry(key, RawEntry(encode_contract_data(data), 1, 100)))
        given = {
            item["key"]["symbol"]: int(next(iter(item["val"].values())))
            for item in operation["args"][2]["map"]
            if item["key"]["symbol"] in decoded.numbers
        }
        assert given == decoded.numbers
        assert token[1] == decoded.token
        count += 1
    assert count >= 20


def limits_of(oracle: dict[str, Any]) -> list[int]:
    """The limits of age of a configuration's feeds."""
    feeds = [source.get("Feed") or source.get("Scaled", {}).get("factor") for source in oracle["sources"]]
    return [feed["max_stale_seconds"] for feed in feeds if feed]


def test_limits_of_age(xoxno_repository: Path) -> None:
    """Every token has its own limit, of 60 to 86,400 s and no narrower than its feeds', and it is read as it is."""
    oracles = [operation["resolve"]["args"]["oracle"] for operation in operations(xoxno_repository, "set_oracle")]
    listed = json.loads((xoxno_repository / "configs/mainnet/markets.json").read_text())
    oracles += [market["oracle"] for market in (*listed["references"], *listed["markets"])]
    for oracle in oracles:
        limit = oracle["max_price_stale_seconds"]
        assert 60 <= limit <= 86_400
        assert all(feed <= limit for feed in limits_of(oracle))
        key = vec(symbol("Oracle"), layout.price_key(contract("A")))
        data = ContractData(contract("B"), key, PERSISTENT, struct_map({"max_price_stale_seconds": u64(limit)}))
        entry = Entry(data_key(contract("B"), key), RawEntry(encode_contract_data(data), 1, 100))
        assert limit == layout.decode_max_age(entry)
    assert len({oracle["max_price_stale_seconds"] for oracle in oracles}) > 1


@pytest.mark.parametrize("network", ["mainnet", "testnet"])
def test_the_list_of_pools(xoxno_repository: Path, network: str) -> None:
    """The package's list for a network has the repository's hub markets, with their decimals."""
    listed = json.loads((xoxno_repository / f"configs/{network}/markets.json").read_text())["markets"]
    (deployment,) = (item for item in deployments_of(network) if item.protocol == "xoxno")
    ours = {(pool.pool, pool.decimals) for pool in deployment.pools}

    assert {
        (f"{market['hub_id']}-{market['asset_address']}", market["oracle"]["asset_decimals"]) for market in listed
    } <= ours


def test_the_addresses(xoxno_repository: Path) -> None:
    """The package's contracts of testnet are those of the repository."""
    networks = json.loads((xoxno_repository / "configs/networks.json").read_text())
    (testnet,) = (item for item in deployments_of("testnet") if item.protocol == "xoxno")
    names = {"market": "controller", "pool": "pool", "price_aggregator": "price_aggregator"}

    assert {networks["testnet"][name] for name in names.values()} == {testnet.address(role) for role in names}
