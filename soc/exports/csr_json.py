"""Registers as JSON: addresses, access and fields, for scripts and generators of other languages."""

from __future__ import annotations

import json
from collections.abc import Sequence

from contracts import VERSION
from contracts.registers import MACHINE_MAP, REGISTER_BITS, RegisterMap

__all__ = ["csr_json"]


def csr_json(table: RegisterMap = MACHINE_MAP, units: Sequence[str] = ()) -> str:
    """Return all registers of a table in the order of their addresses.

    Parameters
    ----------
    table
        The registers.
    units
        Names of the units whose work the machine counts, by number: what the register UNIT selects.
    """
    listed = {
        "name": table.name,
        "version": VERSION,
        "register_bits": REGISTER_BITS,
        **({"units": list(units)} if units else {}),
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
            for entry in table.entries
        ],
    }
    return json.dumps(listed, indent=1) + "\n"
