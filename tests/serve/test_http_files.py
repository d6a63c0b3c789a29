"""Range and If-None-Match, and sending a part of an open file."""

from __future__ import annotations

import asyncio
import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.serve.folder_tree import CHUNK_BYTES, FileResponse, byte_range, etag_matches


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, None),
        ("", None),
        ("bytes=0-0", range(1)),
        ("bytes=0-9", range(10)),
        ("bytes=0-99", range(10)),
        ("bytes=4-", range(4, 10)),
        ("bytes=-4", range(6, 10)),
        ("bytes=-99", range(10)),
        ("Bytes=0-0", range(1)),
        (" bytes=0-0 ", range(1)),
        # No byte of the file is among these.
        ("bytes=10-", range(10, 10)),
        ("bytes=10-20", range(10, 10)),
        ("bytes=-0", range(10, 10)),
        # These cannot be understood, or ask for more than one range, and may be ignored.
        ("bytes=5-4", None),
        ("bytes=-", None),
        ("bytes=0-1,4-5", None),
        ("bytes=a-b", None),
        ("bytes=0-1\n", range(2)),
        ("bytes=\u0660-", None),
        ("items=0-1", None),
        ("bytes=" + "9" * 5000 + "-", None),
    ],
)
def test_ranges(header: str | None, expected: range | None) -> None:
    """A range header gives the positions it asks for, nothing when it is ignored, or none of the file."""
    assert expected == byte_range(header, 10)


@pytest.mark.parametrize("header", ["bytes=0-", "bytes=0-0", "bytes=-1"])
def test_an_empty_file_has_no_range(header: str) -> None:
    """No range of an empty file can be sent."""
    part = byte_range(header, 0)

    assert part is not None
    assert not part


@given(st.text(max_size=30), st.integers(0, 1000))
def test_ranges_stay_inside_the_file(text: str, size: int) -> None:
    """Whatever the header says, no position outside the file is read."""
    for header in (text, f"bytes={text}"):
        part = byte_range(header, size)
        if part:
            assert 0 <= part.start < part.stop <= size
            assert 1 == part.step


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, False),
        ("", False),
        ('"abc"', True),
        ('W/"abc"', True),
        ('"x", "abc"', True),
        ('"x",W/"abc" ', True),
        ("*", True),
        ('"x"', False),
        ("abc", False),
        ('"ABC"', False),
    ],
)
def test_etags_match_weakly(header: str | None, expected: bool) -> None:
    """If-None-Match names an ETag alone, in a list, weakly, or all of them by a star."""
    assert expected is etag_matches(header, '"abc"')


def sent(response: FileResponse, method: str = "GET") -> list[dict[str, Any]]:
    """The messages that a response sends."""
    messages: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        messages.append(message)

    asyncio.run(response({"type": "http", "method": method}, receive, send))
    return messages


def test_large_parts_are_sent_in_pieces() -> None:
    """A part of a large file is read piece by piece, and the file is closed after it."""
    content = bytes(range(256)) * (CHUNK_BYTES // 64)
    file = io.BytesIO(content)
    messages = sent(FileResponse(file, 3, len(content) - 5, 206, {"etag": '"a"'}))

    assert content[3:-2] == b"".join(message["body"] for message in messages[1:])
    assert max(len(message["body"]) for message in messages[1:]) == CHUNK_BYTES
    assert [True] * (len(messages) - 2) + [False] == [message["more_body"] for message in messages[1:]]
    assert (206, str(len(content) - 5).encode()) == (
        messages[0]["status"],
        dict(messages[0]["headers"])[b"content-length"],
    )
    assert file.closed


def test_head_sends_no_bytes() -> None:
    """HEAD says the length and sends nothing."""
    file = io.BytesIO(b"abc")
    messages = sent(FileResponse(file, 0, 3, 200, {}), "HEAD")

    assert b"3" == dict(messages[0]["headers"])[b"content-length"]
    assert [b""] == [message["body"] for message in messages[1:]]
    assert file.closed


def test_the_file_is_closed_when_the_client_is_gone() -> None:
    """A client that goes away in the middle leaves no open file behind."""
    file = io.BytesIO(bytes(10 * CHUNK_BYTES))
    response = FileResponse(file, 0, 10 * CHUNK_BYTES, 200, {})

    async def receive() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.body":
            raise OSError("connection lost")

    with pytest.raises(OSError, match="connection lost"):
        asyncio.run(response({"type": "http", "method": "GET"}, receive, send))
    assert file.closed
