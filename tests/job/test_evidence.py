"""The evidence that a run leaves: the whole run can be made of it again, and of nothing that is not exactly it."""

from __future__ import annotations

import gzip
import json
import re
from datetime import timedelta
from pathlib import Path
from tempfile import NamedTemporaryFile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from exporter.errors import NetworkMismatchError, SnapshotFileError, SourceError
from exporter.job import evidence
from exporter.job.evidence import Evidence
from exporter.ledger.source import RawEntry
from exporter.localnet.player import RecordedNetwork
from exporter.localnet.server import Behaviour, create_app, running
from exporter.stores.memory import MemoryStore
from tests.job_runs import NOW, run, settings_for

pytestmark = pytest.mark.usefixtures("without_pages")


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """The id of a run over six protocols, while ledgers close all the time, and the evidence that it left."""
    out = tmp_path_factory.mktemp("evidence") / "out"
    with running(create_app(RecordedNetwork(), Behaviour(advance_every_requests=9))) as url:
        _, facts = run(settings_for(out, url))
    assert facts["certificate"]["uncertified_calls"] or facts["certificate"]["rounds"] > 1
    (path,) = (out / "v1" / "evidence").iterdir()
    return facts["run_id"], path


def test_the_run_is_made_of_it_again(left: tuple[str, Path]) -> None:
    """A run over the evidence has the same id, which is a digest of every page, document and Parquet file."""
    run_id, path = left
    store, later = MemoryStore(), NOW + timedelta(days=400)
    code, facts = run(settings_for(network__max_ledger_age="900s"), store, snapshot=path, now=later)

    assert (code, facts["run_id"]) == (0, run_id)
    assert [f"v1/evidence/{path.name}"] == [info.key for info in store.list("v1/evidence/")]


@pytest.mark.slow
def test_what_was_archived_is_archived_again() -> None:
    """A repeated run marks the same pools as archived, because the evidence says which entries are."""
    first, again = MemoryStore(), MemoryStore()
    network = RecordedNetwork(archived=[pool.key for pool in RecordedNetwork().pools[::7]])
    code, facts = run(settings_for(), first, network=network)
    (info,) = first.list("v1/evidence/")
    content = first.get(info.key)
    assert content is not None
    with NamedTemporaryFile(suffix=".gz") as file:
        Path(file.name).write_bytes(content.data)
        repeated = run(settings_for(network__max_ledger_age="900s"), again, snapshot=Path(file.name))

    assert (0, facts["run_id"]) == (code, repeated[1]["run_id"])
    page = first.get("v1/pools/index.json")
    assert page is not None
    assert any(row["archived"] for row in json.loads(page.data)["data"])


@pytest.mark.slow
def test_a_snapshot_file(mainnet_snapshot_path: Path, tmp_path: Path) -> None:
    """A run of the real ledger 55,261,759 publishes the contract's own numbers, and its evidence gives the same run."""
    mainnet, store = settings_for(network__name="mainnet"), MemoryStore()
    _, facts = run(mainnet, store, snapshot=mainnet_snapshot_path)
    (info,) = store.list("v1/evidence/")
    market = "v1/markets/CDVQVKOY2YSXS2IC7KN6MNASSHPAO7UN2UR2ON4OI2SKMFJNVAMDX6DP.json"
    evidence, published = store.get(info.key), store.get(market)
    assert evidence is not None
    assert published is not None
    document = json.loads(published.data)
    (tmp_path / "evidence").write_bytes(evidence.data)

    assert run(mainnet, MemoryStore(), snapshot=tmp_path / "evidence")[1]["run_id"] == facts["run_id"]
    assert (55261759, 2, None) == (document["observed_ledger"], document["pool_count"], document["tvl_usd_cents"])
    fields = ("symbol", "total_supplied", "total_borrowed", "borrow_apy_bps", "supply_apy_bps", "oracle_price_usd")
    assert [
        ("native", "126430667051058", "1177183034145", 10, 0, None),
        ("USDC", "32967024554566", "21562828886421", 1199, 610, None),
    ] == [tuple(pool[name] for name in fields) for pool in document["pools"]]


def test_of_another_network(left: tuple[str, Path]) -> None:
    """Evidence of one network is refused by a run of another, by name."""
    with pytest.raises(NetworkMismatchError, match=r"evidence of ledger \d+ is of network local, but .* mainnet"):
        run(settings_for(network__name="mainnet"), MemoryStore(), snapshot=left[1])


