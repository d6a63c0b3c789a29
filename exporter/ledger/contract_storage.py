"""Answers to contract calls from the entries of one ledger, where a contract's code, and so its rule, is known.

    answers = StorageAnswers(read, ledger, close_time, RULES)
    answers.answer(ContractCall(oracle, "lastprice", (asset,)))

Nothing is run, and nothing is guessed: without a rule for a contract's layout or a function of it, and where entries
are missing, the answer is an error that begins with `NOT_FROM_STORAGE`. Rules: `exporter.ledger.storage_rules`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from exporter.errors import DecodeError
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import encode_scval
from exporter.ledger.source import ContractCall, RawEntry, SimulationAnswer
from exporter.ledger.storage_rules import redstone, redstone_sep40, reflector, token_contract
from exporter.ledger.storage_rules.host import Call, Contract, NotFromStorageError, Rule, StorageHost, TrapError

NOT_FROM_STORAGE: Final = "not from storage: "
"""How the error begins of a call that entries do not answer."""

RULES: Final[Sequence[Rule]] = (token_contract, reflector, redstone_sep40, redstone)
"""Of contracts that no single protocol owns; `exporter.protocols.storage_answers` adds those of the protocols."""


class StorageAnswers:
    """Answers calls as they would have been at ``ledger``, which closed at ``close_time`` (unix seconds).

    A contract is compared with ``rules`` in their order.

    ``read`` gives the entry under a LedgerKey XDR as a reader at that ledger sees it (an expired temporary one is
    gone, an archived persistent one has a ``live_until`` of 0), or None.
    """

    def __init__(
        self, read: Callable[[bytes], RawEntry | None], ledger: int, close_time: int, rules: Sequence[Rule]
    ) -> None:
        self._read = read
        self._rules = rules
        self._ledger = ledger
        self._close_time = close_time

    def answer(self, call: ContractCall) -> SimulationAnswer:
        """The call's result, or its error. The footprint is what was looked at, found or not, also with an error."""
        host = StorageHost(self._read, self._close_time, self._dispatch)
        result, error = None, None
        try:
            result = encode_scval(host.call(call.contract, call.function, *call.arguments))
        except TrapError as trap:
            error = f"HostError: {trap}"
        except (NotFromStorageError, DecodeError) as why:
            error = f"{NOT_FROM_STORAGE}{why}"
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as bug:  # costs this call alone
            error = f"{NOT_FROM_STORAGE}the rule failed: {type(bug).__name__}: {bug}"[:300]
        return SimulationAnswer(self._ledger, result, error, tuple(host.footprint), "storage")

    def _dispatch(self, host: StorageHost, contract: Contract, call: Call) -> ScVal:
        for rule in self._rules:
            if rule.recognises(host, contract):
                return rule.answer(host, contract, call)
        wasm_hash = contract.instance.wasm_hash
        code = "an asset contract" if wasm_hash is None else f"code {wasm_hash.hex()[:16]}"
        raise NotFromStorageError(f"no rule for {contract.address}, which runs {code}")
