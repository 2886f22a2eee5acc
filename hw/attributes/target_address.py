"""Target address: the slot of the buffer for a request's attribute (A4)."""

from amaranth import Elaboratable, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from contracts import VID_BITS
from contracts.cache import HASH_FACTOR
from hw.attributes.formats import AttributeConfig
from hw.stream.slice import Slice

__all__ = ["Placed", "TargetAddress"]

_HASH_BITS = 16


class Placed(data.StructLayout):
    """An ID, its tag, and the slot of its position or of its plan."""

    def __init__(self, config: AttributeConfig) -> None:
        super().__init__({"id": VID_BITS, "tag": unsigned(config.tag_bits), "slot": range(config.slots)})


class TargetAddress(wiring.Component):
    """Keeps the slot, or takes a hash of the ID scaled to the size of the buffer.

    Parameters
    ----------
    config : AttributeConfig

    Attributes
    ----------
    hashed : In(1)
        1: by hash, 0: as it comes; constant while anything is under way.
    i : stream of `Placed`
    o : stream of ``config.request``, with ``read`` set
    """

    def __init__(self, config: AttributeConfig) -> None:
        self.config = config
        super().__init__(
            {
                "hashed": In(1),
                "i": In(stream.Signature(Placed(config))),
                "o": Out(stream.Signature(config.request)),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Fold, multiply, scale: each between registers."""
        m = Module()
        config = self.config
        m.submodules.out = out = Slice(config.request)
        connect(m, out.o, flipped(self.o))
        stages = [Signal(Placed(config), name=f"stage_{n}", reset_less=True) for n in range(3)]
        valid = Signal(3)
        folded, mixed = (Signal(_HASH_BITS, name=name, reset_less=True) for name in ("folded", "mixed"))
        scaled = Signal(range(config.slots), reset_less=True)
        run = Signal()
        known = self.i.payload.id[: config.id_bits]
        m.d.comb += [run.eq(out.i.ready | ~valid[-1]), self.i.ready.eq(run)]
        with m.If(run):
            m.d.sync += [
                stages[0].eq(self.i.payload),
                stages[1].eq(stages[0]),
                stages[2].eq(stages[1]),
                valid.eq((valid << 1) | self.i.valid),
                # A larger ID is refused, so its slot does not matter.
                folded.eq(known[:_HASH_BITS] ^ (known >> _HASH_BITS)),
                mixed.eq(folded * HASH_FACTOR),
                scaled.eq((mixed * config.slots) >> _HASH_BITS),
            ]
        m.d.comb += [
            out.i.valid.eq(valid[-1]),
            out.i.payload.id.eq(stages[2].id),
            out.i.payload.tag.eq(stages[2].tag),
            out.i.payload.slot.eq(Mux(self.hashed, scaled, stages[2].slot)),
            out.i.payload.read.eq(1),
        ]
        return m