def test_what_it_does_not_tell(left: tuple[str, Path], tmp_path: Path) -> None:
    """A run that needs an entry or a call that the evidence lacks ends, and says that its maker read something else."""
    whole = Evidence.decode(left[1].read_bytes(), "whole")
    entries, calls = dict(whole.entries), dict(whole.calls)
    del entries[next(iter(entries))]
    del calls[next(iter(calls))]
    for lacking, said in (
        (replace(whole, entries=entries), "the entry"),
        (replace(whole, calls=calls), "what .* returns"),
    ):
        path = tmp_path / "lacking.gz"
        path.write_bytes(lacking.encode())
        with pytest.raises(SourceError, match=f"the evidence does not have {said}"):
            run(settings_for(), MemoryStore(), snapshot=path)


@given(at=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7), cut=st.booleans())
@settings(max_examples=60, deadline=None)
def test_a_damaged_file_is_refused_or_reads_the_same(left: tuple[str, Path], at: float, bit: int, cut: bool) -> None:
    """A damaged file is refused, or has every value of the whole one: a bit of gzip's header may say nothing of them.

    It never causes another error. A file that was cut is always refused.
    """
    data = bytearray(left[1].read_bytes())
    place = int(at * len(data))
    data[place] ^= 1 << bit
    try:
        evidence = Evidence.decode(bytes(data[:place]) if cut else bytes(data), "damaged")
    except SnapshotFileError:
        return
    assert not cut
    assert Evidence.decode(left[1].read_bytes(), "whole") == evidence


def test_evidence_does_not_depend_on_when_a_life_was_extended(left: tuple[str, Path]) -> None:
    """Extending an entry's life changes nothing else of it, so a later reading of the same ledger may find another end.

    That an entry is archived is in the evidence.
    """
    whole = Evidence.decode(left[1].read_bytes(), "whole")

    def with_lives(live_until: int | None) -> bytes:
        entries = {key: raw and replace(raw, live_until=live_until) for key, raw in whole.entries.items()}
        return replace(whole, entries=entries).encode()

    assert with_lives(None) == with_lives(whole.ledger + 1) == with_lives(whole.ledger + 17_280)
    assert with_lives(None) != with_lives(0)


def test_the_line_of_an_entry_is_as_the_docs_show_it() -> None:
    """docs/proofs.md, "The entries file", gives its fields in this order."""
    text = (Path(__file__).parents[2] / "docs" / "proofs.md").read_text(encoding="utf-8")
    [shown] = re.findall(r'`\["entry", (.*?)\]`', text)
    [absent] = re.findall(r'`\["absent", (.*?)\]`', text)
    values: dict[str, object] = {"KEY": "a2V5", "LAST_CHANGE": 7, "LIVE_UNTIL": 0, "DATA": "ZGF0YQ=="}
    evidence = Evidence("network", 9, 5, {b"key": RawEntry(b"data", 7, 0), b"none": None}, {}, ())
    lines = [json.loads(line) for line in gzip.decompress(evidence.encode()).splitlines()]

    assert [["entry", *(values[name] for name in shown.split(", "))]] == [line for line in lines if line[0] == "entry"]
    assert [["absent", "bm9uZQ=="]] == [line for line in lines if line[0] == "absent"]
    assert "KEY" == absent


BEGUN = b'["ledger","p",5,5]\n["looked",true,true,false]\n'


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (b"", "it must start with its ledger"),
        (b"{}\n", "Expected `array`, got `object`"),
        (b'["absent","AAAA"]\n["looked",true,true,false]', "it must start with its ledger"),
        (b" " * 1001, "more than"),
        (BEGUN + b'["entry","AAAA",6,null,"AAAA"]', "an entry changed at 6, after ledger 5"),
        (BEGUN + b'["entry","AAAA",5,9,"AAAA"]', "Invalid enum value 9"),
        (BEGUN + b'["call","C","f",[],null,null]', "f of C must have a result or an error"),
        (BEGUN + b'["absent","AAAA"]\n' * 2, "listed twice"),
        (BEGUN + b'["gossip"]', "unknown kind, 'gossip'"),
        (BEGUN * 2, "of more than one ledger"),
    ],
)
def test_garbage_is_refused_by_what_is_wrong_with_it(lines: bytes, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Garbage is refused by what is wrong with it, and what would fill the memory before it does."""
    monkeypatch.setattr(evidence, "EVIDENCE_BYTES", 1000)
    with pytest.raises(SnapshotFileError, match=said):
        Evidence.decode(gzip.compress(lines), "garbage")
