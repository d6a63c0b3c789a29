"""Answers are decoded strictly: whatever bytes an endpoint sends, they are the documented thing or unusable."""

from __future__ import annotations

import json
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stellar_sdk import Asset, Keypair, MuxedAccount, xdr
from stellar_sdk import scval as sdk

from exporter.errors import DecodeError
from exporter.ledger.codec.entries import data_key
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import symbol
from exporter.ledger.rpc import wire
from exporter.ledger.rpc.endpoints import UNUSABLE, AttemptError
from exporter.ledger.rpc.wire import footprint_parts, invocation_envelope
from exporter.ledger.source import ContractCall
from tests.ledger.codec.scval_cases import contracts, scvals, symbols, to_sdk
from tests.ledger.rpc import fake_rpc as fake
from tests.ledger.rpc.fake_rpc import FakeRpc, key, made_entry
from tests.localnet.conformance import recorded_questions

KEYS = {fake.b64(key(number)): key(number) for number in range(3)}
ENTRIES = FakeRpc(entries={name: made_entry(3) for name in KEYS.values()}).get_ledger_entries(
    {"keys": list(KEYS)}, fake.LEDGER
)
SIMULATION = {
    "result": {
        "latestLedger": 1_000,
        "transactionData": fake.b64(fake.transaction_data(key(1), key(2))),
        "results": [{"xdr": "AAAAAwAAACo=", "auth": []}],
    }
}


def reply(fields: dict[str, Any], request_id: Any = 7) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": request_id} | fields).encode()


def problem(body: bytes) -> str:
    with pytest.raises(AttemptError) as caught:
        wire.decode_reply(body, wire.NETWORK, 7)
    assert UNUSABLE == caught.value.failure.name
    assert None is caught.value.__cause__
    return caught.value.failure.text


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "the answer is not as documented: Input data was truncated"),
        (reply({"result": {"passphrase": "x"}}) + b"x", "the answer is not as documented: JSON is malformed"),
        (b'{"id":7,"result":{"passphrase":"\xff"}}', "the answer is not as documented: 'utf-8' codec"),
        (b'{"id":7,"other":' + b"[" * 10**6, "the answer is not as documented: maximum recursion depth exceeded"),
        (b"[]", "the answer is not as documented: Expected `object`, got `array`"),
        (reply({"result": {}}), "the answer is not as documented: Object missing required field `passphrase`"),
        (reply({"result": {"passphrase": ""}}), "the answer is not as documented: Expected `str` of length >= 1"),
        (reply({"result": None}), "the answer must have a result or an error"),
        (reply({"result": {"passphrase": "x"}, "error": {"code": 1, "message": ""}}), "the answer must have a result"),
        (reply({"result": {"passphrase": "x"}}, 8), "the answer is to another request"),
        (reply({"result": {"passphrase": "x"}}, None), "the answer is to another request"),
        (reply({"result": {"passphrase": "x"}}, "7"), "the answer is to another request"),
        (reply({"error": {"code": 1, "message": "x"}}, 8), "the answer is to another request"),
        (reply({"error": {"code": 10**30, "message": "x"}}), "the answer is not as documented"),
    ],
)
def test_a_reply_is_json_rpc_to_our_request(body: bytes, words: str) -> None:
    """Anything else than JSON-RPC 2.0 with our id and one of result and error is unusable, in words of our own."""
    assert problem(body).startswith(words)


@pytest.mark.parametrize("request_id", [7, None])
def test_an_error_is_distinguished_from_a_broken_answer(request_id: int | None) -> None:
    """A JSON-RPC error keeps its code and message, also without the id of a request that could not be read."""
    with pytest.raises(AttemptError) as caught:
        wire.decode_reply(reply({"error": {"code": -32700, "message": "m"}}, request_id), wire.NETWORK, 7)

    assert ("rpc -32700", "error -32700: m") == (caught.value.failure.name, caught.value.failure.text)


PASSING = {"entries empty", "entries no params", "number"}
"""The wrong questions that the client would ask again; to all others it takes no for an answer."""


