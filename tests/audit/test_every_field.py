"""No field of any record of a tree can be changed without `exporter verify` saying so, as docs/proofs.md promises."""

from __future__ import annotations

import gzip
import io
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from exporter.audit.unproven import UnprovenReason
from exporter.cli import main
from exporter.errors import ExitCode
from exporter.history import liquidations_table
from exporter.history.manifest import file_reference
from exporter.job.evidence_lines import LINE_KINDS
from exporter.publishing.sweep_state import SWEEP_STATE_KEY, SweepState
from exporter.tree import documents
from exporter.tree.families import HISTORY_MANIFEST_KEY, INTENT_KEY, LIQUIDATIONS, PROOFS, STATUS_KEY
from tests.audit.archived_runs import ArchivedRuns
from tests.audit.trees import Files, digest, encoded, manifest_of, read, seal, status_of, write
from tools.generated_docs import ROOT

REFUTED, STATED = "8", "stated"

RECORDS = (
    documents.SystemStatus,
    documents.RunManifest,
    documents.RunSettings,
    documents.RunInput,
    documents.ManifestFile,
    documents.HistoryManifest,
    documents.HistoryFile,
    documents.HistoryRollup,
    documents.Transitions,
    documents.LiquidationsFile,
    documents.LedgerSpan,
    documents.ProofList,
    documents.Proof,
    documents.Census,
    documents.Intent,
)
"""The documents that no run lists as its own, whose fields the table has one by one. All others are compared whole."""


def table() -> dict[str, str]:
    """How each field is reported, by its name in docs/proofs.md: `REFUTED`, `STATED` or a reason."""
    text = (ROOT / "docs/proofs.md").read_text()
    rows = text.partition("Field | Follows from | Otherwise\n---|---|---\n")[2].partition("\n\n")[0].splitlines()
    found: dict[str, str] = {}
    for row in rows:
        names, _, how = (cell.strip() for cell in row.split("|"))
        record, *fields = re.findall(r"`([^`]+)`", names)
        for name in fields:
            assert f"{record}.{name}" not in found, f"{record}.{name} has two rows"
            found[f"{record}.{name}"] = how.strip("`")
    return found


def test_every_field_has_a_row() -> None:
    """Each field of a record that is not compared whole has one row in docs/proofs.md, and no row is of another."""
    expected = {f"{model.__name__}.{name}" for model in RECORDS for name in model.__struct_fields__}
    expected |= {f"sweep.{name}" for name in SweepState.__struct_fields__}
    for word, line in LINE_KINDS.items():
        expected |= {f"evidence {word}.{at}" for at in range(1, 1 + len(line.__struct_fields__))}
    found = table()

    assert sorted(expected) == sorted(found)
    assert {*found.values()} <= {REFUTED, STATED, *UnprovenReason}


class Base:
    """A tree of two proven runs with each kind of record, and the result of verifying it unchanged."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.runs = folder, ArchivedRuns(folder)
        for number in range(2):
            self.runs.publish(folder / "out", number, schedule__interval="10m")
        self.files = read(folder / "out")
        self._add_records()
        self.said = self.verify(self.files)

    def _add_records(self) -> None:
        row = (127, 1_700_000_000_000_000, 0, "blend", MARKET, "claim", None, MARKET, None, None, None, MARKET, 7)
        table = pa.table(
            [pa.array([value], kind.type) for value, kind in zip(row, liquidations_table.SCHEMA, strict=True)],
            schema=liquidations_table.SCHEMA,
        )
        data = liquidations_table.encode_table(pl.DataFrame(pl.from_arrow(table)))
        spans = [documents.LedgerSpan(100, 130)]
        key = LIQUIDATIONS.only_key
        entry = documents.LiquidationsFile(key, file_reference(key), 1, len(data), digest(data), spans)
        manifest = msgspec.json.decode(self.files[HISTORY_MANIFEST_KEY], type=documents.HistoryManifest)
        transitions = [documents.Transitions("blend", None, 3, 1, 2)]
        manifest = msgspec.structs.replace(manifest, liquidations=entry, transitions=transitions)
        self.files |= {key: data, HISTORY_MANIFEST_KEY: documents.encode(manifest)}

    def verify(self, files: Files) -> Result:
        write(files, out := self.folder / f"tree-{digest(b''.join(files.values()))[:12]}")
        options = [option for archive in self.runs.archives for option in ("--archive", archive)]
        return CliRunner().invoke(main, ["verify", str(out), *options, "--trust", str(self.runs.trust)])


MARKET = "CAI5QR4JZXO7ZCIS45V7QGA4B232XYC6V23KMIRVCZFY66KKKPHPP5SR"
OTHER = "CCVUGW4ME72W6ZTYJBOJ2NYKKNMFJR5OHBWS62TV5KZR2SSR2ZLXCREY"


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Base:
    return Base(tmp_path_factory.mktemp("every-field"))


def stated(result: Result) -> str:
    """The line of the publisher's statements."""
    return next(line for line in result.output.splitlines() if line.startswith("stated by the publisher"))


