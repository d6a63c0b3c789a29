"""Ledger snapshot files: the real one, made ones in both conventions, and malformed ones."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, reject

from exporter.deployments.networks import NETWORKS, network_id
from exporter.errors import DecodeError, SnapshotFileError, SourceError
from exporter.ledger.codec import entries, strkey
from exporter.ledger.codec.entries import is_temporary, seen_at
from exporter.ledger.codec.scval import ScVal, decode_scval
from exporter.ledger.codec.scval_encode import INSTANCE_KEY, address, encode_scval, symbol, u64
from exporter.ledger.snapshot_file import LedgerSnapshot, SnapshotSource, xdr_from_json
from exporter.ledger.source import ContractCall, LedgerSource, RawEntry
from exporter.protocols import storage_answers
from tests.ledger.codec.scval_cases import scvals, to_sdk
from tests.snapshot_files import to_json

POOL = "CDVQVKOY2YSXS2IC7KN6MNASSHPAO7UN2UR2ON4OI2SKMFJNVAMDX6DP"
USDC = "CCW67TSZV3SSS2HXMBQ5JFGCKJNXKZM7UQUWUZPUTHXSTZLEO7SJMI75"
LEDGER = 1_000
FOREVER = 4294967295


def item(name: str = "a", live_until: Any = FOREVER, durability: int = entries.PERSISTENT, **entry: Any) -> list[Any]:
    """One item of ``ledger_entries``: a contract data entry of the pool under a symbol."""
    data = entries.ContractData(POOL, symbol(name), durability, u64(2**60))
    key = entries.data_key(POOL, symbol(name), durability)
    document = {
        "last_modified_ledger_seq": 900,
        "data": to_json("LedgerEntryData", entries.encode_contract_data(data)),
        "ext": "v0",
    }
    return [to_json("LedgerKey", key), [document | entry, live_until]]


def without_key(item: list[Any]) -> dict[str, Any]:
    """An item of a snapshot in the newer form."""
    entry, live_until = item[1]
    return {"entry": entry, "live_until": live_until}


def document(*items: Any, **changes: Any) -> dict[str, Any]:
    """A whole file; a change to ``...`` removes the field."""
    header = {
        "protocol_version": 23,
        "sequence_number": LEDGER,
        "timestamp": 1_700_000_000,
        "network_id": network_id(NETWORKS["local"].passphrase),
        "base_reserve": 1,
        "min_persistent_entry_ttl": 0,
        "min_temp_entry_ttl": 0,
        "max_entry_ttl": 0,
        "ledger_entries": list(items),
    }
    return {name: value for name, value in (header | changes).items() if value is not ...}


def load(path: Path, content: Any) -> LedgerSnapshot:
    file = path / "snapshot.json"
    file.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return LedgerSnapshot.load(file)


def test_the_mainnet_snapshot(mainnet_snapshot: LedgerSnapshot) -> None:
    """The real file of ledger 55,261,759 gives its header, 822 contract data entries."""
    assert 55261759 == mainnet_snapshot.ledger
    assert 1736780911 == mainnet_snapshot.close_time
    assert 22 == mainnet_snapshot.protocol_version
    assert network_id(NETWORKS["mainnet"].passphrase) == mainnet_snapshot.network_id
    assert 822 == len(mainnet_snapshot.entries)
    entry = mainnet_snapshot.entries[entries.variant_key(POOL, "ResData", address(USDC))]
    assert (55261753, FOREVER) == (entry.last_modified, entry.live_until)
    fields = {key[1]: value[1] for key, value in entries.decode_contract_data(entry.data).value[1]}
    assert (1095073860, 30104839071593, 1736780875) == (fields["b_rate"], fields["b_supply"], fields["last_time"])


def test_both_forms_of_items_give_the_same_snapshot(tmp_path: Path) -> None:
    """An item without a key of its own is under the key that its entry has."""
    strange = item("strange", 1_200, entries.TEMPORARY)
    strange[1][0]["data"]["contract_data"]["val"] = {"u512": "1"}
    unaskable = item("unaskable")
    unaskable[0]["contract_data"]["key"] = {"u512": "1"}
    unaskable[1][0]["data"]["contract_data"]["key"] = {"u512": "1"}
    code = {"contract_code": {"ext": "v0", "hash": "1" * 64, "code": "0061736d"}}
    account = {"account": {"account_id": "G", "balance": "0"}}
    older = [item(), item("b", None), strange, unaskable]
    for key, data in (({"contract_code": {"hash": "1" * 64}}, code), ({"account": {"account_id": "G"}}, account)):
        older.append([key, [{"last_modified_ledger_seq": 5, "data": data, "ext": "v0"}, FOREVER]])

    snapshot = load(tmp_path, document(*map(without_key, older)))

    assert load(tmp_path, document(*older)) == snapshot
    assert 4 == len(snapshot.entries)


def test_digits_in_a_string_are_a_number(tmp_path: Path) -> None:
    """A file of the convention that writes numbers of 64 bits as decimal strings gives the same snapshot."""
    numbers = {"timestamp": "1700000000", "base_reserve": "1"}

    assert load(tmp_path, document(item())) == load(tmp_path, document(item(), **numbers))


@pytest.mark.parametrize("value", [{"u512": "1"}, {"i128": "x"}])
@pytest.mark.parametrize("key", [symbol("strange"), INSTANCE_KEY])
def test_a_value_that_cannot_be_read_costs_its_entry_alone(tmp_path: Path, key: ScVal, value: Any) -> None:
    """An entry that is damaged or of a newer protocol is kept, and fails to decode."""
    strange = item()
    strange[0]["contract_data"]["key"] = strange[1][0]["data"]["contract_data"]["key"] = to_json(
        "SCVal", encode_scval(key)
    )
    strange[1][0]["data"]["contract_data"]["val"] = {"vec": [value]}

    snapshot = load(tmp_path, document(item(), strange))

    place = entries.data_key(POOL, key)
    assert {place, entries.data_key(POOL, symbol("a"))} == set(snapshot.entries)
    assert 900 == snapshot.entries[place].last_modified
    with pytest.raises(DecodeError, match="unknown kind of value"):
        entries.decode_contract_data(snapshot.entries[place].data)
    assert [] == list(snapshot.contract_instances())


def _with(change: Any, *path: Any) -> list[Any]:
    changed = item()
    target: Any = changed
    for step in path[:-1]:
        target = target[step]
    target[path[-1]] = change
    return changed


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "it is not JSON: Input data was truncated"),
        (b"[" * 200_000, "it is not JSON: maximum recursion depth exceeded"),
        (b"[]", "Expected `object`, got `array`"),
        (document(protocol_version=...), "missing required field `protocol_version`"),
        (document(sequence_number=2**32), r"Expected `int` <= 4294967295 - at `\$.sequence_number`"),
        (document(protocol_version=1.5), r"Expected `int`, got `float` - at `\$.protocol_version`"),
        (document(timestamp=0), "timestamp is 0, as some releases"),
        (document(timestamp=253_370_764_800), r"Expected `int` <= .*\$.timestamp"),  # the year 9999
        (document(network_id="7AC3"), "Expected `str` matching regex"),
        (document(5), r"ledger_entries\[0\]: Expected `object`, got `int`"),
        (
            document(without_key(_with({}, 1, 0))),
            r"ledger_entries\[0\]: Object missing required field `last_modified_ledger_",
        ),
        (
            document(without_key(_with({"ext": "v0"}, 1, 0, "data", "contract_data"))),
            r"expected the fields contract, key",
        ),
        (document(without_key(item()), item()), r"ledger_entries\[1\]: the file has the key twice"),
        (document([{}, [{}, 5]]), r"ledger_entries\[0\]: Expected `object` of length >= 1 - at `\$\[0\]`"),
        (document(item(), item()), r"ledger_entries\[1\]: the file has the key twice"),
        (document(_with({}, 1, 0)), r"ledger_entries\[0\]: Object missing required field .* - at `\$\[1\]\[0\]`"),
        (document(_with(LEDGER + 1, 1, 0, "last_modified_ledger_seq")), "1001 is not a ledger up to 1000"),
        (document(_with("never", 1, 1)), r"ledger_entries\[0\]: Expected `int \| null`, got `str`"),
    ],
)
def test_malformed_files_are_refused_by_name(tmp_path: Path, content: Any, message: str) -> None:
    """Every defect raises SnapshotFileError that names the file, the place and what is wrong."""
    with pytest.raises(SnapshotFileError, match=message) as caught:
        load(tmp_path, content)
    assert str(caught.value).startswith("ledger snapshot file snapshot.json: ")
    assert len(str(caught.value)) < 400


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    """A path with no file, a folder, and a file of more bytes than are accepted are refused; one of as many is read."""
    content = json.dumps(document(item())).encode()
    file = tmp_path / "snapshot.json"
    assert LEDGER == load(tmp_path, content).ledger == LedgerSnapshot.load(file, max_bytes=len(content)).ledger
    for path, most, message in (
        (tmp_path / "none.json", 1, r"none\.json: it cannot be read: No such file"),
        (tmp_path, 1, "it cannot be read: Is a directory"),
        (file, len(content) - 1, f"more than the {len(content) - 1} bytes"),
    ):
        with pytest.raises(SnapshotFileError, match=message):
            LedgerSnapshot.load(path, max_bytes=most)


def test_a_source_answers_at_the_files_ledger(tmp_path: Path) -> None:
    """Distinct keys are read at the file's ledger, whose time it has; a call without held entries is an error."""
    snapshot = load(tmp_path, document(item("a"), item("b")))
    source: LedgerSource = SnapshotSource(snapshot, storage_answers, label="the file")
    known = [entries.data_key(POOL, symbol(name)) for name in ("a", "b")]
    unknown = [entries.data_key(POOL, symbol(f"no_{number}")) for number in range(300)]

    answers = asyncio.run(source.read_entries([*known, *unknown, *known]))

    assert [*known, *unknown] == [key for answer in answers for key in answer.asked]
    assert {LEDGER} == {answer.ledger for answer in answers}
    assert {"the file"} == {answer.endpoint for answer in answers}
    assert {key: snapshot.entries[key] for key in known} == answers[0].entries
    assert [] == asyncio.run(source.read_entries([]))
    assert LEDGER == asyncio.run(source.tip())
    assert 1_700_000_000 == asyncio.run(source.close_time(LEDGER))
    with pytest.raises(SourceError, match="holds ledger 1000 only"):
        asyncio.run(source.close_time(LEDGER - 1))
    answer = asyncio.run(SnapshotSource(snapshot, storage_answers).simulate(ContractCall(POOL, "get_reserve")))
    assert f"not from storage: the instance of {POOL} is not held" == answer.error
    assert (LEDGER, None, "ledger snapshot file") == (answer.ledger, answer.result, answer.endpoint)