def test_a_request_is_repeated_only_if_that_may_help(real_data: Path) -> None:
    """Each error of a real server is an error of the client, and is repeated only if that may help."""
    found = set()
    for name, item in recorded_questions(real_data).items():
        body = json.loads(item["body"]) if "json" in item["headers"].get("content-type", "") else None
        if item["status"] == 200 and isinstance(body, dict) and "error" in body:
            with pytest.raises(AttemptError) as caught:
                wire.decode_reply(item["body"].encode(), wire.ENTRIES, body["id"])
            assert body["error"]["message"] in caught.value.failure.text
            if not caught.value.failure.lasting:
                found.add(name)

    assert found == PASSING


# The path in a JSON document at which something is replaced, and the replacement.
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["AAAA", "AAAAAQ==", *KEYS]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["entries", "key", "xdr", "latestLedger", "results", "error"]), inner, max_size=3
        )
    ),
    max_leaves=5,
)


def paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(deeper for name, each in inner for deeper in paths(each, (*path, name)))]


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replaced(value[path[0]], path[1:], new)
    return copy


def changed(answer: dict[str, Any], data: st.DataObject) -> bytes:
    """An answer in which anything replaces one of the parts."""
    whole = {"jsonrpc": "2.0", "id": 7, **answer}
    return json.dumps(replaced(whole, data.draw(st.sampled_from(paths(whole))), data.draw(json_values))).encode()


@given(st.data())
def test_a_changed_answer_is_sound_or_unusable(data: st.DataObject) -> None:
    """Whatever is replaced in an answer, an accepted one has only entries of asked keys, and sane ledgers."""
    with suppress(AttemptError):
        result = wire.decode_reply(changed(ENTRIES, data), wire.ENTRIES, 7)
        entries = wire.entries_of(result, KEYS.values())
        assert 1 <= result.latest_ledger < 2**32
        assert set(KEYS.values()) >= set(entries)
        for raw in entries.values():
            assert 1 <= raw.last_modified <= result.latest_ledger
            assert raw.live_until is None or 0 <= raw.live_until < 2**32
            assert 0 == len(raw.data) % 4
    with suppress(AttemptError):
        value, footprint = wire.call_parts(wire.decode_reply(changed(SIMULATION, data), wire.SIMULATION, 7))
        assert 0 == len(value) % 4
        assert all(0 == len(name) % 4 for name in footprint)


# Simulated calls, with stellar-sdk as the judge -----------------------------------------------------------------

NOBODY = "GAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAWHF"
ORACLE = "CATKK5ZNJCKQQWTUWIUFZMY6V6MOQUGSTFSXMNQZHVJHYF7GVV36FB3Y"
USDC = "CCW67TSZV3SSS2HXMBQ5JFGCKJNXKZM7UQUWUZPUTHXSTZLEO7SJMI75"


@given(contracts, symbols, st.lists(scvals, max_size=4).map(tuple))
def test_the_sdk_reads_the_envelope_as_the_call(contract: str, function: str, arguments: tuple[ScVal, ...]) -> None:
    """stellar-sdk reads the envelope as one unsigned invocation with these arguments; its bytes are canonical."""
    data = invocation_envelope(ContractCall(contract, function, arguments))

    envelope = xdr.TransactionEnvelope.from_xdr_bytes(data)
    assert data == envelope.to_xdr_bytes()
    assert envelope.v1 is not None
    assert [] == envelope.v1.signatures
    transaction = envelope.v1.tx
    assert NOBODY == MuxedAccount.from_xdr_object(transaction.source_account).account_id
    assert xdr.MemoType.MEMO_NONE == transaction.memo.type
    assert 1 == len(transaction.operations)
    body = transaction.operations[0].body.invoke_host_function_op
    assert body is not None
    assert [] == body.auth
    invocation = body.host_function.invoke_contract
    assert invocation is not None
    assert sdk.to_address(contract).address == invocation.contract_address
    assert function.encode() == invocation.function_name.sc_symbol
    assert [to_sdk(argument) for argument in arguments] == invocation.args