def reasons(result: Result) -> dict[str, str]:
    return dict(re.findall(r"^not proven \((\w+)\): (.*)$", result.output, re.MULTILINE))


def other(value: Any) -> Any:
    """Another value of the same type and form."""
    match value:
        case None:
            return "2023-11-14T22:00:00Z"
        case bool():
            return not value
        case int():
            return value + 1
        case list():
            return [*value, value[0]] if value else ["x"]
        case dict():
            return {**value, "x": 1}
        case str() if re.fullmatch(r"\d{4}-\d\d-\d\dT.*Z", value):
            return f"{value[:-3]}{(int(value[-3:-1]) + 1) % 60:02}Z"
        case str() if re.search(r"[0-9a-f]{12}", value):
            return re.sub(r"[0-9a-f](?=[0-9a-f]{11})", lambda found: "1" if found[0] != "1" else "2", value, count=1)
        case str() if value.startswith("C") and len(value) == 56:
            return OTHER
        case str():
            return f"{value}x"
    raise AssertionError(value)


def edit(files: Files, key: str, how: Callable[[Any], object]) -> None:
    document = json.loads(files[key])
    how(document)
    files[key] = encoded(document)


def at(record: str, document: Any) -> Any:
    """The first object of a record in the document that has it."""
    match record:
        case "RunSettings":
            return document["settings"]
        case "RunInput":
            return document["inputs"][0]
        case "HistoryFile":
            return document["files"][0]
        case "HistoryRollup":
            return document["rollups"][0]
        case "Transitions":
            return document["transitions"][0]
        case "LiquidationsFile":
            return document["liquidations"]
        case "LedgerSpan":
            return document["liquidations"]["spans"][0]
        case "Proof":
            return document["proofs"][0]
    return document


def key_of(files: Files, record: str) -> str:
    match record:
        case "SystemStatus":
            return STATUS_KEY
        case "RunManifest" | "RunSettings" | "RunInput":
            return str(status_of(files)["manifest_key"])
        case "ProofList" | "Proof":
            return PROOFS.only_key
        case "Intent":
            return INTENT_KEY
        case "sweep":
            return SWEEP_STATE_KEY
    return HISTORY_MANIFEST_KEY


def change_record(files: Files, record: str, name: str) -> None:
    """Change one field and, if only the publisher decides it, what must agree with it."""
    key = key_of(files, record)

    def how(document: Any) -> None:
        place = at(record, document)
        special = {"replaced_ledger": 100, "public_url": "https://elsewhere.example"}
        place[name] = special[name] if name in special else other(place.get(name))

    if record == "sweep":
        run = f"v1/runs/{status_of(files)['previous_run_id']}.json"
        known: Any = {"superseded": {run: 7}, "history": {}, "began": {run: 5}, "settled": [run], "expired": []}
        known |= {"whole": 3}
        known[name] = (
            {"history/pools/date=2023-11-14/127.parquet": {"since": 9, "by": None}}
            if name == "history"
            else known[name]
        )
        files[key] = encoded(known)
        return
    edit(files, key, how)
    if name == "market_pools_cap" and record == "RunSettings":
        edit(files, STATUS_KEY, lambda status: status.update(market_pools_cap=status[name] + 1))
    if record in ("RunManifest", "RunSettings", "RunInput"):
        edit(files, STATUS_KEY, lambda status: status.update(manifest_sha256=digest(files[key])))
    if (record, name) in (("SystemStatus", "generated_at"), ("RunManifest", "published_at")):
        moment = json.loads(files[key])[name]
        edit(files, key_of(files, "RunManifest"), lambda manifest: manifest.update(published_at=moment))
        sha256 = digest(files[key_of(files, "RunManifest")])
        edit(files, STATUS_KEY, lambda status: status.update(generated_at=moment, manifest_sha256=sha256))
        edit(files, INTENT_KEY, lambda intent: intent.update(started_at=moment))