@pytest.mark.parametrize(
    ("durability", "live_until", "expected"),
    [
        (entries.PERSISTENT, LEDGER, LEDGER),
        (entries.PERSISTENT, LEDGER - 1, 0),
        (entries.TEMPORARY, LEDGER, LEDGER),
        (entries.TEMPORARY, LEDGER - 1, "absent"),
        (entries.PERSISTENT, None, None),
    ],
)
def test_what_has_expired_is_seen_as_the_network_shows_it(
    tmp_path: Path, durability: int, live_until: int | None, expected: Any
) -> None:
    """If a file has the true ends of lives, expired temporary entries are absent and persistent ones archived."""
    key = entries.data_key(POOL, symbol("a"), durability)
    source = SnapshotSource(load(tmp_path, document(item("a", live_until, durability))), storage_answers)

    (answer,) = asyncio.run(source.read_entries([key]))

    seen = answer.entries.get(key)
    assert expected == ("absent" if seen is None else seen.live_until)


def test_temporary_keys_are_distinguished_from_others() -> None:
    """Only contract data keys of temporary durability are temporary; code keys that end in zeros are not."""
    entry = RawEntry(b"", 1, 5)

    assert is_temporary(entries.data_key(POOL, symbol("a"), entries.TEMPORARY))
    assert not is_temporary(entries.data_key(POOL, symbol("a"), entries.PERSISTENT))
    assert not is_temporary(entries.code_key(bytes(32)))
    assert RawEntry(b"", 1, 0) == seen_at(entries.code_key(bytes(32)), entry, 6)


