"""Many read-only calls in one simulation, through a router: a contract that makes calls for others.

    router = Router(address)
    answers = await router.simulate(source, calls)     # one for each call, in their order

The router is Creit Tech's v1 (docs/rpc.md, "Router"; source: Creit-Tech/Stellar-Router-Contract, router-v1). Its
``exec(caller, [(contract, function, arguments, can_fail), ...])`` gives a vector of the results; with ``can_fail`` a
call that fails gives an error value in its place, and not its reason.

It is somebody else's contract, and a bundle that fails must cost no price that a call of its own would have given:

* Only functions that read are asked for through it (`ROUTED`), and a bundle that writes anything is not used, since
  later calls in it would see what earlier ones wrote.
* Everything that a call can have depended on is in the bundle's footprint, which counts as each call's own. It is a
  wider one: whoever cannot do with it asks the call alone (`exporter.ledger.view`).
* A bundle is used only if the contract of every call is in its footprint. Of the bundles that go out together one call,
  which the router cannot foresee, is asked for without it too, and must give the very same.
* Whatever a bundle gives no result for is asked for alone. After a few failures the router is left alone for the run,
  at once if nothing ever worked, as where there is no such contract.

docs/decisions.md, "Prices in bundles through a router" has the reasons.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from exporter.errors import DecodeError, SourceError
from exporter.ledger.codec import scval, strkey
from exporter.ledger.codec.entries import code_key, instance_key
from exporter.ledger.codec.scval import ScVal, decode_scval
from exporter.ledger.codec.scval_encode import address, encode_scval, symbol, vec
from exporter.ledger.observation import CallObservation
from exporter.ledger.source import ContractCall, LedgerSource, SimulationAnswer

ROUTED = frozenset({"balance", "decimals", "get_available_liquidity", "lastprice", "name", "symbol"})
"""Of SEP-40 oracles, SEP-41 tokens and boosted vaults: they read, whoever asks, and none asks for a list by itself."""

BUNDLE_SIZE = 20
"""Calls in a bundle, far below the network's 400 footprint entries; halved when its budget does not suffice."""

MIN_BUNDLE = 4
"""A bundle and its sample are two requests, so that fewer calls gain nothing worth the trouble."""

MAX_FAILURES = 4
"""After this many failed bundles the router is left alone for the rest of the run."""

CALLER = strkey.encode(strkey.ACCOUNT, bytes(32))
"""``exec`` wants its caller's authorization, which the source of the simulated transaction has given by being it."""

_BUDGET = "Error(Budget"


@dataclass(frozen=True, slots=True)
class _Bundle:
    """The result of a bundle: answers for some of its calls, and what is asked for alone instead of again."""

    answers: dict[ContractCall, SimulationAnswer]
    given_up: Sequence[ContractCall]


class _UnusableError(Exception):
    """A bundle's answer cannot be used; the message says why. ``passing``: it is not the router's fault."""

    def __init__(self, reason: str, *, passing: bool = False) -> None:
        super().__init__(reason)
        self.passing = passing