def change_listing(files: Files, name: str) -> None:
    """Change a column of the first row in the list of the run's files."""
    listing = manifest_of(files)["files_key"]
    table = pq.read_table(io.BytesIO(files[listing])).to_pydict()
    first = table[name][0]
    table[name][0] = bytes([first[0] ^ 1]) + first[1:] if isinstance(first, bytes) else other(first)
    if name == "kind":
        table[name][0] = "history"
    target = io.BytesIO()
    pq.write_table(pa.table(table), target)
    files[listing] = target.getvalue()
    edit(files, key_of(files, "RunManifest"), lambda manifest: manifest.update(files_sha256=digest(files[listing])))
    sha256 = digest(files[key_of(files, "RunManifest")])
    edit(files, STATUS_KEY, lambda status: status.update(manifest_sha256=sha256))


EXTRA = {
    "skipped": ["skipped", "blend", OTHER, "time"],
    "excluded": ["excluded", OTHER],
    "contract": ["contract", "blend", "v2", "emitter", OTHER],
    "notice": ["notice", "All is well"],
    "absent": ["absent", "AAAABgAAAAG1Q1uMJ/Vvl1hLpu0xv4hTOwv2I3yC9g0fQOl1+3N1hAAAABQAAAAB"],
    "call": ["call", OTHER, "decimals", [], "AAAAAwAAAAc=", None],
}


def change_evidence(files: Files, word: str, place: int) -> None:
    """Change one place of a line, or add such a line where there is none, with every name that follows from it."""
    old = str(status_of(files)["evidence_key"])
    lines = [json.loads(line) for line in gzip.decompress(files.pop(old)).splitlines()]
    line = next((line for line in lines if line[0] == word), None)
    if line is None:
        entries = next(at for at, line in enumerate(lines) if line[0] in ("entry", "absent"))
        lines.insert(len(lines) if word == "call" else entries, EXTRA[word])
    elif word == "entry" and place in (1, 4):  # XDR in base64
        line[place] = line[place][:-8] + ("AAAA" if line[place][-8:-4] != "AAAA" else "BBBB") + line[place][-4:]
    else:
        line[place] = OTHER if line[place] is None else 0 if word == "entry" and place == 3 else other(line[place])
    data = gzip.compress(b"".join(encoded(line) + b"\n" for line in lines), mtime=0)
    new = f"v1/evidence/{digest(data)}.jsonl.gz"
    files[new] = data
    edit(files, STATUS_KEY, lambda status: status.update(evidence_key=new))
    edit(files, PROOFS.only_key, lambda listed: listed["proofs"][0].update(evidence_key=new))
    seal(files, new)
    edit(files, INTENT_KEY, lambda intent: intent.update(run_id=status_of(files)["run_id"]))


def cases() -> Iterator[Any]:
    for field, how in table().items():
        record, _, name = field.rpartition(".")
        if record != "Census":
            yield pytest.param(record, name, how, id=field, marks=() if field in FEW else pytest.mark.slow)


FEW = ("SystemStatus.retention_hours", "HistoryRollup.rows", "Proof.changed_since")
"""The fields that the fast suite changes; the slow one changes all."""


@pytest.mark.parametrize(("record", "name", "how"), list(cases()))
def test_no_changed_field_passes(base: Base, record: str, name: str, how: str) -> None:
    """A change ends with 8, adds to the reason that docs/proofs.md names, or is in the line of statements."""
    files = dict(base.files)
    if record == "ManifestFile":
        change_listing(files, name)
    elif record.startswith("evidence "):
        change_evidence(files, record.removeprefix("evidence "), int(name))
    else:
        change_record(files, record, name)
    result = base.verify(files)

    if how == REFUTED:
        expected = ExitCode.CONFIG if name == "format" else ExitCode.REFUTED  # a later one is of a later version
        assert expected == result.exit_code, result.output
    elif how == STATED:
        assert ExitCode.UNPROVEN == result.exit_code, result.output
        assert stated(base.said) != stated(result)
    else:
        assert result.exit_code in (ExitCode.UNPROVEN, ExitCode.REFUTED), result.output
        assert result.exit_code == ExitCode.REFUTED or how in reasons(result), result.output