# XDR-JSON: values of every kind in both conventions --------------------------------------------------------------

CONTRACT = strkey.encode_contract(bytes(range(32)))
WIDE_KINDS = {"u128": 128, "i128": 128, "u256": 256, "i256": 256}


def first_convention(document: Any) -> Any:
    """A document of version 2 as version 1 writes it: numbers for 64 bits, objects of 64-bit parts beyond."""
    if isinstance(document, list):
        return [first_convention(item) for item in document]
    if not isinstance(document, dict):
        return document
    if len(document) == 1:
        ((arm, body),) = document.items()
        if arm in ("u64", "i64", "timepoint", "duration", "nonce"):
            return {arm: int(body)}
        if arm in WIDE_KINDS:
            bits, number = WIDE_KINDS[arm], int(body)
            parts = [number >> shift for shift in range(bits - 64, -1, -64)]
            parts = [parts[0], *(part & (2**64 - 1) for part in parts[1:])]
            names = ("hi", "lo") if bits == 128 else ("hi_hi", "hi_lo", "lo_hi", "lo_lo")
            return {arm: dict(zip(names, parts, strict=True))}
    return {name: first_convention(body) for name, body in document.items()}


@given(scvals)
def test_both_conventions_read_as_the_same_value(value: ScVal) -> None:
    """A value of any kind comes back from version 2, as stellar-sdk writes it, and from the numbers of version 1."""
    try:
        document = json.loads(to_sdk(value).to_json())
    except AssertionError:  # stellar-sdk cannot write absent vectors and maps
        reject()

    assert value == decode_scval(xdr_from_json("SCVal", document))
    assert value == decode_scval(xdr_from_json("SCVal", first_convention(document)))


@pytest.mark.parametrize(
    "document",
    [
        5,
        {"u32": 1, "i32": 1},
        {"u32": "1"},
        {"u32": 2**32},
        {"u64": "-1"},
        {"u64": 2**64},
        {"i64": "01"},
        {"i128": str(2**127)},
        {"i128": {"hi": 0}},
        {"i128": {"hi": 0, "lo": 0, "more": 0}},
        {"i128": {"hi": 0, "lo": 2**64}},
        {"string": "é"},
        {"symbol": "no-dash"},
        {"address": CONTRACT[:-1]},
        {"vec": [{"u32": 1}, {"u32": -1}]},
        {"u512": "5"},
        "nothing",
    ],
)
def test_other_values_are_refused(document: Any) -> None:
    """Wrong types, ranges, fields and spellings, and kinds that nobody knows, raise DecodeError with a short text."""
    with pytest.raises(DecodeError) as caught:
        decode_scval(xdr_from_json("SCVal", document))
    assert len(str(caught.value)) < 300


def test_values_nested_too_deeply() -> None:
    """Nesting without end raises DecodeError."""
    document: Any = "void"
    for _ in range(5_000):
        document = {"vec": [document]}

    with pytest.raises(DecodeError):
        xdr_from_json("SCVal", document)
