"""The value that a ledger closed with: its kind at its place, its two times, and what its validator signed."""

from __future__ import annotations

import hashlib
import json
import struct
from pathlib import Path

import pytest
from msgspec.structs import replace
from nacl.signing import SigningKey
from stellar_sdk import StrKey

from exporter.deployments.networks import network_id
from exporter.errors import DecodeError
from exporter.ledger.codec.ledger_header import LATEST_PROTOCOL, LedgerHeader, read_header
from exporter.past.lake.closing_value import check_closing_value
from tests.past.lake.real_ledgers import facts, frames, meta_of

PUBNET, TESTNET = (
    bytes.fromhex(network_id(f"{name} ; September 2015"))
    for name in ("Public Global Stellar Network", "Test SDF Network")
)
SIGNER = SigningKey(bytes(range(32)))
PARENT, SET = hashlib.sha256(b"parent").digest(), hashlib.sha256(b"set").digest()
TIME = 1_795_219_200
word, long = struct.Struct(">I").pack, struct.Struct(">Q").pack


def entry_of(content: bytes) -> bytes:
    """A header with its hash before it and the extension after it, as lakes and archives have it."""
    return hashlib.sha256(content).digest() + content + word(0)


def content_of(value: bytes, protocol: int, ledger: int = 7, parent: bytes = PARENT) -> bytes:
    """A header around a value."""
    rest = bytes(64) + word(ledger) + bytes(8 + 8 + 4 + 8 + 12 + 128) + word(0)
    return word(protocol) + parent + value + rest


def header_with(
    kind: int,
    protocol: int,
    *,
    network: bytes = PUBNET,
    milliseconds: int = 1000 * TIME + 250,
    upgrade: bytes = b"",
    signed_set: bytes = SET,
    parent: bytes = PARENT,
) -> LedgerHeader:
    """A header whose value has a kind, as CAP-83 and CAP-88 lay it out, signed for a network."""
    with_milliseconds, dropped = kind in (3, 4), kind in (2, 4)
    times = long(TIME) + (long(milliseconds) if with_milliseconds else b"")
    signature = SIGNER.sign(network + word(4) + signed_set + times).signature
    value = (bytes(32) if dropped else SET) + long(TIME)
    value += word(1) + word(len(upgrade)) + upgrade if upgrade else word(0)
    value += word(kind)
    if kind:
        value += times[8:] + (SET + parent + word(protocol) if dropped else b"")
        value += word(0) + bytes(SIGNER.verify_key) + word(64) + signature
    return read_header(entry_of(content_of(value, protocol)), 0)[0]


def refusal(header: LedgerHeader, network: bytes = PUBNET, previous: LedgerHeader | None = None) -> str:
    """The fault of a header's value; empty if there is none."""
    try:
        check_closing_value(header, network, previous)
    except DecodeError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(("kind", "protocol"), [(1, 28), (2, 28), (3, 30), (4, 30)])
def test_a_value_belongs_to_the_network_it_was_signed_for(kind: int, protocol: int) -> None:
    """A signed value of each kind is accepted for its own network, and refused for another or with another set."""
    assert "" == refusal(header_with(kind, protocol))
    assert "was not signed for this network" in refusal(header_with(kind, protocol), TESTNET)
    assert "was not signed for this network" in refusal(header_with(kind, protocol, signed_set=PARENT))


@pytest.mark.parametrize("kind", [3, 4])
def test_milliseconds_are_signed_and_agree_with_the_seconds(kind: int) -> None:
    """Milliseconds of another second are refused; other milliseconds of the same second break the signature."""
    header = header_with(kind, 30)
    stated = long(1000 * TIME + 250)
    assert 1 == header.content.count(stated)
    moved = replace(header, content=header.content.replace(stated, long(1000 * TIME + 251)))

    assert "was not signed" in refusal(moved)
    assert "which is not the same time" in refusal(header_with(kind, 30, milliseconds=1000 * TIME + 1000))
    assert "which is not the same time" in refusal(header_with(kind, 30, milliseconds=1000 * TIME - 1))
    assert "which is not the same time" in refusal(header_with(kind, 30, milliseconds=TIME))
    assert "" == refusal(header_with(kind, 30, milliseconds=1000 * TIME + 999))


@pytest.mark.parametrize(
    ("kind", "before", "own", "valid"),
    [
        (0, 19, 19, True),
        (0, 20, 20, False),
        (1, 29, 29, True),
        (2, 29, 30, True),
        (1, 30, 30, False),
        (2, 30, 30, False),
        (3, 29, 29, False),
        (3, 29, 30, False),
        (4, 29, 30, False),
        (3, 30, 30, True),
        (4, 30, 31, True),
    ],
)
def test_the_protocol_before_decides_which_kinds_are_valid(kind: int, before: int, own: int, valid: bool) -> None:
    """Values have milliseconds from the ledger after the upgrade's own on, and a signature since contracts exist."""
    header = header_with(kind, own)

    assert valid == ("" == refusal(header, previous=header_with(1, before)))


