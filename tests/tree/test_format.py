"""Trees of another format: what every command says about them, and that a run loses nothing of an earlier one."""

from __future__ import annotations

import json
import re
import shutil
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

import exporter
from exporter import FORMAT, __version__
from exporter.audit.published_tree import check_files
from exporter.cli import main
from exporter.config import Settings
from exporter.errors import ExitCode, FormatError
from exporter.history.manifest import read_history_manifest
from exporter.localnet.player import RecordedNetwork
from exporter.localnet.server import create_app, running
from exporter.stores.folder import FolderStore
from exporter.tree.decoding import refuse_other_format
from exporter.tree.families import HISTORY_MANIFEST_KEY, STATUS_KEY
from tests.audit.trees import tree_of, write
from tests.job_runs import settings_for
from tests.localnet.recorded import BLEND_V1, only

pytestmark = pytest.mark.usefixtures("without_pages")

EARLIER, LATER = "was made by an earlier version", "was made by a later version"

READERS = (
    *((command, "{out}") for command in ("check", "verify", "prove")),
    ("history", "list", "{out}"),
    ("history", "export", "{out}", "--out", "{out}.csv"),
    ("history", "compact", "{out}"),
    ("status", "{out}", "--max-age", "1000s"),
    ("serve", "--out", "{out}", "--port", "0"),
    ("backfill", "--network", "local", "--out", "{out}", "--lake", "{out}"),
)


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tree of three runs."""
    files = tree_of(RecordedNetwork(), BLEND_V1, runs=3, apart=timedelta(0))
    return write(files, tmp_path_factory.mktemp("published") / "out")


def settings(out: Path, url: str) -> Settings:
    return settings_for(out, url, output__report=str(out.with_name("report.json")), **only(BLEND_V1))


def numbered(out: Path, number: int | None, *keys: str) -> None:
    """Give documents of a tree another format number; None: what documents had before the first number."""
    for key in keys:
        document = json.loads((out / key).read_bytes())
        if number is None:
            document["schema_version"] = document.pop("format")
        else:
            document["format"] = number
        (out / key).write_bytes(msgspec.json.encode(document))


def bytes_of(out: Path) -> dict[str, bytes]:
    return {str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("number", "said", "advice"),
    [(None, EARLIER, "publish once with this one"), (FORMAT + 1, LATER, "update the exporter")],
)
@pytest.mark.parametrize("command", READERS, ids=" ".join)
def test_every_reading_command_names_another_format_and_stops(
    published: Path, tmp_path: Path, command: tuple[str, ...], number: int | None, said: str, advice: str
) -> None:
    """Every command that reads a tree names its format, ends with exit code 2, and changes nothing."""
    out = Path(shutil.copytree(published, tmp_path / "out"))
    numbered(out, number, STATUS_KEY, HISTORY_MANIFEST_KEY)
    before = bytes_of(out)
    result = CliRunner().invoke(main, [part.format(out=out) for part in command])

    assert ExitCode.CONFIG == result.exit_code, result.output
    assert said in result.output
    assert advice in result.output
    assert before == bytes_of(out)


@pytest.mark.parametrize("key", [STATUS_KEY, HISTORY_MANIFEST_KEY])
def test_a_run_over_a_later_format(published: Path, tmp_path: Path, key: str) -> None:
    """A run refuses a tree of a later format before it writes anything or asks the network anything."""
    out = Path(shutil.copytree(published, tmp_path / "out"))
    numbered(out, FORMAT + 1, key)
    before = bytes_of(out)
    with pytest.raises(FormatError, match=f"{re.escape(key)} {LATER} .*: update the exporter") as refused:
        exporter.run(settings(out, "http://127.0.0.1:9/"))

    assert ExitCode.CONFIG == refused.value.exit_code
    assert before == bytes_of(out)


def test_a_run_over_an_earlier_format(published: Path, tmp_path: Path) -> None:
    """A run publishes over a tree of an earlier format, goes on with its history, and the tree passes its check."""
    out = Path(shutil.copytree(published, tmp_path / "out"))
    numbered(out, None, STATUS_KEY, HISTORY_MANIFEST_KEY)
    earlier = read_history_manifest(FolderStore(out), older=True)
    network = RecordedNetwork()
    for _ in range(5):
        network.advance()
    with running(create_app(network)) as url:
        result = exporter.run(settings(out, url))
    later = read_history_manifest(FolderStore(out))

    assert result.published
    assert earlier is not None
    assert later is not None
    assert earlier.files == later.files[:-1]
    assert FORMAT == json.loads((out / STATUS_KEY).read_bytes())["format"]
    assert check_files(str(out)).complete


@pytest.mark.parametrize("data", [b"[]", b"{", b"{}", b'{"format":"1"}'])
def test_a_document_without_readable_number_has_no_format(data: bytes) -> None:
    """A document without a readable number has no format."""
    with pytest.raises(msgspec.DecodeError):
        refuse_other_format("a document", data)


def test_the_version_is_printed_with_the_format() -> None:
    """``exporter --version`` says both."""
    assert f"exporter {__version__}, format {FORMAT}\n" == CliRunner().invoke(main, ["--version"]).output
