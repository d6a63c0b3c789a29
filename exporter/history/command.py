"""What ``exporter history`` does: list the files, compact them, export a part."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

from exporter.check.tree_sources import open_tree
from exporter.console import Console
from exporter.history.export import Selection, export_history, read_manifest
from exporter.numbers.wording import counted
from exporter.publishing.compaction import compact_history, plan_compaction
from exporter.stores import open_store
from exporter.tree.documents import HistoryFile, HistoryManifest


def list_history(uri: str, selection: Selection, answers: Console) -> int:
    """Say which files the history of a tree has; gives the exit code."""

    async def read() -> list[HistoryFile]:
        async with open_tree(uri) as source:
            return selection.files((await read_manifest(source)).files)

    files = asyncio.run(read())
    for line, file in zip(_table(files), [None, *files], strict=True):
        facts = {} if file is None else {name: getattr(file, name) for name in file.__struct_fields__}
        if file is not None or not answers.is_json:
            answers.event("file", line, **facts)
    rows, size = sum(file.rows for file in files), sum(file.bytes for file in files)
    total = f"{counted(len(files), 'file')}, {counted(rows, 'row')}, {counted(size, 'byte')}"
    answers.event("total", total, files=len(files), rows=rows, bytes=size)
    return 0


def _table(files: list[HistoryFile]) -> Iterator[str]:
    yield f"{'first ledger':>12} {'last ledger':>12} {'rows':>12} {'bytes':>14}  key"
    for file in files:
        yield f"{file.first_ledger:>12} {file.last_ledger:>12} {file.rows:>12,} {file.bytes:>14,}  {file.key}"


def compact(uri: str, months: int, dry_run: bool, console: Console, answers: Console) -> int:
    """Compact the history of a tree, or say what would be; gives the exit code."""
    manifest = asyncio.run(_manifest(uri))
    store = open_store(uri)
    if dry_run:
        pieces = plan_compaction(manifest, months)
        for piece in pieces:
            text = f"{piece.folder}: {counted(len(piece.files), 'file')}, {counted(piece.rows, 'row')}"
            answers.event("piece", text, folder=piece.folder, files=len(piece.files), rows=piece.rows)
        answers.event("total", f"{counted(len(pieces), 'file')} would be made", files=len(pieces))
        return 0
    with console.step("compact", "compacting the history") as facts:
        done = compact_history(store, months=months)
        facts.update(files_before=done.files_before, files_after=len(done.files))
        facts.update(bytes_before=done.bytes_before, bytes_after=done.bytes_after)
    return 0


async def _manifest(uri: str) -> HistoryManifest:
    async with open_tree(uri) as source:
        return await read_manifest(source)


def export(uri: str, selection: Selection, target: Path, form: str, console: Console, *, raw: bool = False) -> int:
    """Write a part of a history into a file; gives the exit code."""

    async def work() -> None:
        async with open_tree(uri) as source:
            manifest = await read_manifest(source)
            count = len(selection.files(manifest.files))
            with console.step("export", f"writing {target}") as facts, console.progress("files", count) as progress:
                done = await export_history(source, selection, target, form, progress.advance, manifest, raw=raw)
                facts.update(rows=done.rows, files=done.files)

    asyncio.run(work())
    return 0
