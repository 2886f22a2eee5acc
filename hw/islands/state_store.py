"""Node state: who has visited what, in banks that each read, decide and write in one step."""

from functools import reduce
from operator import or_

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.islands.bank_arbiter import BankArbiter
from hw.islands.config import LocatorConfig
from hw.islands.formats import Answer, Kind, Operation, Outcome, Request, Row, Settings

__all__ = ["Entry", "ScanRow", "StateStore"]


class Entry(data.StructLayout):
    """First contents of a vertex: the ``node``-th, its ``row``."""

    def __init__(self, config: LocatorConfig) -> None:
        super().__init__({"node": config.node_bits, "row": Row(config)})


class ScanRow(data.StructLayout):
    """One vertex of every bank: whether it is ``done``, and its ``row``."""

    def __init__(self, config: LocatorConfig) -> None:
        super().__init__({"done": config.banks, "rows": data.ArrayLayout(Row(config), config.banks)})


class _Word(data.StructLayout):
    def __init__(self, config: LocatorConfig) -> None:
        super().__init__({"kind": Kind, "value": config.value_bits})


class _Bank(wiring.Component):
    """One bank: a request a cycle, answered in the next; a request sees what the one before it wrote."""

    def __init__(self, config: LocatorConfig) -> None:
        self.config = config
        super().__init__(
            {
                "settings": In(Settings(config)),
                "valid": In(1),
                "request": In(Request(config)),
                "entry_valid": In(1),
                "entry": In(Entry(config)),
                "scan": In(range(config.rows)),
                "answer": Out(Answer(config)),
                "scan_done": Out(1),
                "scan_row": Out(Row(config)),
                "identified": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        config, settings = self.config, self.settings
        word = _Word(config)
        m.submodules.states = states = memory.Memory(shape=word, depth=config.rows, init=[])
        m.submodules.rows = rows = memory.Memory(shape=Row(config), depth=config.rows, init=[])
        write = states.write_port()
        # A request right after a write of the same vertex reads what was written.
        read, scanned = states.read_port(transparent_for=(write,)), states.read_port()
        row_write, row_read, row_scanned = rows.write_port(), rows.read_port(), rows.read_port()
        address = self.request.node[config.bank_bits :]
        fresh = self.entry.node[config.bank_bits :]
        m.d.comb += [
            read.addr.eq(address),
            row_read.addr.eq(address),
            scanned.addr.eq(self.scan),
            row_scanned.addr.eq(self.scan),
            self.scan_done.eq(scanned.data.kind == Kind.DONE),
            self.scan_row.eq(row_scanned.data),
            row_write.addr.eq(fresh),
            row_write.data.eq(self.entry.row),
            row_write.en.eq(self.entry_valid),
        ]

        valid, request = Signal(), Signal(Request(config), reset_less=True)
        m.d.sync += [valid.eq(self.valid), request.eq(self.request)]
        held = read.data
        answer = self.answer
        m.d.comb += [answer.row.eq(row_read.data), answer.owner.eq(held.value[: answer.owner.shape().size])]
        degree = row_read.data.degree
        with m.If(held.kind == Kind.DONE):
            m.d.comb += answer.outcome.eq(Outcome.DONE)
        with m.Elif(degree > settings.previous):
            m.d.comb += answer.outcome.eq(Outcome.OLD_HUB)
        with m.Elif(degree > settings.threshold):
            m.d.comb += answer.outcome.eq(Outcome.NEW_HUB)
        with m.Elif(held.kind == Kind.OWNED):
            m.d.comb += answer.outcome.eq(Mux(held.value == request.value, Outcome.MINE, Outcome.OTHER))
        with m.Elif((held.kind == Kind.MARKED) & (held.value == settings.round)):
            m.d.comb += answer.outcome.eq(Outcome.MARKED)
        with m.Else():
            m.d.comb += answer.outcome.eq(Outcome.FREE)

        m.d.comb += self.identified.eq(valid & (request.operation == Operation.SET) & (request.kind == Kind.DONE))
        claims = (request.operation == Operation.CLAIM) & (answer.outcome == Outcome.FREE)
        with m.If(self.entry_valid):
            m.d.comb += [write.en.eq(1), write.addr.eq(fresh), write.data.kind.eq(Kind.FREE)]
        with m.Else():
            m.d.comb += [
                write.en.eq(valid & (claims | (request.operation == Operation.SET))),
                write.addr.eq(request.node[config.bank_bits :]),
                write.data.kind.eq(Mux(claims, Kind.OWNED, request.kind)),
                write.data.value.eq(request.value),
            ]
        return m


class StateStore(wiring.Component):
    """State of all vertices, banked by the low bits of their number.

    A bank takes a request a cycle and is its own owner of what it holds, so looking, deciding and writing are one
    step that nothing comes between. Hubs need no state: a vertex is one if its degree is above the threshold and it
    is in no community.

    Parameters
    ----------
    config
        Sizes.

    Attributes
    ----------
    settings
        Of the round.
    requests
        Of every lane of every engine; ``ready`` in the cycle in which the bank takes it, which depends on all
        requests of the cycle.
    answers
        Of every lane, in the cycle after its request was taken.
    entry
        First contents, written while no request is under way.
    scan
        Which vertex of every bank to show.
    scanned
        The vertices ``scan`` named one cycle before.
    identified
        How many vertices have become part of a community, a cycle later.
    """

    def __init__(self, config: LocatorConfig) -> None:
        self.config = config
        super().__init__(
            {
                "settings": In(Settings(config)),
                "requests": In(stream.Signature(Request(config))).array(config.engines * config.lanes),
                "answers": Out(Answer(config)).array(config.engines * config.lanes),
                "entry": In(stream.Signature(Entry(config), always_ready=True)),
                "scan": In(range(config.rows)),
                "scanned": Out(ScanRow(config)),
                "identified": Out(range(config.banks + 1)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Connect banks through the crossbar."""
        m = Module()
        config = self.config
        m.submodules.arbiter = arbiter = BankArbiter(config.engines * config.lanes, config.banks)
        banks = [_Bank(config) for _ in range(config.banks)]
        for n, request in enumerate(self.requests):
            m.d.comb += [
                arbiter.valid[n].eq(request.valid),
                arbiter.bank[n].eq(request.payload.node[: config.bank_bits]),
                request.ready.eq(arbiter.grant[n]),
            ]
        for number, bank in enumerate(banks):
            m.submodules[f"bank{number}"] = bank
            chosen = arbiter.chosen[number]
            m.d.comb += [
                bank.settings.eq(self.settings),
                bank.valid.eq(chosen.any()),
                bank.request.eq(
                    reduce(or_, (Mux(chosen[n], r.payload.as_value(), 0) for n, r in enumerate(self.requests)))
                ),
                bank.entry_valid.eq(self.entry.valid & (self.entry.payload.node[: config.bank_bits] == number)),
                bank.entry.eq(self.entry.payload),
                bank.scan.eq(self.scan),
                self.scanned.rows[number].eq(bank.scan_row),
            ]
        m.d.sync += self.identified.eq(sum(bank.identified for bank in banks))
        m.d.comb += self.scanned.done.eq(Cat(bank.scan_done for bank in banks))
        answers = Array(bank.answer.as_value() for bank in banks)
        for n, request in enumerate(self.requests):
            asked = Signal(config.bank_bits, name=f"asked{n}")
            m.d.sync += asked.eq(request.payload.node[: config.bank_bits])
            m.d.comb += self.answers[n].eq(answers[asked])
        return m
