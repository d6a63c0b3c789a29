"""Every walk ends where the structure ends: an arm whose length is wrong would shift all that follows it."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from stellar_sdk import xdr

from exporter.errors import DecodeError
from exporter.ledger.codec import xdr_walk
from exporter.ledger.codec.entries import key_of_entry
from tests.ledger.codec.made_xdr import made

EACH = 12
"""Values of each kind. They differ in arms, optional fields and lengths."""


def sources() -> Iterator[random.Random]:
    return map(random.Random, range(EACH))


def entry_of(kind: xdr.LedgerEntryType, source: random.Random) -> xdr.LedgerEntry:
    entry: xdr.LedgerEntry = made("LedgerEntry", source, data=made("LedgerEntryData", source, type=kind))
    return entry


@pytest.mark.parametrize("kind", xdr.LedgerEntryType)
def test_entries_and_keys_of_each_kind(kind: xdr.LedgerEntryType) -> None:
    """A ledger entry and a ledger key end where stellar-sdk ends them, also if nothing follows."""
    for source in sources():
        entry = entry_of(kind, source).to_xdr_bytes()
        key = made("LedgerKey", source, type=kind).to_xdr_bytes()

        assert len(entry) == xdr_walk.ledger_entry(entry, 0, kind.value)
        assert len(entry) == xdr_walk.ledger_entry(entry + b"more", 0, kind.value)
        assert len(key) == xdr_walk.ledger_key(key, 0)


@pytest.mark.parametrize("form", [0, 1])
def test_the_usual_account_and_shorter_ones(form: int) -> None:
    """An account of the usual form is passed in one step; one of an older, shorter form is not taken for it."""
    account = made("AccountEntry", random.Random(form), inflation_dest=None, home_domain=xdr.String32(b""), signers=[])
    third = xdr.AccountEntryExtensionV3(xdr.ExtensionPoint(0), xdr.Uint32(1), xdr.TimePoint(xdr.Uint64(2)))
    second = xdr.AccountEntryExtensionV2(xdr.Uint32(0), xdr.Uint32(0), [], xdr.AccountEntryExtensionV2Ext(3, third))
    liabilities = xdr.Liabilities(xdr.Int64(1), xdr.Int64(2))
    first = xdr.AccountEntryExtensionV1(liabilities, xdr.AccountEntryExtensionV1Ext(2, second))
    account.ext = xdr.AccountEntryExt(form, first if form else None)
    data = xdr.LedgerEntryData(xdr.LedgerEntryType.ACCOUNT, account=account)
    entry = xdr.LedgerEntry(xdr.Uint32(5), data, xdr.LedgerEntryExt(0)).to_xdr_bytes()

    assert (144 if form else 92) == len(entry)
    assert len(entry) == xdr_walk.ledger_entry(entry, 0, 0)


@pytest.mark.parametrize("operation", xdr.OperationType)
def test_results_of_each_operation(operation: xdr.OperationType) -> None:
    """A transaction's result ends where stellar-sdk ends it, whatever its operations returned."""
    for source in sources():
        result = made("OperationResultTr", source, type=operation)
        operations = [xdr.OperationResult(xdr.OperationResultCode.opINNER, result)] * 2
        done = xdr.TransactionResultResult(xdr.TransactionResultCode.txSUCCESS, results=operations)
        whole = xdr.TransactionResult(xdr.Int64(100), done, xdr.TransactionResultExt(0))
        pair = xdr.TransactionResultPair(made("Hash", source), whole).to_xdr_bytes()

        assert len(pair) == xdr_walk.result_pair(pair, 0)


@pytest.mark.parametrize("code", xdr.TransactionResultCode)
def test_results_of_each_code(code: xdr.TransactionResultCode) -> None:
    """So does the result of a transaction that failed, or that another one paid for."""
    for source in sources():
        done = made("TransactionResultResult", source, code=code)
        pair = made("TransactionResultPair", source)
        pair.result.result = done
        data = pair.to_xdr_bytes()

        assert len(data) == xdr_walk.result_pair(data, 0)


@pytest.mark.parametrize("kind", xdr.LedgerEntryType)
def test_an_entry_that_is_cut(kind: xdr.LedgerEntryType) -> None:
    """The end of an entry whose last bytes are missing is never inside what is left of it."""
    data = entry_of(kind, random.Random(1)).to_xdr_bytes()
    for length in range(8, len(data), 4):
        try:
            assert xdr_walk.ledger_entry(data[:length], 0, kind.value) > length
        except (DecodeError, struct.error):
            continue


KEYS: Mapping[xdr.LedgerEntryType, Callable[[Any], dict[str, Any]]] = {
    xdr.LedgerEntryType.CONTRACT_DATA: lambda data: {
        "contract_data": xdr.LedgerKeyContractData(
            data.contract_data.contract, data.contract_data.key, data.contract_data.durability
        )
    },
    xdr.LedgerEntryType.CONTRACT_CODE: lambda data: {
        "contract_code": xdr.LedgerKeyContractCode(data.contract_code.hash)
    },
    xdr.LedgerEntryType.CONFIG_SETTING: lambda data: {
        "config_setting": xdr.LedgerKeyConfigSetting(data.config_setting.config_setting_id)
    },
    xdr.LedgerEntryType.TTL: lambda data: {"ttl": xdr.LedgerKeyTtl(data.ttl.key_hash)},
}


@pytest.mark.parametrize("kind", KEYS)
def test_the_key_of_an_entry(kind: xdr.LedgerEntryType) -> None:
    """An entry of contract state is under the key that stellar-sdk makes of its fields."""
    for source in sources():
        entry = entry_of(kind, source)

        assert xdr.LedgerKey(kind, **KEYS[kind](entry.data)).to_xdr_bytes() == key_of_entry(entry.to_xdr_bytes())
