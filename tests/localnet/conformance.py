"""68 questions that an unmodified stellar-rpc v23.0.4 was asked, right and wrong ones, and how an answer is compared.

The recorded server was at ledger `LATEST`, over the state of the testnet archive in ../shared/data/real at `OLDEST`.
"""

from __future__ import annotations

import json
from collections.abc import Set
from pathlib import Path
from typing import Any

import httpx
import pytest

OLDEST, LATEST = 10_047, 10_111
TESTNET = "Test SDF Network ; September 2015"

LATER = {"latestLedgerCloseTime", "oldestLedgerCloseTime", "closeTime", "headerXdr", "metadataXdr"}
"""Fields that getHealth and getLatestLedger got in versions after 23."""


def recorded_questions(real_data: Path) -> dict[str, dict[str, Any]]:
    """The recorded questions and answers, by name."""
    path = real_data / "stellar-rpc" / "conformance.json"
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    return {item["name"]: item for item in json.loads(path.read_bytes())}


def request_of(item: dict[str, Any]) -> httpx.Request:
    """A question as it was asked, to the server at ``http://localnet``."""
    types = {"text content type": "text/plain", "charset": "application/json; charset=utf-8"}
    headers = {"content-type": types.get(item["name"], "application/json")}
    method = item["name"] if item["name"] in ("GET", "OPTIONS", "PUT") else "POST"
    url = "http://localnet" + item.get("path", "/")
    return httpx.Request(method, url, headers=headers, content=item.get("request", "").encode())


def answer_differences(answer: httpx.Response, item: dict[str, Any], own: Set[str]) -> list[str]:
    """Where an answer differs from the recorded one. Fields in ``own`` only need to have the same type."""
    kind = item["headers"].get("content-type")
    head = {"status": answer.status_code, "content-type": answer.headers.get("content-type")}
    found = _differences(head, {"status": item["status"], "content-type": kind}, own, "http")
    if kind == "application/json":
        return found + _differences(answer.json(), json.loads(item["body"]), own, "$")
    return found if answer.text == item["body"] else [*found, f"the body is {answer.text!r}, not {item['body']!r}"]


def _differences(found: Any, recorded: Any, own: Set[str], place: str) -> list[str]:
    name = place.rpartition(".")[2]
    if isinstance(found, dict) and isinstance(recorded, dict):
        extra = found.keys() - recorded.keys() - LATER
        wrong = [f"{place} has or lacks {key}" for key in sorted(extra | recorded.keys() - found.keys())]
        both = found.keys() & recorded.keys()
        return wrong + [
            text for key in sorted(both) for text in _differences(found[key], recorded[key], own, f"{place}.{key}")
        ]
    if type(found) is not type(recorded):
        return [f"{place} is a {type(found).__name__}, not a {type(recorded).__name__}"]
    if name in own and place != "$.id":
        return []
    if isinstance(found, list) and len(found) == len(recorded):
        pairs = enumerate(zip(found, recorded, strict=True))
        return [text for index, (one, other) in pairs for text in _differences(one, other, own, f"{place}[{index}]")]
    if place == "$.result.error":  # below its first line are the host's events and the program's stack
        found, recorded = found.partition("\n")[0], recorded.partition("\n")[0]
    if place == "$.error.data" and recorded.startswith("json: cannot unmarshal"):  # the types of the server's language
        found, recorded = found[: len("json: cannot unmarshal")], "json: cannot unmarshal"
    return [] if found == recorded else [f"{place} is {found!r}, not {recorded!r}"]
