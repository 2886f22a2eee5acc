"""Row unit: fetches, moves and reads the rows of both levels, as requests are decided (A3, A7)."""

from amaranth import Elaboratable, Module, Signal
from amaranth.hdl import Cover
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.attributes.arriving_rows import ArrivingRows
from hw.attributes.fill_unit import FillUnit
from hw.attributes.flows import Effect, Found, Marks, Missing
from hw.attributes.formats import AttributeConfig, AttributeSettings, MoveKind
from hw.attributes.replica_table import replica_members
from hw.attributes.row_moves import RowMoves
from hw.attributes.row_store import RowStore
from hw.memory.formats import ReadBeat, ReadRequest

__all__ = ["RowUnit"]


class RowUnit(wiring.Component):
    """Row store and fill unit, with the marks of the slots whose rows are under way.

    Parameters
    ----------
    config : AttributeConfig

    Attributes
    ----------
    settings : In
        `AttributeSettings`.
    run, next_slot : In
        Look-ups advance, and the target slot that is decided next.
    marks : Out
        `Marks` for the request to be decided.
    decided : In
        The request that is decided, a ``config.request``.
    effect, found : In
        `Effect` of it, and `Found` for it.
    move_ready, fetch_ready : Out(1)
        There is room for a move of rows, and for a row to fetch.
    pending : Out(1)
        The row of an earlier request is still to be read; no request may be decided.
    landed : Out
        `Missing`, the oldest row under way.
    failed : Out(1)
        It could not be read.
    landing_ready : Out(1)
        It has arrived, and the row store is ready for it.
    landing : In(1)
        It lands; with `landing_ready` only.
    idle : Out(1)
        No row is under way or moves.
    rows : stream of ``config.row``
    replica : stream of `ReplicaEntry`, always ready
        If there is a table of replicas.
    requests, beats
        Clients' ends of the read arbiter, those of `FillUnit`.
    """

    def __init__(self, config: AttributeConfig) -> None:
        self.config = config
        port = (config.address_width, config.data_width)
        self._fills = FillUnit(config)
        #: Read clients.
        self.clients = self._fills.clients
        super().__init__(
            {
                "settings": In(AttributeSettings(config)),
                "run": In(1),
                "next_slot": In(range(config.slots)),
                "marks": Out(Marks),
                "decided": In(config.request),
                "effect": In(Effect),
                "found": In(Found(config)),
                "move_ready": Out(1),
                "fetch_ready": Out(1),
                "pending": Out(1),
                "landed": Out(Missing(config)),
                "failed": Out(1),
                "landing_ready": Out(1),
                "landing": In(1),
                "idle": Out(1),
                "rows": Out(stream.Signature(config.row)),
                **replica_members(config),
                "requests": Out(stream.Signature(ReadRequest(*port))).array(self.clients),
                "beats": In(stream.Signature(ReadBeat(config.data_width), always_ready=True)).array(self.clients),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Connect marks, moves, store and fills."""
        m = Module()
        config, effect, decided, found = self.config, self.effect, self.decided, self.found
        m.submodules.arriving = arriving = ArrivingRows(config)
        m.submodules.moves = moves = RowMoves(config)
        m.submodules.store = store = RowStore(config)
        m.submodules.fills = fills = self._fills
        connect(m, moves.o, store.i)
        connect(m, fills.fill, store.fill)
        connect(m, store.rows, flipped(self.rows))
        if config.replicas:
            connect(m, flipped(self.replica), fills.replica)
        for n, (request, beat) in enumerate(zip(fills.requests, fills.beats, strict=True)):
            connect(m, request, flipped(self.requests[n]))
            connect(m, flipped(self.beats[n]), beat)
        row, misses = fills.landed.payload.missing, Signal()
        m.d.comb += [
            misses.eq(effect.commits & effect.met.missed),
            arriving.run.eq(self.run),
            arriving.next_slot.eq(self.next_slot),
            arriving.address.eq(found.address),
            arriving.begin.eq(misses),
            arriving.begin_slot.eq(decided.slot),
            arriving.end.eq(self.landing),
            arriving.end_slot.eq(row.slot),
            self.marks.eq(arriving.marks),
            self.landed.eq(row),
            self.failed.eq(fills.landed.payload.error),
            self.landing_ready.eq(fills.landed.valid & (self.failed | ~row.read | moves.o.ready)),
            fills.landed.ready.eq(self.landing),
            fills.settings.eq(self.settings),
            fills.hold.eq(store.busy & (store.active.kind == MoveKind.COPY)),
            fills.hold_row.eq(store.active.first),
            fills.i.valid.eq(misses),
            *(fills.i.payload[name].eq(decided[name]) for name in ("id", "slot", "read", "tag")),
            fills.i.payload.cell.eq(found.cell),
            self.fetch_ready.eq(fills.i.ready),
            moves.read_landed.eq(self.landing & row.read & ~self.failed),
            moves.landed.eq(row),
            moves.request.eq(decided),
            moves.effect.eq(effect),
            moves.found.eq(found),
            self.move_ready.eq(moves.o.ready),
            self.pending.eq(moves.pending),
            store.beats.eq(self.settings.beats),
            self.idle.eq(~arriving.under_way & ~moves.pending & ~store.busy),
        ]
        m.d.sync += Cover(effect.commits & effect.met.in_place & arriving.under_way, "a hit under a miss")
        return m
