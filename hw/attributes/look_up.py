"""Look-up: requests in the pipeline beside the ID table and the cache, up to their decision (A3, A6)."""

from amaranth import Elaboratable, Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from contracts import VID_BITS
from hw.attributes.formats import AttributeConfig

__all__ = ["LookUp"]

#: Cycles from asking the table for an ID to its results.
_TABLE_STAGES = 3


class LookUp(wiring.Component):
    """Carries each request along while the directory is asked for its ID.

    With ``config.sequential`` the table is asked one cycle after the cache (A6).

    Parameters
    ----------
    config : AttributeConfig

    Attributes
    ----------
    nodes : In
        IDs from here on are refused.
    run : In(1)
        The pipeline advances.
    enter : In(1)
        With `run`: `request` enters.
    request : In
    drop : In(1)
        Forget all requests in the pipeline; they enter again.
    cache_id : Out
        ID to ask the cache for.
    table_id, table_slot : Out
        ID and slot to ask the table for.
    next_slot : Out
        Target slot of the request that is decided after the next `run`.
    valid : Out(1)
        A request is to be decided, with the results of the directory.
    decided : Out
        That request.
    refused : Out(1)
        Its ID lies outside the graph.
    """

    def __init__(self, config: AttributeConfig) -> None:
        self.config = config
        slot = range(config.slots)
        super().__init__(
            {
                "nodes": In(VID_BITS),
                "run": In(1),
                "enter": In(1),
                "request": In(config.request),
                "drop": In(1),
                "cache_id": Out(config.id_bits),
                "table_id": Out(config.id_bits),
                "table_slot": Out(slot),
                "next_slot": Out(slot),
                "valid": Out(1),
                "decided": Out(config.request),
                "refused": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Shift requests; check an ID as its request enters."""
        m = Module()
        config = self.config
        table_stage = int(config.sequential)
        stages = table_stage + _TABLE_STAGES + 1
        pipe = [
            Signal(data.StructLayout({"request": config.request, "refused": 1}), name=f"stage_{n}")
            for n in range(stages)
        ]
        valid = Signal(stages)
        # IDs that do not fit must not look like others.
        refused = (self.request.id >= self.nodes) | self.request.id[config.id_bits :].any()
        with m.If(self.run):
            m.d.sync += [
                pipe[0].request.eq(self.request),
                pipe[0].refused.eq(refused),
                valid.eq((valid << 1) | self.enter),
                *(pipe[n].eq(pipe[n - 1]) for n in range(1, stages)),
            ]
        with m.If(self.drop):
            m.d.sync += valid.eq(0)
        m.d.comb += [
            self.cache_id.eq(pipe[0].request.id),
            self.table_id.eq(pipe[table_stage].request.id),
            self.table_slot.eq(pipe[table_stage].request.slot),
            self.next_slot.eq(pipe[-2].request.slot),
            self.valid.eq(valid[-1]),
            self.decided.eq(pipe[-1].request),
            self.refused.eq(pipe[-1].refused),
        ]
        return m
