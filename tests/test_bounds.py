"""Bytes that somebody else wrote are unpacked step by step, and refused before they fill the memory."""

from __future__ import annotations

import gzip
import os
import tracemalloc
import zlib
from functools import cache
from pathlib import Path

import pyarrow as pa
import pytest

from exporter.bounds import MIB, Body, Gunzip, TooLargeError, decompress, gzip_lines, read_regular_file
from exporter.errors import DecodeError


@cache
def packed_zeros(times: int) -> bytes:
    """64 MiB of zeros, compressed this many times."""
    return gzip.compress(bytes(64 * MIB) if times == 1 else packed_zeros(times - 1))


@pytest.mark.parametrize("encoding", ["gzip", "gzip, gzip", "gzip, x-gzip", ""])
def test_a_body_costs_no_more_than_its_limit(encoding: str) -> None:
    """A body that unpacks to more than is accepted is refused, however often it was compressed."""
    data = packed_zeros(len(encoding.split())) if encoding else bytes(8 * MIB)
    body = Body(encoding, 4 * MIB)
    tracemalloc.start()
    with pytest.raises(TooLargeError, match="4,194,304 bytes"):
        body.feed(data)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert most < 24 * MIB


@pytest.mark.parametrize("encoding", ["br", "gzip, br", "gzip, gzip, gzip", "deflate", "zstd"])
def test_a_compression_that_was_not_asked_for_is_refused(encoding: str) -> None:
    """Only gzip is asked for, and nobody compresses three times."""
    with pytest.raises(DecodeError, match="not asked for"):
        Body(encoding, MIB)


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_bodies_come_in_pieces(step: int) -> None:
    """A body is the same in whatever pieces it comes, compressed or not, and in several members."""
    content = bytes(range(256)) * 3
    members = gzip.compress(content[:300]) + gzip.compress(content[300:])
    for encoding, data in (
        ("", content),
        ("identity", content),
        ("gzip", members),
        ("gzip, gzip", gzip.compress(members)),
    ):
        body = Body(encoding, 2**20)
        for begin in range(0, len(data), step):
            body.feed(data[begin : begin + step])
        assert content == body.finish()
    assert b"" == Body("gzip", 10).finish()  # as of an answer without a body


def test_damaged_gzip_is_refused() -> None:
    """Gzip that ends too early, is damaged, or is followed by something else raises one kind of error."""
    whole = gzip.compress(b"content" * 100)
    for data in (whole[:-1], whole[:20], b"x" * 50, whole + b"x", whole[:30] + b"\xff\xff\xff" + whole[33:]):
        body = Body("gzip", MIB)
        with pytest.raises(DecodeError):  # noqa: PT012 - either of both finds it
            body.feed(data)
            body.finish()


def test_lines_of_gzip() -> None:
    """Lines come with their ends; too many bytes, a line that is too long, and damage are refused."""
    lines = [b"one\n", b"\n", b"three\n", b"last"]

    assert lines == list(gzip_lines(gzip.compress(b"".join(lines)), 100, 10))
    for content, most, longest in ((b"a\n" * 51, 101, 10), (b"a" * 11, 100, 10), (b"a" * 10 + b"\n", 100, 10)):
        with pytest.raises(TooLargeError):
            list(gzip_lines(gzip.compress(content), most, longest))
    with pytest.raises(DecodeError, match="ends too early"):
        list(gzip_lines(b"", 100, 10))


def test_a_zstd_frame_of_any_size() -> None:
    """A frame within the limit is unpacked; a larger one is refused at the limit."""
    data = pa.compress(bytes(8 * MIB), codec="zstd", asbytes=True)

    assert bytes(8 * MIB) == decompress(data, 8 * MIB)
    with pytest.raises(TooLargeError):
        decompress(data, 8 * MIB - 1)
    with pytest.raises(DecodeError, match="not zstd"):
        decompress(b"no frame", MIB)


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    """A file up to the limit is read; a larger one, a sparse one and a link are refused; a pipe has nothing."""
    file, sparse, link, pipe = (tmp_path / name for name in ("file", "sparse", "link", "pipe"))
    file.write_bytes(b"content")
    with sparse.open("wb") as opened:
        opened.truncate(2**40)
    link.symlink_to("/dev/zero")
    os.mkfifo(pipe)

    assert b"content" == read_regular_file(file, 7)
    assert [None, None] == [read_regular_file(path) for path in (pipe, tmp_path)]
    for path, most in ((file, 6), (sparse, 2**30)):
        with pytest.raises(TooLargeError):
            read_regular_file(path, most)
    with pytest.raises(OSError, match="symbolic links"):
        read_regular_file(link)


def test_steps_are_small() -> None:
    """One piece of a bomb gives steps of at most a mebibyte."""
    steps = list(Gunzip(2**30).feed(zlib.compress(bytes(5 * MIB), wbits=31)))

    assert [MIB] * 5 == [len(step) for step in steps]
