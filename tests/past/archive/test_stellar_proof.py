"""Tests of the file that checks proofs: what it proves, what it refuses, and that it needs nothing of this project."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import random
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from exporter.ledger.codec.entries import ARCHIVED, code_key, data_key
from exporter.ledger.codec.scval_encode import symbol, u32
from exporter.ledger.source import RawEntry
from exporter.past.archive import stellar_proof
from exporter.past.archive.archive_files import bucket_name
from exporter.past.archive.stellar_proof import (
    RefusedError,
    Trust,
    bucket_records,
    check_entries,
    check_proof,
    read_claims,
    read_trust,
)
from tests.past.archive.simulated_archive import (
    CONTRACT,
    FOREIGN,
    ONE,
    ORGANISATIONS,
    PASSPHRASE,
    THREE,
    TWO,
    SimulatedArchive,
    dead,
    entries_content,
    live,
    message,
    time_to_live,
    trust_document,
    validators,
)

FOUR = data_key(CONTRACT, symbol("Four"))
TEMPORARY = data_key(CONTRACT, symbol("Five"), durability=0)
CODE = code_key(bytes([7] * 32))
CLOSED = 1_700_000_127
HOT = [[live(FOUR, u32(4)), dead(THREE)], [live(THREE, u32(3))]]
LISTS = [
    [live(ONE, u32(10), last_modified=120), dead(TWO), dead(FOUR), time_to_live(ONE, 900)],
    [live(ONE, u32(1), last_modified=64), live(TWO, u32(2)), time_to_live(FOREIGN, 90)],
    [],
    [live(FOREIGN, u32(9)), live(TEMPORARY, u32(5)), time_to_live(TEMPORARY, 100), time_to_live(ONE, 80)],
]


def value(key: bytes, number: int, last: int = 7, until: int | None = 900) -> RawEntry:
    """The entry that `live` writes under a key."""
    return RawEntry(live(key, u32(number))[8:-4], last, until)


STATE = {
    ONE: value(ONE, 10, 120),
    TWO: None,
    THREE: None,
    FOUR: value(FOUR, 4, until=ARCHIVED),
    FOREIGN: value(FOREIGN, 9, until=ARCHIVED),  # its life has ended, and it was not evicted yet
    TEMPORARY: None,  # its life has ended
    CODE: None,
}


class Case(Struct):
    """A proof of a simulated network, and claims about its state."""

    made: SimulatedArchive
    proof: bytes
    trust: Trust

    def judged(self, content: bytes, *, newest: bool = False) -> dict[str, list[bytes]]:
        """Keys, grouped by what is known about them."""
        source = partial(bucket_records, str(self.made.folder))
        found = check_entries(read_claims(content), check_proof(self.proof, self.trust), [source], newest)
        return {reason: keys for reason, keys in found.items() if keys}


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    folder = tmp_path_factory.mktemp("network")
    made = SimulatedArchive(folder, LISTS, hot=HOT, version=23, envelopes=bytes(100))
    return Case(made, made.proof()[1], made.trust)


@pytest.fixture(scope="module")
def since(case: Case) -> Case:
    """A proof with the headers from ledger 100 on, and claims about that ledger's state."""
    return replace(case, proof=case.made.proof(100)[1])


def claims(
    changes: Mapping[bytes, RawEntry | None] | None = None, ledger: int = 127, network: str = PASSPHRASE
) -> bytes:
    close_time = CLOSED - 127 + ledger
    return entries_content(network, ledger, close_time, {**STATE, **(changes or {})})


def test_entries_of_both_bucket_lists_are_confirmed(case: Case) -> None:
    """The newest record counts, an evicted entry is archived, what expired is gone or archived, absence is proven."""
    assert {"confirmed": sorted(STATE)} == case.judged(claims())
    assert {"confirmed": sorted(STATE)} == case.judged(claims({ONE: value(ONE, 10, 120, None)}) + b'["note","more"]\n')


