"""The protocols the exporter knows: one line each."""

from __future__ import annotations

from exporter.protocols.alula import Alula
from exporter.protocols.base import ProtocolModule
from exporter.protocols.blend import Blend

PROTOCOLS: dict[str, ProtocolModule] = {module.name: module for module in (Alula(), Blend())}
