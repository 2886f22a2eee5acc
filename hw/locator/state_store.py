"""Node state in banks: states of all vertices on the chip, or of the pages in use."""

from functools import reduce
from operator import or_

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from hw.locator.bank_arbiter import BankArbiter
from hw.locator.config import LocatorConfig
from hw.locator.formats import Answer, Kind, Operation, Request, Row, Settings
from hw.locator.state_bank import StateBank
from hw.locator.state_pager import PagesSignature, StatePager

__all__ = ["Entry", "ScanRow", "StateStore"]


class Entry(data.StructLayout):
    """Initial contents: the ``node``-th vertex, its ``row``."""

    def __init__(self, config: LocatorConfig) -> None:
        super().__init__({"node": config.node_bits, "row": Row(config)})


class ScanRow(data.StructLayout):
    """One vertex of every bank: whether it is ``done``, and its ``row``; ``present`` unless it is off the chip."""

    def __init__(self, config: LocatorConfig) -> None:
        super().__init__({"present": 1, "done": config.banks, "rows": data.ArrayLayout(Row(config), config.banks)})


class StateStore(wiring.Component):
    """Keeps the state of all vertices in banks, selected by the low bits of the VID.

    A bank takes one request a cycle and reads, decides and writes in one atomic step. Hubs need no state: a vertex is
    a hub if its degree is above the threshold and it is in no community.

    With pages (``config.paged``) a request waits until its vertex's page is on the chip, and all wait during a swap;
    see `hw.locator.state_pager`.

    Parameters
    ----------
    config
        Sizes.

    Attributes
    ----------
    settings
        Of the round.
    requests
        Requests of each lane of each engine; ``ready`` when the bank takes one, which depends on all requests of the
        cycle.
    answers
        Answer for each lane, in the cycle after its request was taken.
    entry
        Initial contents, in the order of vertices, written while no request is outstanding. ``ready`` depends on
        registers and on the vertex.
    scan, scans
        Address of the vertex to show in each bank, and its enable.
    scanned
        The vertices that ``scan`` addressed in the previous cycle.
    identified
        Number of vertices that became part of a community in the previous cycle.
    clear, loading, failed, paging, pages
        With pages only: a run begins; entries are being written; the memory has failed; a page is swapped or held for a
        user; the external memory.
    """

    def __init__(self, config: LocatorConfig) -> None:
        self.config = config
        flags = {"clear": In(1), "loading": In(1), "failed": In(1), "paging": Out(1)}
        super().__init__(
            {
                "settings": In(Settings(config)),
                "requests": In(stream.Signature(Request(config))).array(config.engines * config.lanes),
                "answers": Out(Answer(config)).array(config.engines * config.lanes),
                "entry": In(stream.Signature(Entry(config))),
                "scan": In(range(config.rows)),
                "scans": In(1),
                "scanned": Out(ScanRow(config)),
                "identified": Out(range(config.banks + 1)),
                **({**flags, "pages": Out(PagesSignature(config))} if config.paged else {}),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Connect banks through the crossbar; pass requests whose vertex is on the chip."""
        m = Module()
        config, entry = self.config, self.entry
        m.submodules.arbiter = arbiter = BankArbiter(config.engines * config.lanes, config.banks)
        banks = [StateBank(config) for _ in range(config.banks)]
        here = Signal(len(self.requests), init=-1)
        for n, request in enumerate(self.requests):
            m.d.comb += [
                arbiter.valid[n].eq(request.valid & here[n]),
                arbiter.bank[n].eq(request.payload.node[: config.bank_bits]),
                request.ready.eq(arbiter.grant[n]),
            ]
        m.d.comb += [entry.ready.eq(1), self.scanned.present.eq(1)]
        for number, bank in enumerate(banks):
            m.submodules[f"bank{number}"] = bank
            chosen = arbiter.chosen[number]
            m.d.comb += [
                bank.settings.eq(self.settings),
                bank.valid.eq(chosen.any()),
                bank.request.eq(
                    reduce(or_, (Mux(chosen[n], r.payload.as_value(), 0) for n, r in enumerate(self.requests)))
                ),
                bank.put.eq(entry.valid & entry.ready & (entry.payload.node[: config.bank_bits] == number)),
                bank.place.eq(entry.payload.node[config.bank_bits :]),
                bank.contents.word.kind.eq(Kind.FREE),
                bank.contents.row.eq(entry.payload.row),
                bank.scan.eq(self.scan),
                self.scanned.rows[number].eq(bank.shown.row),
                self.scanned.done[number].eq(bank.shown.word.kind == Kind.DONE),
            ]
        m.d.sync += self.identified.eq(sum(bank.identified for bank in banks))
        answers = Array(bank.answer.as_value() for bank in banks)
        for n, request in enumerate(self.requests):
            asked = Signal(config.bank_bits, name=f"asked{n}")
            m.d.sync += asked.eq(request.payload.node[: config.bank_bits])
            m.d.comb += self.answers[n].eq(answers[asked])
        if config.paged:
            self._add_pager(m, here, banks)
        return m

    def _add_pager(self, m: Module, here: Signal, banks: list[StateBank]) -> None:
        """Let the pager gate requests, and give it the banks during a swap."""
        config, entry = self.config, self.entry
        lanes, in_page = len(self.requests), exact_log2(config.page)
        m.submodules.pager = pager = StatePager(config, lanes + 2)
        pages = pager.pages
        wiring.connect(m, pages.request, wiring.flipped(self.pages.request))
        wiring.connect(m, wiring.flipped(self.pages.beat), pages.beat)
        wiring.connect(m, pages.write, wiring.flipped(self.pages.write))
        m.d.comb += [
            pages.base.eq(self.pages.base),
            pages.unwritten.eq(self.pages.unwritten),
            pager.clear.eq(self.clear),
            pager.fresh.eq(self.loading),
            pager.failed.eq(self.failed),
            self.paging.eq(pager.busy),
            here.eq(pager.here),
        ]
        for n, request in enumerate(self.requests):
            m.d.comb += [
                pager.wants[n].eq(request.valid),
                pager.wanted[n].eq(request.payload.node[in_page:]),
                pager.served[n].eq(request.valid & request.ready),
                pager.writes[n].eq(pager.served[n] & (request.payload.operation != Operation.LOOK)),
            ]
        # Entries and the scan are users behind the lanes.
        present, puts = Signal(), entry.valid & entry.ready
        m.d.sync += present.eq(pager.here[lanes + 1])
        m.d.comb += [
            pager.wants[lanes].eq(entry.valid),
            pager.wanted[lanes].eq(entry.payload.node[in_page:]),
            entry.ready.eq(pager.here[lanes]),
            pager.served[lanes].eq(puts),
            pager.writes[lanes].eq(puts),
            pager.wants[lanes + 1].eq(self.scans),
            pager.wanted[lanes + 1].eq(self.scan[in_page - config.bank_bits :]),
            pager.served[lanes + 1].eq(present),
            self.scanned.present.eq(present),
        ]
        for number, bank in enumerate(banks):
            m.d.comb += pager.shown[number].eq(bank.shown)
            with m.If(pager.moving):
                m.d.comb += [
                    bank.scan.eq(pager.place),
                    bank.put.eq(pager.put[number]),
                    bank.place.eq(pager.place),
                    bank.contents.eq(pager.contents[number % config.slots]),
                ]