@pytest.mark.parametrize(
    ("key", "claim", "said"),
    [
        (ONE, value(ONE, 11, 120), "has another value"),
        (ONE, value(ONE, 1, 64, 80), "was last changed at ledger 120, not at 64"),
        (ONE, value(ONE, 10, 119), "was last changed at ledger 120, not at 119"),
        (ONE, value(ONE, 10, 120, 901), "lives until ledger 900, not 901"),
        (ONE, None, "is in the state of ledger 127"),
        (TWO, value(TWO, 2), "is not in the state of ledger 127"),
        (THREE, value(THREE, 3, until=ARCHIVED), "is not in the state"),
        (FOUR, value(FOUR, 4), "lives until ledger 0, not 900"),
        (FOUR, None, "is in the state"),
        (FOREIGN, value(FOREIGN, 9, until=90), "lives until ledger 0, not 90"),
        (FOREIGN, value(FOREIGN, 9, until=None), "lives until ledger 0, not None"),
        (TEMPORARY, value(TEMPORARY, 5, until=100), "is not in the state"),
        (CODE, RawEntry(b"\0\0\0\7" + bytes(4) + bytes([7] * 32) + bytes(4), 7, 900), "is not in the state"),
    ],
    ids=lambda item: item if isinstance(item, str) else "",
)
def test_each_false_claim_is_refused_by_name(case: Case, key: bytes, claim: RawEntry | None, said: str) -> None:
    """Another value, an older one, another last change, another life, one entry too many or too few."""
    with pytest.raises(RefusedError, match=f"the entry {key.hex()} .*{said}"):
        case.judged(claims({key: claim}))


def test_claims_of_a_ledger_before_the_checkpoint_are_confirmed_where_they_hold(since: Case) -> None:
    """An entry that did not change since is proven; one that changed or is gone is unknown, and counted."""
    before = {ONE: value(ONE, 3, 99), FOUR: value(FOUR, 4, until=110), TEMPORARY: value(TEMPORARY, 5, until=100)}

    assert {
        "confirmed": [key for key in sorted(STATE) if key in (FOREIGN, TEMPORARY)],
        "changed": [key for key in sorted(STATE) if key in (ONE, TWO, THREE, FOUR)],
        "absent": [CODE],
    } == since.judged(claims(before, 100))
    for false in (value(FOREIGN, 8, until=ARCHIVED), None):
        with pytest.raises(RefusedError, match=f"the entry {FOREIGN.hex()}"):
            since.judged(claims({**before, FOREIGN: false}, 100))
    for ledger in (99, 128):
        with pytest.raises(RefusedError, match=f"of ledger {ledger}, of which the proof says nothing"):
            since.judged(claims(ledger=ledger))
    with pytest.raises(RefusedError, match="ledger 100 closed at 1700000100, not 1700000101"):
        since.judged(entries_content(PASSPHRASE, 100, 1_700_000_101, before))


def test_the_entries_must_be_of_the_same_network_ledger_and_time(case: Case) -> None:
    """An entries file's statement about its ledger is compared, too."""
    with pytest.raises(RefusedError, match="the entries are of the network 'another'"):
        case.judged(claims(network="another"))
    with pytest.raises(RefusedError, match="ledger 127 closed at 1700000127, not 1700000128"):
        case.judged(entries_content(PASSPHRASE, 127, CLOSED + 1, STATE))
    with pytest.raises(RefusedError, match="of two ledgers"):
        case.judged(claims() + claims(ledger=126))
    twice = claims() + claims().splitlines(keepends=True)[1]
    with pytest.raises(RefusedError, match=r"has the key [0-9a-f]+ twice"):
        read_claims(twice)
    for damaged in (b"", claims()[1:], claims()[:-9], b'["entry"]\n', claims() + b'["entry"]\n', claims() + b"[]\n"):
        with pytest.raises(RefusedError, match="entries file"):
            read_claims(damaged)