class Router:
    """The use of one router contract during one run, and what came of it.

    ``wasm_hash`` (64 hex digits) is that of its code, where the list has it: another one is not used. ``choose`` picks
    the call of a bundle that is compared. ``stopped`` says why the router is not used any more; ``lied`` that it gave
    something else than the contract itself at the same ledger, so that nothing it gave may be used.
    """

    def __init__(
        self,
        contract: str,
        wasm_hash: str | None = None,
        *,
        size: int = BUNDLE_SIZE,
        choose: Callable[[Sequence[ContractCall]], ContractCall] = secrets.choice,
    ) -> None:
        self.contract = contract
        self.wasm_hash = wasm_hash
        self.size = size
        self.stopped: str | None = None
        self.lied = False
        self.notices: list[str] = []
        self._choose = choose
        self._bundles = self._worked = self._failed = self._results = 0

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
        """An answer for each of these different calls, in bundles where possible. Raises `SourceError`.

        Answers of bundles are `SimulationAnswer.shared`; all others are as the source gives them.
        """
        routed = [call for call in calls if call.function in ROUTED]
        if len(routed) < MIN_BUNDLE or self.stopped is not None:
            routed = []
        bundled_calls = frozenset(routed)
        alone = [call for call in calls if call not in bundled_calls]
        # What one oracle says changes together, so that it had better be in one bundle.
        bundled, direct = await asyncio.gather(
            self._bundled(source, sorted(routed, key=lambda call: call.contract)), ask_alone(source, alone)
        )
        answers = bundled | direct
        answers |= await ask_alone(source, [call for call in calls if call not in answers])
        if self.lied:  # another part of the program may have found out while this one waited
            answers |= await ask_alone(source, [call for call in calls if answers[call].shared])
        return [answers[call] for call in calls]

    def compare(self, call: ContractCall, routed: SimulationAnswer, direct: SimulationAnswer) -> None:
        """Take note of what a call gave without the router, after it was answered through it."""
        if routed.ledger == direct.ledger and direct.result is not None and routed.result != direct.result:
            what = f"{call.function} of {call.contract}"
            self._distrust(f"it gave something else for {what} than that contract itself at the same ledger")

    async def _bundled(
        self, source: LedgerSource, calls: Sequence[ContractCall]
    ) -> dict[ContractCall, SimulationAnswer]:
        answers: dict[ContractCall, SimulationAnswer] = {}
        waiting = list(calls)
        # Each turn answers or gives up a bundle, or makes bundles smaller.
        while len(waiting) >= MIN_BUNDLE and self.stopped is None:
            # Bundles, of which none is too small.
            parts = [waiting[start : start + self.size] for start in range(0, len(waiting), self.size)]
            if len(parts) > 1 and len(parts[-1]) < MIN_BUNDLE:
                both = [*parts.pop(-2), *parts.pop()]
                parts += [both[: len(both) // 2], both[len(both) // 2 :]]
            if not self._worked:
                parts = parts[:1]  # where there is no router, one request shows it
            sample = self._choose([call for part in parts for call in part])
            direct, routed = await asyncio.gather(
                source.simulate(sample), asyncio.gather(*(self._exec(source, part) for part in parts))
            )
            answers[sample] = direct
            done = {sample}
            for part, answer in zip(parts, routed, strict=True):
                bundle = self._judged(part, answer, sample, direct)
                answers = bundle.answers | answers
                done.update(bundle.answers, bundle.given_up)
            waiting = [call for call in waiting if call not in done]
        return answers

    def _judged(
        self,
        calls: Sequence[ContractCall],
        routed: SimulationAnswer | str,
        sample: ContractCall,
        direct: SimulationAnswer,
    ) -> _Bundle:
        """The answers of a bundle; ``sample``, which may be one of its calls, was asked for alone as well."""
        self._bundles += 1
        try:
            if isinstance(routed, str):
                raise _UnusableError(routed)
            results = self._results_of(routed, calls)
            if sample in calls:
                self._check_sample(sample, results.get(sample), direct)
        except _UnusableError as error:
            return _Bundle({}, self._fail(error, calls))
        self._worked += 1
        self._results += len(results.keys() - {sample})
        return _Bundle(results, calls)

    async def _exec(self, source: LedgerSource, calls: Sequence[ContractCall]) -> SimulationAnswer | str:
        """The answer for a bundle, or why there is none. A source that is down says so at the calls asked alone."""
        invocations = (
            vec(address(call.contract), symbol(call.function), vec(*call.arguments), (scval.BOOL, True))
            for call in calls
        )
        try:
            return await source.simulate(ContractCall(self.contract, "exec", (address(CALLER), vec(*invocations))))
        except SourceError as error:
            return str(error)

    def _results_of(
        self, answer: SimulationAnswer, calls: Sequence[ContractCall]
    ) -> dict[ContractCall, SimulationAnswer]:
        """The answer for each call that did not fail. Raises `_UnusableError`."""
        if answer.result is None:
            raise _UnusableError(CallObservation(answer).result().reason)
        if answer.writes:
            raise _UnusableError("the calls write to the ledger")
        looked_at = set(answer.footprint)
        if any(instance_key(contract) not in looked_at for contract in (self.contract, *(c.contract for c in calls))):
            raise _UnusableError("the footprint lacks a contract that was to be called")
        if self.wasm_hash is not None and code_key(bytes.fromhex(self.wasm_hash)) not in looked_at:
            self._distrust("its code is not the one that the list has")
            raise _UnusableError("its code is not the one that the list has")
        return {
            call: SimulationAnswer(
                answer.ledger, encode_scval(value), None, answer.footprint, answer.endpoint, shared=True
            )
            for call, value in zip(calls, _values(answer.result, len(calls)), strict=True)
            if value[0] != scval.ERROR
        }

    def _check_sample(self, sample: ContractCall, routed: SimulationAnswer | None, direct: SimulationAnswer) -> None:
        """Raises `_UnusableError` unless a call gives the same with and without the router."""
        if routed is None:
            return  # it failed in the bundle, and is asked for alone as every call that did
        if routed.result == direct.result:
            return
        self.compare(sample, routed, direct)
        raise _UnusableError(
            f"{sample.function} gives something else without the router", passing=routed.ledger != direct.ledger
        )

    def _fail(self, error: _UnusableError, calls: Sequence[ContractCall]) -> Sequence[ContractCall]:
        """Count a failure; gives the calls that are not to be bundled again."""
        self._failed += 1
        reason = str(error)
        if _BUDGET in reason and len(calls) // 2 >= MIN_BUNDLE and self._failed < MAX_FAILURES:
            self.size = min(self.size, len(calls) // 2)
            return ()
        hopeless = not self._worked and not error.passing
        if self.stopped is None and (hopeless or self._failed >= MAX_FAILURES):
            self.stopped = reason
        return calls

    def _distrust(self, reason: str) -> None:
        if not self.lied:
            self.lied, self.stopped = True, reason
            self.notices.append(
                f"the router contract {self.contract} was not trusted: {reason}; every price of this run was asked for "
                "without it"
            )


async def ask_alone(source: LedgerSource, calls: Iterable[ContractCall]) -> dict[ContractCall, SimulationAnswer]:
    """The answers of calls that are simulated one by one. Raises `SourceError`."""
    wanted = list(calls)
    answers = await asyncio.gather(*(source.simulate(call) for call in wanted))
    return dict(zip(wanted, answers, strict=True))


def _values(result: bytes, count: int) -> tuple[ScVal, ...]:
    """The results in what ``exec`` gave. Raises `_UnusableError` unless it is a vector of this many."""
    try:
        kind, values = decode_scval(result)
    except DecodeError as error:
        raise _UnusableError(f"the result cannot be decoded: {error}") from None
    if kind != scval.VEC or values is None or len(values) != count:
        raise _UnusableError(f"the result is not a vector of {count} results")
    found: tuple[ScVal, ...] = values
    return found
