"""simulateTransaction over the embedded server, with envelopes of the exporter and of stellar-sdk."""

from __future__ import annotations

from typing import Any

import pytest
from stellar_sdk import Account, Asset, Keypair, Network, TransactionBuilder, xdr
from stellar_sdk import scval as sdk

from exporter.ledger.codec import entries
from exporter.ledger.codec.scval import decode_scval
from exporter.ledger.codec.scval_encode import u32
from exporter.ledger.rpc.wire import footprint_parts
from exporter.localnet.made import MadeNetwork
from exporter.localnet.made_assets import FeedKind
from tests.localnet.rpc_client import LocalRpc, stellar_asset, text

NOBODY = "GAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAWHF"


@pytest.fixture(scope="module")
def network() -> MadeNetwork:
    """A made network of some size."""
    return MadeNetwork(pools=300)


@pytest.fixture(scope="module")
def rpc(network: MadeNetwork) -> LocalRpc:
    """A server over it."""
    return LocalRpc(network)


def test_a_result_has_its_value_and_its_footprint(rpc: LocalRpc, network: MadeNetwork) -> None:
    """A call gives the ScVal, the fee as a string, and transaction data whose footprint has the keys it read."""
    feed = network.feeds[0]
    result = rpc.simulate(feed.oracle.contract, "lastprice", stellar_asset(feed.token))

    assert {"latestLedger", "minResourceFee", "transactionData", "events", "results"} == set(result)
    assert network.chain.latest == result["latestLedger"]
    assert isinstance(result["minResourceFee"], str)
    (only,) = result["results"]
    assert feed.scaled_price() == sdk.to_native(only["xdr"])["price"]  # type: ignore[index, call-overload]
    data = xdr.SorobanTransactionData.from_xdr(result["transactionData"])
    read_only = [key.to_xdr_bytes() for key in data.resources.footprint.read_only]
    assert [] == data.resources.footprint.read_write
    assert tuple(read_only) == sum(footprint_parts(data.to_xdr_bytes()), ())
    assert entries.instance_key(feed.oracle.contract) in read_only
    assert feed.key in read_only


def test_a_trap_is_a_result_with_an_error(rpc: LocalRpc, network: MadeNetwork) -> None:
    """A failing call has no results and no transaction data, but an error of the host and the ledger."""
    feed = next(feed for feed in network.feeds if feed.kind is FeedKind.UNKNOWN)
    result = rpc.simulate(feed.oracle.contract, "lastprice", stellar_asset(feed.token))

    assert {"error", "events", "latestLedger"} == set(result)
    assert result["error"].startswith("HostError: Error(Contract, #2)")
    assert "trap" == rpc.behaviour.calls[-1].outcome


def test_the_result_as_json(rpc: LocalRpc, network: MadeNetwork) -> None:
    """With xdrFormat json the value and the transaction data are XDR-JSON."""
    result = rpc.simulate(network.oracles[1].contract, "decimals", xdrFormat="json")

    assert [{"authJson": [], "returnValueJson": {"u32": 14}}] == result["results"]
    assert 2 == len(result["transactionDataJson"]["resources"]["footprint"]["read_only"])
    assert "transactionData" not in result


def _built(*operations: str, memo: str | None = None, source: str = NOBODY) -> str:
    builder = TransactionBuilder(Account(source, 0), Network.STANDALONE_NETWORK_PASSPHRASE, base_fee=100)
    for contract in operations:
        if contract == "payment":
            builder.append_payment_op(Keypair.random().public_key, Asset.native(), "1")
        elif contract == "upload":
            builder.append_upload_contract_wasm_op(b"\0asm")
        else:
            builder.append_invoke_contract_function_op(contract, "decimals", [])
    if memo is not None:
        builder.add_text_memo(memo)
    return builder.set_timeout(0).build().to_xdr()


def test_an_envelope_that_the_sdk_built_runs(rpc: LocalRpc, network: MadeNetwork) -> None:
    """What stellar-sdk builds is simulated as well, from any source account."""
    for source in (NOBODY, Keypair.random().public_key):
        transaction = _built(network.oracles[0].contract, source=source)
        (only,) = rpc.result("simulateTransaction", transaction=transaction)["results"]

        assert u32(7) == decode_scval(xdr.SCVal.from_xdr(only["xdr"]).to_xdr_bytes())


ORACLE = MadeNetwork(pools=0).oracles[0].contract


@pytest.mark.parametrize(
    ("params", "error"),
    [
        ({}, "Could not unmarshal transaction"),
        ({"transaction": ""}, "Could not unmarshal transaction"),
        ({"transaction": 5}, "Could not unmarshal transaction"),
        ({"transaction": "AAAA"}, "Could not unmarshal transaction"),
        ({"transaction": _built(ORACLE)[:-8]}, "Could not unmarshal transaction"),
        ({"transaction": _built(ORACLE, ORACLE)}, "Transaction contains more than one operation"),
        ({"transaction": _built()}, "Transaction contains more than one operation"),
        ({"transaction": _built(ORACLE, memo="hello")}, "Transaction contains a memo"),
        ({"transaction": _built("payment")}, "Transaction contains unsupported operation type: PAYMENT"),
        ({"transaction": _built("upload")}, "HostError: Error(Value, InvalidInput)"),
        ({"transaction": _built(ORACLE), "xdrFormat": "xml"}, "got 'xml': expected base64, json"),
        ({"transaction": _built(ORACLE), "authMode": "trust"}, "optional 'authMode' must be one of"),
    ],
)
def test_transactions_that_cannot_be_simulated(rpc: LocalRpc, params: dict[str, Any], error: str) -> None:
    """Unusable transactions are results with an error, and no JSON-RPC errors (docs/rpc.md, "Simulation")."""
    result = rpc.result("simulateTransaction", **params)

    assert result["error"].startswith(error)
    assert "results" not in result


def test_archived_entries_are_in_the_write_footprint() -> None:
    """A call that reads an archived entry works, and its transaction data says what would be restored."""
    network = MadeNetwork(pools=3)
    token = network.tokens[4]
    key, _ = token.instance_entry()
    stored = network.chain.entry(key, network.chain.latest)
    assert stored is not None
    from exporter.localnet.chain import Change

    network.chain.close([Change(key, stored.data, network.chain.latest + 1)], close_time=1_794_996_005)
    network.advance()

    result = LocalRpc(network).simulate(token.contract, "decimals")
    data = xdr.SorobanTransactionData.from_xdr(result["transactionData"])
    assert [key] == [written.to_xdr_bytes() for written in data.resources.footprint.read_write]
    assert data.ext.resource_ext is not None
    assert [0] == [index.uint32 for index in data.ext.resource_ext.archived_soroban_entries]
    assert text(key) == data.resources.footprint.read_write[0].to_xdr()
