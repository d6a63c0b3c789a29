"""``simulateTransaction``: one contract call, run by its stand-in at the node's latest ledger.

The envelope is decoded with stellar-sdk, and not with the exporter's own codec, so that what the exporter encodes is
read by somebody else. Failures are results with an ``error``, as on the network (docs/rpc.md, "Simulation").
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from exporter.ledger.codec import strkey
from exporter.ledger.codec.scval import decode_scval
from exporter.ledger.codec.xdr_json import scval_to_json
from exporter.ledger.source import ContractCall
from exporter.localnet.contracts import MIN_RESOURCE_FEE
from exporter.localnet.rpc_methods import Node, Params, xdr_format

if TYPE_CHECKING:
    from stellar_sdk.xdr import InvokeContractArgs, TransactionEnvelope

_AUTH_MODES = ("", "enforce", "record", "record_allow_nonroot")
_MAX_MESSAGE = 200


class _RefusedError(Exception):
    """The transaction cannot be simulated; the message is the answer's error."""


def simulate_transaction(node: Node, params: Params) -> Params:
    """Answer with the result, its footprint in ``transactionData``, or an ``error``."""
    try:
        as_json = xdr_format(params)
        call = _call_of(params)
    except (_RefusedError, ValueError) as error:
        return {"error": str(error)[:_MAX_MESSAGE], "latestLedger": 0}  # refused before a ledger is looked at
    simulation = node.network.contracts.simulate(node.network.chain, node.latest, call)
    if simulation.result is None:
        return {"error": simulation.error, "events": [], "latestLedger": node.latest}
    answer: Params = {"minResourceFee": str(MIN_RESOURCE_FEE), "latestLedger": node.latest}
    transaction_data = simulation.transaction_data()
    if as_json:
        from stellar_sdk import xdr

        answer["transactionDataJson"] = xdr.SorobanTransactionData.from_xdr_bytes(transaction_data).to_json_dict()
        answer["results"] = [{"authJson": [], "returnValueJson": scval_to_json(decode_scval(simulation.result))}]
        answer["eventsJson"] = []
    else:
        answer["transactionData"] = base64.b64encode(transaction_data).decode()
        answer["results"] = [{"auth": [], "xdr": base64.b64encode(simulation.result).decode()}]
        answer["events"] = []
    return answer


def _call_of(params: Params) -> ContractCall:
    if (params.get("authMode") or "") not in _AUTH_MODES:
        raise _RefusedError("optional 'authMode' must be one of enforce,record,record_allow_nonroot when included")
    arguments = _invocation(_envelope(params.get("transaction")))
    return ContractCall(
        contract=strkey.encode_contract(arguments.contract_address.to_xdr_bytes()[4:]),
        function=arguments.function_name.sc_symbol.decode("ascii"),
        arguments=tuple(decode_scval(argument.to_xdr_bytes()) for argument in arguments.args),
    )


def _envelope(text: Any) -> TransactionEnvelope:
    from stellar_sdk import xdr

    try:
        return xdr.TransactionEnvelope.from_xdr(text)
    except Exception:  # the SDK lets many kinds of errors through
        raise _RefusedError("Could not unmarshal transaction") from None


def _invocation(envelope: TransactionEnvelope) -> InvokeContractArgs:
    from stellar_sdk import xdr

    transaction = envelope.v1.tx if envelope.v1 is not None else None
    if transaction is None:
        raise _RefusedError("Could not unmarshal transaction")
    if len(transaction.operations) != 1:
        raise _RefusedError("Transaction contains more than one operation")
    if transaction.memo.type != xdr.MemoType.MEMO_NONE:
        raise _RefusedError("Transaction contains a memo")
    body = transaction.operations[0].body
    if body.type != xdr.OperationType.INVOKE_HOST_FUNCTION or body.invoke_host_function_op is None:
        raise _RefusedError(f"Transaction contains unsupported operation type: {body.type.name}")
    function = body.invoke_host_function_op.host_function
    if function.invoke_contract is None:
        raise _RefusedError("HostError: Error(Value, InvalidInput)")  # uploading and creating are not served here
    if function.invoke_contract.contract_address.type != xdr.SCAddressType.SC_ADDRESS_TYPE_CONTRACT:
        raise _RefusedError("HostError: Error(Value, InvalidInput)")
    return function.invoke_contract
