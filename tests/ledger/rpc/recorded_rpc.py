"""A server that answers as a real one did: from the exchanges of a run with stellar-rpc, recorded on the wire.

Simulations are answered by their transactions, and entries by their keys, in whatever order and grouping they are asked
for now; entries that were not asked for then, from the state that the server served. No ledger of the recording changed
anything, so every entry is of each of its ledgers.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from exporter.ledger.source import RawEntry

_Json = dict[str, Any]


def exchanges(path: Path) -> list[tuple[_Json, _Json]]:
    """The requests and answers of a file of JSON lines."""
    lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return [(line["request"], line["response"]) for line in lines]


class RecordedRpc:
    """The recording as an application. ``unknown`` has every question that the recording does not answer."""

    def __init__(self, path: Path, state: Mapping[bytes, RawEntry]) -> None:
        self.unknown: list[_Json] = []
        self._exact: dict[str, _Json] = {}
        self._entries: dict[str, _Json | None] = {_base64(key): _entry(key, entry) for key, entry in state.items()}
        self._asked: dict[str, int] = {}
        self._events: _Json = {}
        self._ledgers: dict[int, _Json] = {}
        for request, answer in exchanges(path):
            params, result = request.get("params", {}), answer.get("result", {})
            self._exact[_question(request)] = answer
            match request["method"]:
                case "getLedgerEntries":
                    self._asked |= dict.fromkeys(params["keys"], result["latestLedger"])
                    self._entries |= dict.fromkeys(params["keys"])
                    self._entries |= {entry["key"]: entry for entry in result["entries"]}
                case "getEvents" if result:
                    self._events = result
                case "getLedgers" if result:
                    self._ledgers[params["startLedger"]] = result
        self.latest = min(self._ledgers)
        self.app = Starlette(routes=[Route("/", self._respond, methods=["POST"])])

    async def _respond(self, request: Request) -> Response:
        asked: _Json = await request.json()
        answer = self._answer(asked)
        if answer is None:
            self.unknown.append(asked)
            return Response("not recorded", 404)
        return JSONResponse(answer | {"id": asked["id"]})

    def _answer(self, asked: _Json) -> _Json | None:
        method, params = asked["method"], asked.get("params", {})
        match method:
            case "getLedgerEntries":
                found = [entry for key in params["keys"] if (entry := self._entries.get(key)) is not None]
                latest = min((self._asked[key] for key in params["keys"] if key in self._asked), default=self.latest)
                return _result({"entries": found, "latestLedger": latest})
            case "getEvents" if params.get("startLedger", 0) >= self._events["oldestLedger"]:
                return _result(self._events)
            case "getEvents":
                reached = f"{self._events['oldestLedger']} - {self._events['latestLedger']}"
                message = f"startLedger must be within the ledger range: {reached}"
                return {"jsonrpc": "2.0", "error": {"code": -32600, "message": message}}
            case "getHealth":  # of version 23, without close times
                facts = {"status": "healthy", "oldestLedger": self._events["oldestLedger"]}
                return _result(facts | {"latestLedger": self.latest, "ledgerRetentionWindow": 120_960})
        return self._exact.get(_question(asked))


def _question(request: _Json) -> str:
    return json.dumps([request["method"], request.get("params")], sort_keys=True)


def _entry(key: bytes, entry: RawEntry) -> _Json:
    answer: _Json = {"key": _base64(key), "xdr": _base64(entry.data), "lastModifiedLedgerSeq": entry.last_modified}
    return answer | ({} if entry.live_until is None else {"liveUntilLedgerSeq": entry.live_until})


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _result(result: _Json) -> _Json:
    return {"jsonrpc": "2.0", "result": result}
