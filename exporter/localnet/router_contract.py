"""The router of the embedded network: one call of ``exec`` makes many, as Creit Tech's v1 does on mainnet.

Results stand in a vector in the order of the calls. A call that may fail gives an error value where it does: a
contract's own error as it is, and any other as (Context, InvalidAction), which is all that the host lets a contract
see of it. What no contract may survive, such as a budget that is used up, fails the whole.
"""

from __future__ import annotations

import re

from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import PERSISTENT, ContractData, code_key, data_key, encode_contract_data
from exporter.ledger.codec.scval import WASM, ContractInstance, ScVal
from exporter.ledger.codec.scval_encode import INSTANCE_KEY, encode_opaque
from exporter.ledger.source import ContractCall
from exporter.localnet.contracts import MISSING_FUNCTION, WRONG_ARGUMENTS, Host, TrapError, made_wasm, wasm_hash

ROUTER_WASM = made_wasm("localnet call router")
ROUTER_WASM_HASH = wasm_hash(ROUTER_WASM)

BUDGET_EXCEEDED = "Error(Budget, ExceededLimit)"
UNEXPECTED_TYPE = "Error(Value, UnexpectedType)"

_OWN_ERROR = re.compile(r"Error\(Contract, #(\d+)\)")
_HIDDEN: ScVal = (scval.ERROR, (2, 6))  # (Context, InvalidAction)


def router_entries(router: str) -> tuple[tuple[bytes, bytes], tuple[bytes, bytes]]:
    """The instance and the code of a router: pairs of (LedgerKey XDR, LedgerEntryData XDR)."""
    instance: ScVal = (scval.CONTRACT_INSTANCE, ContractInstance(WASM, ROUTER_WASM_HASH, None, None))
    data = encode_contract_data(ContractData(router, INSTANCE_KEY, PERSISTENT, instance))
    code = b"\0\0\0\x07\0\0\0\0" + ROUTER_WASM_HASH + encode_opaque(ROUTER_WASM)
    return (data_key(router, INSTANCE_KEY, PERSISTENT), data), (code_key(ROUTER_WASM_HASH), code)


def run_router(host: Host, contract: str, function: str, arguments: tuple[ScVal, ...]) -> ScVal:  # noqa: ARG001
    """The code of a router: ``exec(caller, calls)``, each call as (contract, function, arguments, can fail)."""
    if function != "exec":
        raise TrapError(MISSING_FUNCTION)
    if len(arguments) != 2:
        raise TrapError(WRONG_ARGUMENTS)
    (kind, _), (list_kind, calls) = arguments
    if kind != scval.ADDRESS or list_kind != scval.VEC or calls is None:
        raise TrapError(UNEXPECTED_TYPE)
    return (scval.VEC, tuple(_result(host, *_invocation(call)) for call in calls))


def _result(host: Host, call: ContractCall, may_fail: bool) -> ScVal:
    try:
        return host.call(call)
    except TrapError as error:
        if not may_fail or str(error) == BUDGET_EXCEEDED:
            raise
        own = _OWN_ERROR.fullmatch(str(error))
        return _HIDDEN if own is None else (scval.ERROR, (0, int(own[1])))


def _invocation(value: ScVal) -> tuple[ContractCall, bool]:
    kind, parts = value
    if kind != scval.VEC or parts is None or [part[0] for part in parts] != [
        scval.ADDRESS, scval.SYMBOL, scval.VEC, scval.BOOL,
    ]:  # fmt: skip
        raise TrapError(UNEXPECTED_TYPE)
    (_, contract), (_, function), (_, arguments), (_, may_fail) = parts
    return ContractCall(contract, function, arguments), may_fail