def test_a_bucket_that_is_not_its_name_is_never_used(case: Case, tmp_path: Path) -> None:
    """A copy with other content is passed over for the next archive's; without another one there is no verdict."""
    proven, said = check_proof(case.proof, case.trust), read_claims(claims())
    newest, other = (bucket_name(digest) for digest in proven.live[:2])
    whole = (case.made.folder / other).read_bytes()
    (tmp_path / newest).parent.mkdir(parents=True)
    forged, true = (partial(bucket_records, str(place)) for place in (tmp_path, case.made.folder))
    for content, problem in (
        (whole, "has other content than its name"),
        (whole[:-20], ""),
        (b"", ""),
        (b"no gzip", ""),
    ):
        (tmp_path / newest).write_bytes(content)
        with pytest.raises(OSError, match=f"{proven.live[0].hex()} cannot be had: .*{problem}"):
            check_entries(said, proven, [forged])
        assert sorted(STATE) == check_entries(said, proven, [forged, true])["confirmed"]
    with pytest.raises(OSError, match="name an archive"):
        check_entries(said, proven, [])


def refusal(proof: bytes, trust: Trust) -> str:
    with pytest.raises(RefusedError) as error:
        check_proof(proof, trust)
    return str(error.value)


def changed(proof: bytes, change: Callable[[dict[str, Any]], object]) -> bytes:
    document = json.loads(proof)
    change(document)
    return json.dumps(document, separators=(",", ":"), sort_keys=True).encode() + b"\n"


