"""Many read-only calls in one simulation, through a router: a contract that makes calls for others.

The router is Creit Tech's v1 (docs/rpc.md, "Router"): its ``exec`` gives a vector of results, with an error value in
the place of a call that fails. It is somebody else's contract, so a bundle must cost no price that a call of its own
would have given (docs/decisions.md, "Prices in bundles through a router"):

* Only functions that read are asked for through it, and a bundle that writes anything is not used.
* The bundle's footprint counts as each call's own, and must have the contract of every call.
* Of the bundles that go out together one call, which the router cannot foresee, is asked for without it too.
* What a bundle gives no result for is asked for alone; after one that cannot be used the router is left alone.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from exporter.errors import DecodeError, SourceError
from exporter.ledger.codec import scval, strkey
from exporter.ledger.codec.entries import code_key, instance_key
from exporter.ledger.codec.scval import decode_scval
from exporter.ledger.codec.scval_encode import address, encode_scval, symbol, vec
from exporter.ledger.observation import result_of
from exporter.ledger.source import ContractCall, LedgerSource, SimulationAnswer

ROUTED = frozenset({"balance", "decimals", "get_total_underlying", "lastprice", "name", "symbol"})
"""Of SEP-40 oracles, SEP-41 tokens and boosted vaults: they read, whoever asks, and none asks for a list by itself."""

BUNDLE_SIZE = 20
"""Calls in a bundle, far below the network's 400 footprint entries; halved where its budget does not suffice."""

MIN_BUNDLE = 4
"""A bundle and its sample are two requests, so that fewer calls gain nothing worth the trouble."""

CALLER = strkey.encode(strkey.ACCOUNT, bytes(32))
"""``exec`` wants its caller's authorization, which the source of the simulated transaction has given by being it."""

_BUDGET = "Error(Budget"


class _UnusableError(Exception):
    """A bundle's answer cannot be used; the message says why."""


class Router:
    """Simulates calls in bundles, for one run. ``notices`` are for the operator.

    The router must have the code of ``wasm_hash`` (hex), where that is known. ``choose`` gives the call that is also
    asked for without it.
    """

    def __init__(
        self,
        contract: str,
        wasm_hash: str | None = None,
        *,
        choose: Callable[[Sequence[ContractCall]], ContractCall] = secrets.choice,
    ) -> None:
        self.contract = contract
        self.wasm_hash = wasm_hash
        self.stopped: str | None = None
        self.lied = False
        self.notices: list[str] = []
        self._choose = choose
        self._size = BUNDLE_SIZE
        self._bundles = self._failed = self._results = 0

    def report(self) -> dict[str, Any]:
        """The calls through the router, for the run report. ``results`` are of calls that it spared."""
        return {
            "contract": self.contract,
            "bundles": self._bundles,
            "failed": self._failed,
            "results": self._results,
            "stopped": self.stopped,
        }

    async def simulate(self, source: LedgerSource, calls: Sequence[ContractCall]) -> list[SimulationAnswer]:
        """An answer for each of these different calls, bundled ones `SimulationAnswer.shared`. Raises `SourceError`."""
        # What one oracle says changes together, so that it had better be in one bundle.
        routed = sorted((call for call in calls if call.function in ROUTED), key=lambda call: call.contract)
        answers: dict[ContractCall, SimulationAnswer] = {}
        if len(routed) >= MIN_BUNDLE and self.stopped is None:
            sample = self._choose(routed)
            alone = [call for call in calls if call.function not in ROUTED or call == sample]
            parts = [routed[start : start + self._size] for start in range(0, len(routed), self._size)]
            direct, bundles = await asyncio.gather(
                ask_alone(source, alone), asyncio.gather(*(self._bundle(source, part) for part in parts))
            )
            for bundle in bundles:
                answers |= bundle
            if sample in answers and answers[sample].result != direct[sample].result:
                self._mismatch(sample, answers[sample], direct[sample])
                answers = {}
            answers |= direct
            self._results += sum(answer.shared for answer in answers.values())
        answers |= await ask_alone(source, [call for call in calls if call not in answers])
        return [answers[call] for call in calls]

    async def _bundle(
        self, source: LedgerSource, calls: Sequence[ContractCall]
    ) -> dict[ContractCall, SimulationAnswer]:
        """The answers of a bundle, of which some may be missing. A source that is down says so at calls asked alone."""
        self._bundles += 1
        invocations = (
            vec(address(call.contract), symbol(call.function), vec(*call.arguments), (scval.BOOL, True))
            for call in calls
        )
        try:
            answer = await source.simulate(ContractCall(self.contract, "exec", (address(CALLER), vec(*invocations))))
            return self._results_of(answer, calls)
        except (SourceError, _UnusableError) as error:
            self._failed += 1
            half = len(calls) // 2
            if _BUDGET in str(error) and half >= MIN_BUNDLE:
                self._size = min(self._size, half)
                return await self._bundle(source, calls[:half]) | await self._bundle(source, calls[half:])
            self.stopped = self.stopped or str(error)
            return {}

    def _results_of(
        self, answer: SimulationAnswer, calls: Sequence[ContractCall]
    ) -> dict[ContractCall, SimulationAnswer]:
        """The answer for each call that did not fail. Raises `_UnusableError`."""
        if answer.result is None:
            raise _UnusableError(result_of(answer).reason)
        if answer.writes:
            raise _UnusableError("the calls write to the ledger")
        looked_at = set(answer.footprint)
        if any(instance_key(contract) not in looked_at for contract in (self.contract, *(c.contract for c in calls))):
            raise _UnusableError("the footprint lacks a contract that was to be called")
        if self.wasm_hash is not None and code_key(bytes.fromhex(self.wasm_hash)) not in looked_at:
            self._distrust("its code is not the one that the list has")
            raise _UnusableError("its code is not the one that the list has")
        try:
            kind, values = decode_scval(answer.result)
        except DecodeError as error:
            raise _UnusableError(f"the result cannot be decoded: {error}") from None
        if kind != scval.VEC or values is None or len(values) != len(calls):
            raise _UnusableError(f"the result is not a vector of {len(calls)} results")
        return {
            call: SimulationAnswer(
                answer.ledger, encode_scval(value), None, answer.footprint, answer.endpoint, shared=True
            )
            for call, value in zip(calls, values, strict=True)
            if value[0] != scval.ERROR
        }

    def _mismatch(self, sample: ContractCall, routed: SimulationAnswer, direct: SimulationAnswer) -> None:
        """Stop, since a call gave something else without the router: at the same ledger that is a lie."""
        self.stopped = self.stopped or f"{sample.function} gives something else without the router"
        if routed.ledger == direct.ledger and direct.result is not None:
            what = f"{sample.function} of {sample.contract}"
            self._distrust(f"it gave something else for {what} than that contract itself at the same ledger")

    def _distrust(self, reason: str) -> None:
        if not self.lied:
            self.lied = True
            self.notices.append(
                f"the router contract {self.contract} was not trusted: {reason}; every price of this run was asked for "
                "without it"
            )


async def ask_alone(source: LedgerSource, calls: Iterable[ContractCall]) -> dict[ContractCall, SimulationAnswer]:
    """The answers of calls that are simulated one by one. Raises `SourceError`."""
    wanted = list(calls)
    answers = await asyncio.gather(*(source.simulate(call) for call in wanted))
    return dict(zip(wanted, answers, strict=True))