def _transaction_data(
    read_only: list[xdr.LedgerKey], read_write: list[xdr.LedgerKey], archived: list[int] | None = None
) -> bytes:
    extension = xdr.SorobanTransactionDataExt(0)
    if archived is not None:
        indexes = [xdr.Uint32(index) for index in archived]
        extension = xdr.SorobanTransactionDataExt(1, resource_ext=xdr.SorobanResourcesExtV0(indexes))
    resources = xdr.SorobanResources(
        footprint=xdr.LedgerFootprint(read_only, read_write),
        instructions=xdr.Uint32(400_000_000),
        disk_read_bytes=xdr.Uint32(1),
        write_bytes=xdr.Uint32(2),
    )
    return xdr.SorobanTransactionData(extension, resources, xdr.Int64(2**40)).to_xdr_bytes()


def _key(contract: str, value: ScVal) -> xdr.LedgerKey:
    return xdr.LedgerKey.from_xdr_bytes(data_key(contract, value))


def _keys_of_other_kinds() -> list[xdr.LedgerKey]:
    account = Keypair.from_raw_ed25519_seed(bytes(32)).xdr_account_id()
    issuer = Keypair.from_raw_ed25519_seed(bytes(31) + b"\1").public_key
    assets = [
        Asset.native().to_trust_line_asset_xdr_object(),
        Asset("USDC", issuer).to_trust_line_asset_xdr_object(),
        Asset("USDCAllow", issuer).to_trust_line_asset_xdr_object(),
        xdr.TrustLineAsset(
            xdr.AssetType.ASSET_TYPE_POOL_SHARE, liquidity_pool_id=xdr.PoolID(xdr.Hash(bytes(range(32))))
        ),
    ]
    kinds = xdr.LedgerEntryType
    return [
        xdr.LedgerKey(kinds.CONTRACT_CODE, contract_code=xdr.LedgerKeyContractCode(xdr.Hash(bytes(32)))),
        xdr.LedgerKey(kinds.TTL, ttl=xdr.LedgerKeyTtl(xdr.Hash(bytes(32)))),
        xdr.LedgerKey(kinds.ACCOUNT, account=xdr.LedgerKeyAccount(account)),
        *(xdr.LedgerKey(kinds.TRUSTLINE, trust_line=xdr.LedgerKeyTrustLine(account, asset)) for asset in assets),
    ]


sdk_keys = st.builds(_key, contracts, scvals) | st.sampled_from(_keys_of_other_kinds())


@given(st.lists(sdk_keys, max_size=5), st.lists(sdk_keys, max_size=3))
def test_footprints_of_the_sdk_are_read(read_only: list[xdr.LedgerKey], read_write: list[xdr.LedgerKey]) -> None:
    """Every key of a footprint that stellar-sdk encoded comes out, the read-only ones first."""
    expected = tuple(key.to_xdr_bytes() for key in (*read_only, *read_write))

    assert expected == sum(footprint_parts(_transaction_data(read_only, read_write)), ())
    assert expected == sum(footprint_parts(_transaction_data(read_only, read_write, list(range(len(read_write))))), ())


@pytest.mark.parametrize("archived", [None, [0]])
def test_every_truncation_of_transaction_data_is_an_error(archived: list[int] | None) -> None:
    """Transaction data that is cut anywhere, or followed by anything, raises DecodeError."""
    data = _transaction_data([_key(ORACLE, symbol("a")), *_keys_of_other_kinds()], [_key(USDC, symbol("b"))], archived)

    for length in range(len(data)):
        with pytest.raises(DecodeError):
            sum(footprint_parts(data[:length]), ())
    with pytest.raises(DecodeError, match="unknown layout"):
        sum(footprint_parts(data + b"\0\0\0\0"), ())


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (struct.pack(">I", 2) + bytes(80), "unknown extension of transaction data: 2"),
        (struct.pack(">II", 0, 2**32 - 1) + bytes(80), "the bytes end inside the transaction data"),
        (struct.pack(">II", 1, 2**32 - 1) + bytes(80), "does not fit"),
        (struct.pack(">III", 0, 1, 10) + bytes(80), "unknown kind of ledger key: 10"),
    ],
)
def test_hostile_transaction_data_is_refused(data: bytes, message: str) -> None:
    """Unknown extensions, huge counts and impossible keys raise DecodeError at once."""
    with pytest.raises(DecodeError, match=message):
        sum(footprint_parts(data), ())
