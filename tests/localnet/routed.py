"""A router in front of a network's contracts: one call of ``exec`` makes many, as Creit Tech's v1 does on mainnet."""

from __future__ import annotations

import re

from exporter.deployments.networks import derived_address
from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import code_key, decode_contract_data, instance_key, instance_of
from exporter.ledger.codec.scval import ScVal, decode_scval
from exporter.ledger.codec.scval_encode import encode_scval
from exporter.ledger.source import ContractCall, RawEntry
from exporter.localnet.chain import Chain
from exporter.localnet.network import Answering, Simulation
from exporter.localnet.player import RecordedNetwork
from tests.protocols.made_ledger import instance

ROUTER = derived_address("a router")
CODE = b"the code of a router".ljust(32, b"\0")
BUDGET_EXCEEDED = "Error(Budget, ExceededLimit)"

_ERROR = re.compile(r"Error\([^)]*\)")
_OWN_ERROR = re.compile(r"Error\(Contract, #(\d+)\)")
_HIDDEN: ScVal = (scval.ERROR, (2, 6))  # (Context, InvalidAction)


def route(network: RecordedNetwork) -> None:
    """Close a ledger in which the router appears, and let it answer from then on."""
    network.close(dict([instance(ROUTER, None, CODE)]))
    network.contracts = RoutedAnswers(network.contracts)


class RoutedAnswers:
    """The answers of contracts and of a router of them.

    Results are a vector in the order of the calls. A call that may fail gives an error value where it does: a
    contract's own error as it is, and any other as (Context, InvalidAction), which is all that the host lets a contract
    see of it. What no contract may survive, such as a budget that is used up, fails the whole.
    """

    def __init__(self, others: Answering) -> None:
        self._others = others

    def simulate(self, chain: Chain, ledger: int, call: ContractCall) -> Simulation:
        """Answer one call on the state of a ledger."""
        key = instance_key(ROUTER)
        entry = chain.entry(key, ledger)
        if call.contract != ROUTER or call.function != "exec" or entry is None:
            return self._others.simulate(chain, ledger, call)
        code = code_key(instance_of(decode_contract_data(entry.data)).wasm_hash or b"")
        footprint: dict[bytes, RawEntry | None] = {key: entry, code: chain.entry(code, ledger)}
        results = []
        for _, ((_, contract), (_, function), (_, arguments), (_, may_fail)) in call.arguments[1][1]:
            answer = self._others.simulate(chain, ledger, ContractCall(contract, function, arguments))
            footprint |= {key: chain.entry(key, ledger) for key in answer.footprint}
            if answer.result is not None:
                results.append(decode_scval(answer.result))
                continue
            error = _ERROR.search(answer.error or "")
            assert error is not None
            if not may_fail or error[0] == BUDGET_EXCEEDED:
                return Simulation(None, answer.error, {})
            own = _OWN_ERROR.fullmatch(error[0])
            results.append(_HIDDEN if own is None else (scval.ERROR, (0, int(own[1]))))
        return Simulation(encode_scval((scval.VEC, tuple(results))), None, footprint)
