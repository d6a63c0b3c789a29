"""What a contract's own code says of its types, in the section ``contractspecv0`` of a wasm file.

The section is a stream of SCSpecEntry (Stellar-contract-spec.x). A struct with named fields is stored as a map of all
of them, an enum with values as a vector of the variant's symbol and its values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from stellar_sdk.xdr import SCSpecEntry, SCSpecEntryKind, SCSpecType, SCSpecTypeDef
from xdrlib3 import Unpacker

from exporter.ledger.codec import scval
from exporter.ledger.codec.scval import KIND_NAMES, ScVal

_SECTION = "contractspecv0"
_PLAIN = {
    SCSpecType.SC_SPEC_TYPE_BOOL: scval.BOOL,
    SCSpecType.SC_SPEC_TYPE_U32: scval.U32,
    SCSpecType.SC_SPEC_TYPE_U64: scval.U64,
    SCSpecType.SC_SPEC_TYPE_U128: scval.U128,
    SCSpecType.SC_SPEC_TYPE_I128: scval.I128,
    SCSpecType.SC_SPEC_TYPE_SYMBOL: scval.SYMBOL,
    SCSpecType.SC_SPEC_TYPE_BYTES_N: scval.BYTES,
    SCSpecType.SC_SPEC_TYPE_ADDRESS: scval.ADDRESS,
}


@dataclass(frozen=True, slots=True)
class Spec:
    """A contract's types: fields by struct, values by variant and enum, arguments by function."""

    structs: dict[str, dict[str, SCSpecTypeDef]] = field(default_factory=dict)
    enums: dict[str, dict[str, list[SCSpecTypeDef]]] = field(default_factory=dict)
    functions: dict[str, list[SCSpecTypeDef]] = field(default_factory=dict)

    def misfits(self, value: ScVal, name: str) -> list[str]:
        """What of a value is not as the type of this name has it; nothing where it fits."""
        return list(self._of_name(value, name, name))

    def _of_name(self, value: ScVal, name: str, place: str) -> Iterator[str]:
        kind, payload = value
        if name in self.structs:
            fields = self.structs[name]
            if kind != scval.MAP or sorted(fields) != [key[1] for key, _ in payload or ()]:
                yield f"{place} is not a map of {', '.join(sorted(fields))}"
                return
            for (_, key), item in payload:
                yield from self._of_type(item, fields[key], f"{place}.{key}")
            return
        variants = self.enums[name]
        if kind != scval.VEC or not payload or payload[0][0] != scval.SYMBOL or payload[0][1] not in variants:
            yield f"{place} is not in {', '.join(variants)}"
            return
        types = variants[payload[0][1]]
        if len(types) != len(payload) - 1:
            yield f"{place}: {payload[0][1]} has {len(types)} values"
        for index, (item, expected) in enumerate(zip(payload[1:], types, strict=False)):
            yield from self._of_type(item, expected, f"{place}[{index}]")

    def _of_type(self, value: ScVal, expected: SCSpecTypeDef, place: str) -> Iterator[str]:
        if expected.type is SCSpecType.SC_SPEC_TYPE_UDT:
            assert expected.udt is not None
            yield from self._of_name(value, expected.udt.name.decode(), place)
        elif expected.type is SCSpecType.SC_SPEC_TYPE_VEC:
            assert expected.vec is not None
            if value[0] != scval.VEC:
                yield f"{place} is {KIND_NAMES[value[0]]}, not a vector"
                return
            for index, item in enumerate(value[1] or ()):
                yield from self._of_type(item, expected.vec.element_type, f"{place}[{index}]")
        elif _PLAIN[expected.type] != value[0]:
            yield f"{place} is {KIND_NAMES[value[0]]}, not {expected.type.name}"


def spec_of(wasm: bytes) -> Spec:
    """The types that a contract's code says. Raises ValueError where it says none."""
    content = next((data for name, data in _custom_sections(wasm) if name == _SECTION), None)
    if content is None:
        raise ValueError(f"the code has no section {_SECTION}")
    spec, unpacker = Spec(), Unpacker(content)
    while unpacker.get_position() < len(content):
        entry = SCSpecEntry.unpack(unpacker)
        if entry.kind is SCSpecEntryKind.SC_SPEC_ENTRY_UDT_STRUCT_V0:
            struct = entry.udt_struct_v0
            assert struct is not None
            spec.structs[struct.name.decode()] = {item.name.decode(): item.type for item in struct.fields}
        elif entry.kind is SCSpecEntryKind.SC_SPEC_ENTRY_UDT_UNION_V0:
            assert entry.udt_union_v0 is not None
            variants = spec.enums.setdefault(entry.udt_union_v0.name.decode(), {})
            for case in entry.udt_union_v0.cases:
                if case.tuple_case is not None:
                    variants[case.tuple_case.name.decode()] = case.tuple_case.type
                elif case.void_case is not None:
                    variants[case.void_case.name.decode()] = []
        elif entry.kind is SCSpecEntryKind.SC_SPEC_ENTRY_FUNCTION_V0:
            assert entry.function_v0 is not None
            spec.functions[entry.function_v0.name.sc_symbol.decode()] = [item.type for item in entry.function_v0.inputs]
    return spec


def _custom_sections(wasm: bytes) -> Iterator[tuple[str, bytes]]:
    if wasm[:4] != b"\0asm":
        raise ValueError("these bytes are no wasm module")
    position = 8
    while position < len(wasm):
        kind = wasm[position]
        size, start = _number(wasm, position + 1)
        position = start + size
        if kind == 0:
            length, start = _number(wasm, start)
            yield wasm[start : start + length].decode(), wasm[start + length : position]


def _number(data: bytes, position: int) -> tuple[int, int]:
    """A number in LEB128, and where it ends."""
    value = shift = 0
    while True:
        value |= (data[position] & 0x7F) << shift
        if data[position] < 0x80:
            return value, position + 1
        position, shift = position + 1, shift + 7
