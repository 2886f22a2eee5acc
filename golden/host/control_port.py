"""Golden model of the control port's registers, access by access."""

from collections.abc import Mapping

from contracts.registers import REGISTER_BYTES, REGISTERS, Access

__all__ = ["ControlPort"]

_BITS = 0xFFFFFFFF


class ControlPort:
    """Registers as a host sees them; the model has no time, so counters are set by the user.

    Parameters
    ----------
    line_bits
        Width of line addresses at the memory port.
    units
        Units whose work is counted.

    Attributes
    ----------
    started
        Line addresses of all runs begun.
    counters
        Values of the counters by name.
    work
        Cycles in which each unit has worked; set by the user, too.
    command
        Opcode and layer of the command under way, set by the user.
    """

    def __init__(self, line_bits: int, units: int = 1) -> None:
        self._line_bits = line_bits
        self._by_address = {entry.address: entry for entry in REGISTERS}
        self._image = self._enabled = self._unit = 0
        self._busy = self._done = False
        self._last: dict[str, int] = {}
        self._sticky = 0
        self._held = 0
        self.started: list[int] = []
        self.counters: dict[str, int] = {}
        self.work = [0] * units
        self.command = {"opcode": 0, "layer": 0}

    @property
    def busy(self) -> bool:
        """Whether a run is under way."""
        return self._busy

    @property
    def interrupt(self) -> bool:
        """The interrupt output."""
        return self._done and bool(self._enabled)

    def complete(self, completion: Mapping[str, int]) -> None:
        """End the current run."""
        self._busy, self._done, self._last = False, True, dict(completion)
        self._sticky = self._sticky or completion["error"]

    def read(self, address: int) -> tuple[int, bool]:
        """Return the data of a read at a byte address, and whether it is accepted."""
        entry = self._by_address.get(address & ~(REGISTER_BYTES - 1))
        if entry is None:
            return 0, False
        name = entry.name
        if name.endswith("_LOW"):
            value = self.counters.get(name.removesuffix("_LOW").lower(), 0)
            self._held = value >> 32
            return value & _BITS, True
        if name.endswith("_HIGH"):
            return self._held, True
        fields: dict[str, Mapping[str, int]] = {
            "STATUS": {
                "busy": self._busy,
                "done": self._done,
                "failed": self._sticky != 0,
                "interrupt": self.interrupt,
            },
            "IMAGE": {"line": self._image},
            "INTERRUPT": {"done": self._enabled},
            "COMPLETION": {key: self._last.get(key, 0) for key in ("error", "layer", "tag")},
            "INFO": {"info": self._last.get("info", 0)},
            "ERROR": {"error": self._sticky},
            "COMMAND": self.command,
            "UNITS": {"count": len(self.work)},
            "UNIT": {"number": self._unit},
            "UNIT_CYCLES": {"cycles": self.work[self._unit]},
        }
        if name in fields:
            return entry.layout.pack(fields[name]), True
        return entry.reset, True

    def write(self, address: int, value: int, strobe: int = 0xF) -> bool:
        """Write bytes of a register; return whether it was accepted."""
        entry = self._by_address.get(address & ~(REGISTER_BYTES - 1))
        if entry is None or entry.access is Access.READ:
            return False
        mask = sum(0xFF << (8 * byte) for byte in range(REGISTER_BYTES) if strobe >> byte & 1)
        if entry.name == "IMAGE":
            image = (value & mask) | (self._image & ~mask & _BITS)
            if image >> self._line_bits:
                return False
            self._image = image
        elif entry.name == "INTERRUPT":
            if mask & 1:
                self._enabled = value & 1
        elif entry.name == "UNIT":
            unit = (value & mask) | (self._unit & ~mask & _BITS)
            if unit >= len(self.work):
                return False
            self._unit = unit
        else:
            asked = entry.layout.unpack(value & mask)
            if asked["start"] and self._busy:
                return False
            if asked["start"]:
                self._busy = True
                self.started.append(self._image)
            if asked["start"] or asked["acknowledge"]:
                self._done = False
            if asked["clear"]:
                self._sticky = 0
                self.counters = {}
                self.work = [0] * len(self.work)
        return True