def flipped(text: str, at: int) -> str:
    """Base64 with one bit of its bytes flipped."""
    data = bytearray(base64.b64decode(text))
    data[at // 8] ^= 1 << at % 8
    return base64.b64encode(data).decode()


def said_by(messages: list[str], *organisations: int) -> list[str]:
    """The messages of these organisations' validators."""
    keys = {bytes(key.verify_key) for at in organisations for key in ORGANISATIONS[f"organisation {at}"]}
    return [text for text in messages if base64.b64decode(text)[4:36] in keys]


def test_a_forgery_is_refused_by_what_is_wrong_with_it(case: Case) -> None:
    """A flipped bit in each part of a proof is refused, and the refusal names the part."""
    first = r"the transactions of 128 are not made on the last header|the transactions of ledger 128"
    places: list[tuple[str, Callable[[dict[str, Any]], object]]] = [
        ("does not have its signature", lambda d: d["messages"].__setitem__(0, flipped(d["messages"][0], 60 * 8))),
        ("does not have its signature", lambda d: d["messages"].__setitem__(3, flipped(d["messages"][3], -1))),
        ("about ledger 129", lambda d: d["messages"].__setitem__(0, flipped(d["messages"][0], 43 * 8))),
        ("the form of an EXTERNALIZE", lambda d: d["messages"].__setitem__(0, flipped(d["messages"][0], 47 * 8))),
        ("128 are not those that", lambda d: d.update(transaction_set=flipped(d["transaction_set"], 9))),
        (first, lambda d: d["headers"].__setitem__(0, flipped(d["headers"][0], 40))),
        ("does not have the header of its ledger", lambda d: d.update(ledger=63)),
        ("not those that the checkpoint's header", lambda d: d["live"].reverse()),
        ("not those that the checkpoint's header", lambda d: d["hot"].__setitem__(0, "00" * 32)),
        ("two digests of 32 bytes", lambda d: d.update(hot=[])),
        ("two digests of 32 bytes", lambda d: d["live"].pop()),
        ("two digests of 32 bytes", lambda d: d["live"].__setitem__(0, d["live"][0] + "00")),
        ("small hexadecimal", lambda d: d["live"].__setitem__(0, d["live"][0].upper())),
        ("of the network 'another'", lambda d: d.update(network="another")),
        ("not a stellar-state-proof-1", lambda d: d.update(format="stellar-state-proof-2")),
        ("not a stellar-state-proof-1", lambda d: d.update(more=1)),
        ("not a stellar-state-proof-1", lambda d: d.pop("hot")),
        ("cannot be read", lambda d: d.update(headers=3)),
        ("does not have the header of its ledger", lambda d: d.update(ledger=10**4000)),
        ("does not have the header of its ledger", lambda d: d.update(headers=[])),
        ("0 of 4 organisations signed ledger 128, 3 must", lambda d: d.update(messages=[])),
        ("2 of 4 organisations signed ledger 128, 3 must", lambda d: d.update(messages=said_by(d["messages"], 0, 1))),
    ]
    for said, change in places:
        with pytest.raises(RefusedError, match=said):
            check_proof(changed(case.proof, change), case.trust)
    assert "in the one form" in refusal(case.proof.replace(b",", b", ", 1), case.trust)
    assert "cannot be read" in refusal(case.proof[:-2], case.trust)
    assert "spelling" in refusal(
        changed(case.proof, lambda d: d["headers"].append(d["headers"][0][:-2] + "B=")), case.trust
    )


def test_messages_must_be_of_one_value_and_of_this_network(case: Case) -> None:
    """A validator that signed for another network, or another value, is not a witness; one that signed twice is one."""
    value_128 = case.made.values[128]
    key = ORGANISATIONS["organisation 0"][0]

    def with_message(envelope: bytes) -> bytes:
        return changed(case.proof, lambda d: d["messages"].append(base64.b64encode(envelope).decode()))

    assert "does not have its signature" in refusal(
        with_message(message(key, 128, value_128, network="another")), case.trust
    )
    assert "not all of one value" in refusal(with_message(message(key, 128, value_128[:-1] + b"\1")), case.trust)
    assert "is about ledger 127" in refusal(with_message(message(key, 127, value_128)), case.trust)
    again = check_proof(with_message(message(key, 128, value_128, quorum_set=bytes([1] * 32))), case.trust)

    assert 3 == again.signed["organisation 0"]


def test_the_number_of_organisations_is_that_of_automatic_quorum_sets(case: Case) -> None:
    """The number that must sign is n - floor((n-1)/3) of n organisations, each with over half of its validators."""
    needed = {count: read_trust(trust_document(validators(count))).needed for count in range(1, 11)}

    assert {1: 1, 2: 2, 3: 3, 4: 3, 5: 4, 6: 5, 7: 5, 8: 6, 9: 7, 10: 7} == needed
    document = json.loads(case.proof)
    others, of_first = said_by(document["messages"], 1, 2, 3), said_by(document["messages"], 0)
    needs_all = read_trust(trust_document(dict(list(ORGANISATIONS.items())[:3])))

    def with_first(count: int) -> bytes:
        return changed(case.proof, lambda d: d.update(messages=[*others, *of_first[:count]]))

    for count in (0, 1):
        assert "2 of 3 organisations signed ledger 128, 3 must" in refusal(with_first(count), needs_all)
    for count in (2, 3):
        assert count == check_proof(with_first(count), needs_all).signed["organisation 0"]


def test_no_organisation_and_no_validator_counts_twice() -> None:
    """A list of trust that names one twice is refused, as is one that names nobody, or no key."""
    document = json.loads(trust_document(ORGANISATIONS))
    first, second = document["organisations"][:2]
    for organisations in (
        [first, first],
        [first, {**second, "validators": first["validators"]}],
        [{**first, "validators": first["validators"] * 2}],
        [first, {**second, "name": first["name"]}],
    ):
        with pytest.raises(RefusedError, match=r"has an? (organisation|validator) twice"):
            read_trust(json.dumps({**document, "organisations": organisations}).encode())
    whole = json.dumps(document)
    for once, key in ((whole, "organisations"), (json.dumps({**document, "organisations": [first]}), "validators")):
        place = once.index(f'"{key}"')
        with pytest.raises(RefusedError, match=f"has the key '{key}' twice in one object"):
            read_trust((once[:place] + f'"{key}": [], ' + once[place:]).encode())
    for organisations in ([], [{**first, "validators": []}]):
        with pytest.raises(RefusedError, match="lacks validators"):
            read_trust(json.dumps({**document, "organisations": organisations}).encode())
    wrong = first["validators"][0][:-1] + ("A" if first["validators"][0][-1] != "A" else "B")
    for changes in ({"date": "soon"}, {"organisations": [{**first, "validators": [wrong]}]}, {"organisations": 3}):
        with pytest.raises(RefusedError, match="cannot be read"):
            read_trust(json.dumps({**document, **changes}).encode())
    with pytest.raises(RefusedError, match="cannot be read"):
        read_trust(b"[]")


def forged(chance: random.Random, true: bytes) -> bytes:
    """The bytes with a bit flipped, a part left out, or one part over another."""
    content, at, what = bytearray(true), chance.randrange(len(true)), chance.random()
    if what < 0.7:
        content[at] ^= 1 << chance.randrange(8)
    elif what < 0.85:
        del content[at : at + chance.randrange(1, 400)]
    else:
        start = chance.randrange(len(content))
        content[at : at + 40] = content[start : start + 40]
    return bytes(content)


@pytest.mark.parametrize("count", [300, pytest.param(10_000, marks=pytest.mark.slow)])
def test_no_random_forgery_is_accepted(case: Case, count: int) -> None:
    """No changed proof is believed; of changed entries only what is so: of any other key, that there is no entry."""
    chance, content = random.Random(count), claims()
    true = read_claims(content).entries
    for _ in range(count):
        proof = forged(chance, case.proof)
        if proof != case.proof:
            refusal(proof, case.trust)
        said = forged(chance, content)
        try:
            confirmed, found = case.judged(said).get("confirmed", []), read_claims(said).entries
        except (RefusedError, OSError):
            continue
        assert [] == [key for key in confirmed if found[key] != true.get(key)]


def test_the_checker_needs_no_other_module(case: Case, tmp_path: Path) -> None:
    """The file is checked where this project is not: a folder with it and the signature package, and nothing else."""
    packages = Path(sysconfig.get_path("platlib"))
    for name in ("nacl", "cffi", "pycparser", *(path.name for path in packages.glob("_cffi_backend*"))):
        if (packages / name).exists():
            (tmp_path / name).symlink_to(packages / name)
    script = tmp_path / "stellar_proof.py"
    script.write_bytes(Path(stellar_proof.__file__).read_bytes())
    files = {
        "proof.json": case.proof,
        "no-proof.json": case.proof[1:],
        "trust.json": trust_document(ORGANISATIONS),
        "true.gz": gzip.compress(claims()),
        "false.gz": gzip.compress(claims({ONE: value(ONE, 11, 120)})),
        "none.gz": gzip.compress(entries_content(PASSPHRASE, 127, CLOSED, {})),
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)

    def check(proof: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-E", "-s", "-S", str(script), proof, "--trust", "trust.json", *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    archive = ("--archive", str(case.made.folder))
    digest = hashlib.sha256(claims()).hexdigest()  # of the unpacked file
    whole = check("proof.json", "--entries", "true.gz", "--sha256", digest, *archive)

    assert (0, "") == (whole.returncode, whole.stderr)
    assert f"proven: ledger 127 of {PASSPHRASE}, closed 2023-11-14 22:15:27+00:00" in whole.stdout
    assert "organisation 3: 3 of 3 validators" in whole.stdout
    assert "days old: a test" in whole.stdout
    assert "proven: 7 of 7 entries of ledger 127" in whole.stdout
    assert "not proven" not in whole.stdout
    assert (0, 9) == (check("proof.json").returncode, check("proof.json", "--entries", "none.gz").returncode)
    for code, said, result in (
        (8, "refused: the entry", check("proof.json", "--entries", "false.gz", *archive)),
        (8, "refused: the proof file cannot be read", check("no-proof.json")),
        (8, "another SHA-256", check("proof.json", "--entries", "true.gz", "--sha256", "00", *archive)),
        (3, "nothing is said: bucket", check("proof.json", "--entries", "true.gz", "--archive", "nowhere")),
        (3, "nothing is said: ", check("missing.json")),
    ):
        assert (code, True) == (result.returncode, said in result.stderr), result
