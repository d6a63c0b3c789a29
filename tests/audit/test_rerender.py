"""A published run is rendered again from its evidence: every file comes out byte for byte, and a wrong one is named."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import exporter
from exporter.audit.fetched_tree import fetch
from exporter.audit.rerender import Rerendered, rerender
from exporter.errors import CheckError
from exporter.tree.families import CHANGES, DATA_PACKAGE, OPENAPI_KEY, STATUS_KEY
from tests.audit.trees import (
    Files,
    add_listed,
    change,
    good_tree,
    lie,
    listed_of,
    seal,
    small_tree,
    status_of,
    summaries,
    write,
)


def rerendered(files: Files, folder: Path) -> Rerendered:
    (folder / "again").mkdir()
    tree = asyncio.run(fetch(str(write(files, folder / "tree")), folder / "again", 0))
    return rerender(tree)


def test_every_file_comes_out_byte_for_byte(tmp_path: Path) -> None:
    """The check of a good tree says how many files of the run were rendered again: all of them."""
    files = good_tree()
    looked = exporter.check_tree(str(write(files, tmp_path)))

    assert (len(listed_of(files)), None) == (looked.rerendered, looked.not_rerendered)


def test_every_wrong_file_is_named(tmp_path: Path) -> None:
    """One byte more in any file that the run rendered is seen, although every digest fits.

    JSON has the same values with a space at its end, and is named as such; no other file has.
    """
    files = good_tree()
    read = {status_of(files)["evidence_key"], CHANGES.only_key}  # which it is rendered from
    wrong = [entry.key for entry in listed_of(files) if entry.key not in read]
    for key in wrong:
        files[key] += b" "
    files[DATA_PACKAGE.only_key] = (
        files[DATA_PACKAGE.only_key].strip().replace(b"Lending", b"Sending", 1)
    )  # which is read
    seal(files)
    made = rerendered(files, tmp_path)
    recoded = [key for key in wrong if key.endswith(".json") and key != DATA_PACKAGE.only_key]

    assert sorted(recoded) == sorted(made.recoded)
    assert dict.fromkeys(sorted({*wrong} - {*recoded}), "does not follow from the run's evidence") == made.different
    assert len(read) == made.same


def test_every_wrong_document_is_named(tmp_path: Path) -> None:
    """A key more, or a key that is there twice, is another document, in any file of JSON that the run rendered."""
    files = good_tree()
    read = {CHANGES.only_key, DATA_PACKAGE.only_key}
    wrong = [entry.key for entry in listed_of(files) if entry.key.endswith(".json") and entry.key not in read]
    for number, key in enumerate(wrong):
        first, value = files[key].partition(b":")[::2]
        assert first.startswith(b"{"), key
        files[key] = first + b":0," + first[1:] + b":" + value if number % 2 else b'{"more":0,' + files[key][1:]
    seal(files)

    assert (
        dict.fromkeys(sorted(wrong), "does not follow from the run's evidence") == rerendered(files, tmp_path).different
    )


def test_the_check_names_documents_in_other_bytes(tmp_path: Path) -> None:
    """No library writes JSON otherwise than compact and in the model's order, so such a file is a fault of its own."""
    files, key = small_tree(), OPENAPI_KEY
    files[key] += b" "
    seal(files)

    with pytest.raises(CheckError, match=f"{key}: not in canonical form"):
        exporter.check_tree(str(write(files, tmp_path)))


def test_a_file_too_many_and_one_too_few(tmp_path: Path) -> None:
    """The listing of the run has what its evidence gives, and nothing else."""
    files = small_tree()
    lost = summaries(files)[0]
    del files[lost]
    seal(files)
    add_listed(files, "v1/strange.json", b"{}")
    made = rerendered(files, tmp_path)

    assert {
        lost: "is not among the run's files",
        "v1/strange.json": "does not follow from the run's evidence",
    } == made.different


def test_a_wrong_status(tmp_path: Path) -> None:
    """What the status says about the run follows from the evidence, too."""
    files = small_tree()
    change(files, STATUS_KEY, lambda status: status.update(unpriced_bps=1))

    with pytest.raises(CheckError, match=r"expected \$.unpriced_bps .* but found '1'"):
        rerendered(files, tmp_path)


def test_a_tree_of_another_version_is_not_rendered_again(tmp_path: Path) -> None:
    """Another version may render otherwise; the check says that it did not compare."""
    files = small_tree()
    lie(files, OPENAPI_KEY, lambda document: document["info"].update({"x-exporter-version": "0.0.1"}))
    looked = exporter.check_tree(str(write(files, tmp_path)))

    assert 0 == looked.rerendered
    assert f"not rendered again: version 0.0.1 wrote it, and this is {exporter.__version__}" == looked.lines()[-1]
