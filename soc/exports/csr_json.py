"""Registers as JSON: addresses, access and fields, for scripts and generators of other languages."""

from __future__ import annotations

import json

from contracts import VERSION
from contracts.registers import REGISTER_BITS, REGISTERS

__all__ = ["csr_json"]


def csr_json() -> str:
    """Return all registers in the order of their addresses."""
    table = {
        "name": "atoll",
        "version": VERSION,
        "register_bits": REGISTER_BITS,
        "registers": [
            {
                "name": entry.name,
                "address": entry.address,
                "access": entry.access.value,
                "reset": entry.reset,
                "doc": entry.layout.doc,
                "fields": [
                    {
                        "name": field.name,
                        "lsb": entry.layout.offsets[field.name],
                        "bits": field.bits,
                        "doc": field.doc,
                        **({"values": {member.name: int(member) for member in field.enum}} if field.enum else {}),
                    }
                    for field in entry.layout.fields
                    if field.name != "reserved"
                ],
            }
            for entry in REGISTERS
        ],
    }
    return json.dumps(table, indent=1) + "\n"