def test_a_first_ledger_is_judged_by_its_own_protocol() -> None:
    """If the previous ledger is unknown, an old kind in protocol 30 is valid only in a ledger that upgrades it."""
    upgrade = word(1) + word(30)
    other = word(2) + word(100)

    assert "is of kind 1, which is not valid in protocol 30" in refusal(header_with(1, 30))
    assert "is of kind 0" in refusal(header_with(0, 30, upgrade=other))
    assert "is of kind 1" in refusal(header_with(1, 30, upgrade=other))
    assert "" == refusal(header_with(1, 30, upgrade=upgrade))
    assert "" == refusal(header_with(3, 30, upgrade=upgrade))
    assert "is of kind 3" in refusal(header_with(3, 29))


@pytest.mark.parametrize(("kind", "protocol"), [(2, 28), (4, 30)])
def test_a_dropped_set_was_proposed_after_the_same_parent(kind: int, protocol: int) -> None:
    """A value that drops a set names the ledger before; one that names another ledger is refused."""
    assert "not proposed after its parent" in refusal(header_with(kind, protocol, parent=SET))


def test_a_published_ledger_without_its_set() -> None:
    """The ledger that CAP-83 prints has the hash it states, and is accepted for the network of core's tests alone."""
    parent = bytes.fromhex("2585cbeb05e12e8112f89e78d91e6c8c5a75fc08b91d7539773a48a8b6a35b3a")
    proposed = bytes.fromhex("827145925ccb74c257c14372b8325ccb9f4af0099e57025e777a6e2cb365acaf")
    validator = StrKey.decode_ed25519_public_key("GAXSR3PPLX3TDFUXXQ2GGOCQISJKADKKFAJ72PEEYKA3DV6MJ6FCG4O6")
    signature = bytes.fromhex(
        "05aadb43376fa6544048fb646212b987f9aec110a65c2e9d02806c9dca51d7ed"
        "9286d71e68f68a13b0af7efd5b95b6b928d0d8f4c7ed03a327786fbd1a287c03"
    )
    value = bytes(32) + long(15) + word(0) + word(2) + proposed + parent + word(27)
    value += word(0) + validator + word(64) + signature
    results = bytes.fromhex("df3f619804a92fdb4057192dc43dd748ea778adc52bc498ce80524c014b81119")
    buckets = bytes.fromhex("ff0815329f0269bcfdb3385fb751f1db076c88da3028f9733d302d564565b551")
    tail = word(5) + long(10**18) + long(0) + word(0) + long(0) + word(100) + word(10**8) + word(50)
    content = word(27) + parent + value + results + buckets + tail + bytes(128) + word(0)
    header, _ = read_header(entry_of(content), 0)

    assert "797ed2ec897cb6faac1b103cc6f027b5af5075ddf39039e973555d71613a1851" == header.hash.hex()
    assert "" == refusal(header, bytes.fromhex(network_id("(V) (;,,;) (V)")))
    assert "was not signed" in refusal(header)


def test_a_header_of_a_later_form_says_to_update() -> None:
    """A form that no known protocol has says so; of a later protocol, the error names the remedy."""
    later, known = (content_of(SET + long(TIME) + word(0) + word(5), number) for number in (LATEST_PROTOCOL + 1, 30))
    for content, remedy in ((later, True), (known, False)):
        with pytest.raises(DecodeError, match="unknown kind of ledger header: 5") as caught:
            read_header(entry_of(content), 0)
        assert remedy == ("update the exporter" in str(caught.value))


def test_values_of_real_ledgers(real_data: Path) -> None:
    """Values of mainnet, testnet and core's own tests are accepted for their network, and for no other."""
    passphrases = {"pubnet": PUBNET, "testnet": TESTNET}
    for fact in facts(real_data):
        header = read_header(*_header_at(meta_of(real_data, fact["file"])))[0]
        own = passphrases["testnet" if "testnet" in fact["file"] else "pubnet"]
        other = next(each for each in passphrases.values() if each != own)
        assert ["", True] == [refusal(header, own), "was not signed" in refusal(header, other)]
    core = bytes.fromhex(network_id(json.loads((real_data / "core-meta-facts.json").read_text())["passphrase"]))
    seen = 0
    for path in sorted((real_data / "core-meta").glob("*/*.xdr")):
        previous: LedgerHeader | None = None
        for meta in frames(path):
            header = read_header(*_header_at(meta))[0]
            follows = previous is not None and previous.hash == header.previous_hash
            assert "" == refusal(header, core, previous if follows else None), (path.name, header.ledger)
            previous, seen = header, seen + 1

    assert seen > 2_000


def _header_at(meta: bytes) -> tuple[bytes, int]:
    version, extension = struct.unpack_from(">II", meta, 0)
    return meta, 4 if not version else 20 if extension else 8
