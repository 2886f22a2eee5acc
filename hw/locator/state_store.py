"""Node state in banks: states of all vertices on the chip, or of the pages in use."""

from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from hw.locator.bank_arbiter import BankArbiter
from hw.locator.config import LocatorConfig
from hw.locator.degree_lists import LinkedRows
from hw.locator.formats import Answer, Kind, Operation, Outcome, Owner, Request, Row, Settings
from hw.locator.loader import row_of
from hw.locator.state_bank import StateBank
from hw.locator.state_pager import PagesSignature, StatePager

__all__ = ["Shown", "StateStore"]


class Shown(data.StructLayout):
    """A vertex that was looked at: its ``outcome``, its ``row``, and the ``next`` one's place in the bank."""

    def __init__(self, config: LocatorConfig) -> None:
        super().__init__({"outcome": Outcome, "row": Row(config), "next": config.place_bits})


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
    owners
        For each engine the search that its lanes claim for.
    answers
        Answer for each lane, two cycles after its request was taken.
    rows
        Initial contents, in the order of vertices, written while no request is outstanding. ``ready`` depends on
        registers and on the vertex.
    looks, shown
        For each bank: place of a vertex to look at while the bank has no request, and the vertex, in the next cycle.
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
                "owners": In(Owner(config)).array(config.engines),
                "answers": Out(Answer(config)).array(config.engines * config.lanes),
                "rows": In(stream.Signature(LinkedRows(config))),
                "looks": In(stream.Signature(config.place_bits)).array(config.banks),
                "shown": Out(Shown(config)).array(config.banks),
                "identified": Out(range(config.banks + 1)),
                **({**flags, "pages": Out(PagesSignature(config))} if config.paged else {}),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Connect banks through the crossbar; pass requests whose vertex is on the chip."""
        m = Module()
        config = self.config
        m.submodules.arbiter = arbiter = BankArbiter(config.engines * config.lanes, config.banks)
        banks = [StateBank(config) for _ in range(config.banks)]
        here = Signal(len(self.requests) + config.banks, init=-1)
        for n, request in enumerate(self.requests):
            m.d.comb += [
                arbiter.valid[n].eq(request.valid & here[n]),
                arbiter.bank[n].eq(request.payload.node[: config.bank_bits]),
                request.ready.eq(arbiter.grant[n]),
            ]
        m.d.comb += self.rows.ready.eq(1)
        for number, (bank, look) in enumerate(zip(banks, self.looks, strict=True)):
            m.submodules[f"bank{number}"] = bank
            chosen = arbiter.chosen[number]
            looks, looked = Signal(name=f"looks{number}"), Signal(Request(config), name=f"looked{number}")
            m.d.comb += [
                bank.settings.eq(self.settings),
                looks.eq(look.valid & here[len(self.requests) + number] & ~chosen.any()),
                look.ready.eq(looks),
                bank.valid.eq(chosen.any() | looks),
                looked.node.eq(Mux(chosen.any(), 0, look.payload << config.bank_bits)),
                bank.request.eq(
                    reduce(
                        or_,
                        (Mux(chosen[n], r.payload.as_value(), 0) for n, r in enumerate(self.requests)),
                        looked.as_value(),
                    )
                ),
                bank.owner.eq(
                    reduce(
                        or_,
                        (
                            Mux(chosen.word_select(n, config.lanes).any(), owner.as_value(), 0)
                            for n, owner in enumerate(self.owners)
                        ),
                    )
                ),
                self.shown[number].outcome.eq(bank.answer.outcome),
                self.shown[number].row.eq(bank.shown.rest.row),
                self.shown[number].next.eq(bank.shown.rest.next),
            ]
            self._store(m, number, bank)
        m.d.sync += self.identified.eq(sum(bank.identified for bank in banks))
        # A bank's answer comes from memory: lanes choose theirs behind a register. The banks that were chosen are kept
        # one-hot: fewer LUTs than a choice by number.
        given = [Signal(Answer(config), name=f"given{n}", reset_less=True) for n in range(config.banks)]
        m.d.sync += [answer.eq(bank.answer) for answer, bank in zip(given, banks, strict=True)]
        for n, answer in enumerate(self.answers):
            asked, answered = (Signal(config.banks, name=f"{name}{n}") for name in ("asked", "answered"))
            m.d.sync += [asked.eq(Cat(chosen[n] for chosen in arbiter.chosen)), answered.eq(asked)]
            m.d.comb += answer.eq(
                reduce(or_, (Mux(one, of.as_value(), 0) for one, of in zip(answered, given, strict=True)))
            )
        if config.paged:
            self._add_pager(m, here, banks)
        return m

    def _store(self, m: Module, number: int, bank: StateBank) -> None:
        """Write the row of this bank in each group."""
        lane, linked = number % self.config.load_words, self.rows.payload
        mine, place = row_of(self.config, linked.rows, number)
        m.d.comb += [
            bank.put.eq(self.rows.valid & self.rows.ready & mine),
            bank.place.eq(place),
            bank.contents.word.kind.eq(Kind.FREE),
            bank.contents.rest.row.eq(linked.rows.rows[lane]),
            bank.contents.rest.next.eq(linked.next[lane]),
        ]

    def _add_pager(self, m: Module, here: Signal, banks: list[StateBank]) -> None:
        """Let the pager gate requests, and give it the banks during a swap."""
        config, rows = self.config, self.rows
        users = len(here)
        m.submodules.pager = pager = StatePager(config, users + 1)
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
                pager.wanted[n].eq(request.payload.node[exact_log2(config.page) :]),
                pager.served[n].eq(request.valid & request.ready),
                pager.writes[n].eq(pager.served[n] & (request.payload.operation != Operation.LOOK)),
            ]
        for n, look in enumerate(self.looks, len(self.requests)):
            m.d.comb += [
                pager.wants[n].eq(look.valid),
                pager.wanted[n].eq(look.payload[exact_log2(config.page_rows) :]),
                pager.served[n].eq(look.valid & look.ready),
            ]
        # The rows that are loaded are a user behind them; a page has whole groups.
        m.d.comb += [
            pager.wants[users].eq(rows.valid),
            pager.wanted[users].eq(rows.payload.rows.group[exact_log2(config.page // config.load_words) :]),
            rows.ready.eq(pager.here[users]),
            pager.served[users].eq(rows.valid & rows.ready),
            pager.writes[users].eq(pager.served[users]),
        ]
        for number, bank in enumerate(banks):
            m.d.comb += pager.shown[number].eq(bank.shown)
            with m.If(pager.moving):
                m.d.comb += [
                    bank.request.node.eq(pager.place << config.bank_bits),
                    bank.put.eq(pager.put[number]),
                    bank.place.eq(pager.place),
                    bank.contents.eq(pager.contents[number % config.slots]),
                ]
