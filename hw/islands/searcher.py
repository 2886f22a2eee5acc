"""Searcher: breadth-first search from the neighbours of a hub, through vertices that are no hubs (I3)."""

from amaranth.hdl import Array, Cat, Cover, Module, Mux, Signal
from amaranth.lib import data, enum, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.islands.config import EPOCH_BITS, LocatorConfig
from hw.islands.formats import (
    Answer,
    Claim,
    Descriptor,
    Kind,
    Operation,
    Outcome,
    Owner,
    Request,
    Settings,
    Status,
    Task,
    Verdict,
)
from hw.islands.record_buffer import writer_members
from hw.islands.row_reader import Neighbour, RowReader
from hw.stream.queue import Queue

__all__ = ["Searcher"]

#: Neighbours that can meet another search before the first is judged: one is asked for, two are under way.
_RETRIES = 4


class _End(enum.Enum, shape=2):  # type: ignore[call-arg]
    """How a search ends."""

    COMPLETE = 0
    MARK = 1
    RELEASE = 2


class _Column(data.StructLayout):
    """Column of a vertex in the record whose tag this is."""

    def __init__(self, config: LocatorConfig) -> None:
        super().__init__({"tag": config.tag_bits, "column": max(config.list_bits, config.hub_bits)})


class Searcher(wiring.Component):
    """Takes a task, reads its hub's neighbours, then searches from each that is free.

    A neighbour passes four steps, one a cycle: its state is asked for; the state store answers, while its column is
    looked up in a table of this record; the two are judged; its bit of the bitmap is set. Rows of nodes are fetched
    ahead in the order in which the nodes were visited. The search is complete when every node visited has had all
    its neighbours read.

    Parameters
    ----------
    config
        Sizes.
    number
        Of the worker.

    Attributes
    ----------
    settings
        Of the round.
    clear
        Begin a run: forget all columns.
    task
        Work, taken when there is nothing else to do; ``ready`` depends on registers.
    request, answer
        To and from the state store; a request may be withdrawn.
    line_request, line
        To and from the adjacency.
    conflict, verdict
        To and from the resolver.
    status, claim
        What the resolver knows of the search, and whether it has lost.
    found
        Records that lie in the buffer; taken when the collector has emitted the one before.
    busy
        There is something to do.
    read
        A neighbour was judged in this cycle: an edge was read.
    began, gave_up, retreated
        A search began, or ended so, in this cycle.
    buffer_...
        To and from the record buffer.
    """

    def __init__(self, config: LocatorConfig, number: int) -> None:
        self.config, self.number = config, number
        super().__init__(
            {
                "settings": In(Settings(config)),
                "clear": In(1),
                "task": In(stream.Signature(Task(config))),
                "request": Out(stream.Signature(Request(config))),
                "answer": In(Answer(config)),
                "line_request": Out(stream.Signature(config.line_bits)),
                "line": In(stream.Signature(config.data_width, always_ready=True)),
                "conflict": Out(stream.Signature(Owner(config))),
                "verdict": In(stream.Signature(Verdict, always_ready=True)),
                "status": Out(Status(config)),
                "claim": In(Claim()),
                "found": Out(stream.Signature(Descriptor(config))),
                "busy": Out(1),
                "read": Out(1),
                "began": Out(1),
                "gave_up": Out(1),
                "retreated": Out(1),
                **{f"buffer_{name}": member.flip() for name, member in writer_members(config).items()},
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Front end, judgement, control."""
        m = Module()
        config, settings = self.config, self.settings
        m.submodules.reader = reader = RowReader(config)
        m.submodules.retries = retries = Queue(Neighbour(config), _RETRIES, storage="distributed")
        m.submodules.columns = columns = memory.Memory(shape=_Column(config), depth=config.nodes, init=[])
        wiring.connect(m, reader.request, wiring.flipped(self.line_request))
        wiring.connect(m, wiring.flipped(self.line), reader.line)
        column_write = columns.write_port()
        column_read = columns.read_port(transparent_for=(column_write,))

        # The record: nodes and hubs so far, and vertices that were claimed after the search had ended.
        nodes, late = Signal(config.list_bits + 1), Signal(config.list_bits)
        hubs = Signal(config.hub_bits + 1)
        half, tag = Signal(), Signal(config.tag_bits)
        task = Signal(Task(config))
        searching, epoch, end = Signal(), Signal(EPOCH_BITS), Signal(_End)
        owner = Signal(Owner(config))
        handing = Signal()
        m.d.comb += [
            owner.worker.eq(self.number),
            owner.epoch.eq(epoch),
            self.status.searching.eq(searching),
            self.status.epoch.eq(epoch),
            self.status.count.eq(nodes),
            self.status.number.eq(task.number),
            self.buffer_tag.eq(tag),
            self.busy.eq(1),
            self.found.valid.eq(handing),
            self.found.payload.half.eq(half),
            self.found.payload.tag.eq(tag),
            self.found.payload.nodes.eq(nodes),
            self.found.payload.hubs.eq(hubs),
            self.found.payload.round.eq(settings.round),
        ]
        with m.If(handing & self.found.ready):
            m.d.sync += handing.eq(0)

        # Step 1: what to look at.
        look, looks, goes = Signal(Neighbour(config)), Signal(), Signal()
        local, remote = Signal(config.node_bits), Signal()
        request = self.request.payload
        m.d.comb += [
            local.eq(look.vertex - settings.first),
            remote.eq(local >= settings.vertices),
            self.request.valid.eq(looks & ~remote),
            goes.eq(looks & (remote | self.request.ready)),
            request.node.eq(local),
            request.operation.eq(Operation.CLAIM),
            request.value.eq(owner),
        ]
        # Step 2: the state store answers.
        second, second_remote, second_look = Signal(), Signal(), Signal(Neighbour(config))
        m.d.sync += [second.eq(goes), second_look.eq(look), second_remote.eq(remote)]
        m.d.comb += column_read.addr.eq(second_look.vertex)
        # Step 3: judge.
        third, edge, answer = Signal(), Signal(Neighbour(config)), Signal(Answer(config))
        m.d.sync += [third.eq(second), edge.eq(second_look), answer.eq(self.answer)]
        with m.If(second_remote):
            m.d.sync += answer.outcome.eq(Outcome.OLD_HUB)
        known = column_read.data.tag == tag
        is_hub = (answer.outcome == Outcome.OLD_HUB) | (answer.outcome == Outcome.NEW_HUB)
        keep_node, keep_hub, keep_late, bit = Signal(), Signal(), Signal(), Signal()
        column = Signal(column_read.data.column.shape())
        m.d.comb += [
            self.buffer_node.valid.eq(keep_node | keep_late),
            self.buffer_node.payload.vertex.eq(edge.vertex),
            self.buffer_node.payload.row.eq(answer.row),
            self.buffer_node_index.eq(Cat((nodes + late)[: config.list_bits], half)),
            self.buffer_hub.valid.eq(keep_hub),
            self.buffer_hub.payload.eq(edge.vertex),
            self.buffer_hub_index.eq(Cat(hubs[: config.hub_bits], half)),
            column_write.en.eq(keep_node | keep_hub),
            column_write.addr.eq(edge.vertex),
            column_write.data.tag.eq(tag),
            column_write.data.column.eq(column),
        ]
        with m.If(known):
            m.d.comb += column.eq(column_read.data.column)
        with m.Else():
            m.d.comb += column.eq(Mux(is_hub, hubs, nodes))
        m.d.sync += [nodes.eq(nodes + keep_node), hubs.eq(hubs + keep_hub), late.eq(late + keep_late)]
        # Step 4: set the bit.
        m.d.sync += [
            self.buffer_bit.valid.eq(bit),
            self.buffer_bit.payload.row.eq(edge.index),
            self.buffer_bit.payload.column.eq(column),
            self.buffer_bit.payload.hub.eq(is_hub),
            self.buffer_bit.payload.half.eq(half),
        ]
        quiet, stops = Signal(), Signal()
        m.d.comb += quiet.eq(~second & ~third)

        seeds = Array(Signal(config.node_bits, name=f"seed{n}") for n in range(config.line_words))
        seed_count, seed = Signal(range(config.line_words + 1)), Signal(range(config.line_words + 1))
        fetch, fetch_next = Signal(config.list_bits + 1), Signal(config.list_bits + 1)
        m.d.comb += [fetch_next.eq(fetch), self.buffer_fetch.eq(Cat(fetch_next[: config.list_bits], half))]
        m.d.sync += fetch.eq(fetch_next)
        # What met another search waits for the resolver, then is looked at again.
        blocked, asking, asked, foe = Signal(), Signal(), Signal(), Signal(Owner(config))
        m.d.comb += [
            self.conflict.valid.eq(asking),
            self.conflict.payload.eq(foe),
            retries.i.payload.eq(edge),
        ]
        with m.If(asking & self.conflict.ready):
            m.d.sync += [asking.eq(0), asked.eq(1)]
        with m.If(self.verdict.valid):
            m.d.sync += asked.eq(0)

        sent = Signal()
        # A record of the task's hub and one of each search from its neighbours need a tag each.
        tags_left = tag < (1 << config.tag_bits) - config.line_words - 2
        forget = Signal(range(max(config.nodes, config.bitmap_words)))
        swept = Signal()  # the vertex at `fetch` has come out of the buffer

        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += [self.busy.eq(0), self.task.ready.eq(tags_left & ~self.clear)]
                m.d.sync += [
                    task.eq(self.task.payload), nodes.eq(1), hubs.eq(0), late.eq(0),
                    sent.eq(0), seed.eq(0), seed_count.eq(0), swept.eq(0), fetch.eq(0),
                ]  # fmt: skip
                m.d.comb += [
                    self.buffer_node.valid.eq(self.task.valid),
                    self.buffer_node.payload.vertex.eq(self.task.payload.vertex),
                    self.buffer_node_index.eq(Cat((nodes & 0)[: config.list_bits], half)),
                ]
                with m.If(self.clear | ~tags_left):
                    m.next = "WAIT_FOR_COLLECTOR"
                with m.Elif(self.task.valid):
                    m.d.sync += [tag.eq(tag + 1), end.eq(_End.COMPLETE), handing.eq(self.task.payload.isolated)]
                    m.next = "READ"
                    with m.If(self.task.payload.isolated):
                        m.next = "SWEEP"
            with m.State("WAIT_FOR_COLLECTOR"):
                m.d.sync += forget.eq(0)
                with m.If(self.found.ready):
                    m.next = "FORGET"
            with m.State("FORGET"):
                m.d.comb += [
                    column_write.en.eq(1),
                    column_write.addr.eq(forget),
                    column_write.data.tag.eq(0),
                    self.buffer_clear.valid.eq(forget < config.bitmap_words),
                    self.buffer_clear.payload.eq(forget),
                ]
                m.d.sync += [forget.eq(forget + 1), tag.eq(0)]
                with m.If(forget == max(config.nodes, config.bitmap_words) - 1):
                    m.next = "IDLE"
            with m.State("READ"):
                # The hub's neighbours: hubs become columns of its record, free vertices are searched from.
                m.d.comb += [
                    reader.i.valid.eq(~sent),
                    reader.i.payload.row.start.eq(task.start),
                    reader.i.payload.row.degree.eq(task.count),
                    look.eq(reader.o.payload),
                    looks.eq(reader.o.valid),
                    reader.o.ready.eq(goes),
                    request.operation.eq(Operation.LOOK),
                    self.read.eq(third),
                ]
                with m.If(reader.i.ready):
                    m.d.sync += sent.eq(1)
                earlier = (answer.outcome == Outcome.NEW_HUB) & (edge.vertex < task.vertex)
                with m.If(third & ((answer.outcome == Outcome.OLD_HUB) | earlier)):
                    m.d.comb += [keep_hub.eq(1), bit.eq(1), column.eq(hubs)]
                with m.If(third & (answer.outcome == Outcome.FREE)):
                    m.d.sync += [seeds[seed_count].eq(edge.vertex), seed_count.eq(seed_count + 1)]
                with m.If(sent & ~reader.busy & quiet):
                    m.d.sync += sent.eq(0)
                    m.next = "SEED"
                    with m.If(task.head | (hubs != 0)):
                        m.d.sync += handing.eq(1)
                        m.next = "HAND"
            with m.State("HAND"):
                m.d.comb += [self.found.payload.head.eq(task.head), self.found.payload.hub_edges.eq(1)]
                with m.If(self.found.ready):
                    m.d.sync += half.eq(~half)
                    m.next = "SEED"
            with m.State("SEED"):
                m.d.comb += [look.vertex.eq(seeds[seed]), looks.eq((seed != seed_count) & ~sent)]
                m.d.sync += [sent.eq(sent | goes), fetch.eq(0), swept.eq(0), nodes.eq(keep_node), hubs.eq(0)]
                m.d.sync += late.eq(0)
                with m.If(goes):
                    m.d.sync += tag.eq(tag + 1)
                with m.If(third):
                    m.d.sync += sent.eq(0)
                    with m.If(answer.outcome == Outcome.FREE):
                        m.d.comb += [
                            keep_node.eq(1), column.eq(0), self.began.eq(1),
                            self.buffer_node_index.eq(Cat((nodes & 0)[: config.list_bits], half)),
                        ]  # fmt: skip
                        m.d.sync += searching.eq(1)
                        m.next = "SEARCH"
                    with m.Else():
                        m.d.sync += seed.eq(seed + 1)
                with m.Elif(seed == seed_count):
                    m.next = "IDLE"
            with m.State("SEARCH"):
                again = retries.o.valid
                m.d.comb += [
                    reader.i.valid.eq(fetch < nodes),
                    reader.i.payload.row.eq(self.buffer_fetched.row),
                    reader.i.payload.index.eq(fetch),
                    fetch_next.eq(fetch + reader.i.ready),
                    look.eq(Mux(again, retries.o.payload, reader.o.payload)),
                    looks.eq(~blocked & (again | reader.o.valid)),
                    retries.o.ready.eq(goes & again),
                    reader.o.ready.eq(goes & ~again),
                    self.read.eq(third & (answer.outcome != Outcome.OTHER)),
                ]
                with m.If(blocked & quiet & ~asking & ~asked):
                    m.d.sync += asking.eq(1)
                with m.If(self.verdict.valid & (self.verdict.payload == Verdict.WAIT)):
                    m.d.sync += blocked.eq(0)

                # Judged here already: the search cannot go on.
                full_hubs = is_hub & ~known & (hubs == config.hubs)
                full_nodes = (answer.outcome == Outcome.FREE) & (nodes == settings.c_max)
                m.d.comb += stops.eq(third & (full_hubs | full_nodes | (answer.outcome == Outcome.MARKED)))
                with m.If(~reader.busy & quiet & ~again & ~blocked & (fetch == nodes)):
                    m.d.sync += [searching.eq(0), handing.eq(1), fetch.eq(0)]
                    m.d.comb += fetch_next.eq(0)
                    m.next = "SWEEP"
                with m.If(third & ~stops):
                    with m.If(is_hub):
                        m.d.comb += [keep_hub.eq(~known), bit.eq(1)]
                    with m.Elif(answer.outcome == Outcome.FREE):
                        m.d.comb += [keep_node.eq(1), bit.eq(1)]
                    with m.Elif(answer.outcome == Outcome.MINE):
                        m.d.comb += bit.eq(1)
                    with m.Elif(answer.outcome == Outcome.OTHER):
                        m.d.comb += retries.i.valid.eq(1)
                        m.d.sync += [blocked.eq(1), foe.eq(answer.owner)]
                with m.If(stops):
                    m.d.comb += keep_late.eq(full_nodes)
                with m.If(stops | self.claim.lost):
                    m.d.sync += [searching.eq(0), handing.eq(0)]
                    m.d.sync += end.eq(Mux(stops | self.claim.mark, _End.MARK, _End.RELEASE))
                    m.d.comb += [self.gave_up.eq(stops | self.claim.mark), self.retreated.eq(~self.gave_up)]
                    m.next = "DRAIN"
            with m.State("DRAIN"):
                m.d.comb += [
                    reader.flush.eq(1),
                    retries.o.ready.eq(1),
                    keep_late.eq(third & (answer.outcome == Outcome.FREE)),
                    fetch_next.eq(0),
                ]
                with m.If(quiet & ~reader.busy & ~retries.o.valid & ~asking & ~asked):
                    m.d.sync += [blocked.eq(0), swept.eq(0)]
                    m.next = "SWEEP"
            with m.State("SWEEP"):
                m.d.comb += [
                    self.found.payload.head.eq(1),
                    look.vertex.eq(self.buffer_fetched.vertex),
                    self.request.valid.eq(swept & (fetch != nodes + late)),
                    request.operation.eq(Operation.SET),
                    request.kind.eq(Kind.FREE),
                    fetch_next.eq(fetch + (self.request.valid & self.request.ready)),
                ]
                m.d.sync += swept.eq(1)
                with m.If(end == _End.COMPLETE):
                    m.d.comb += request.kind.eq(Kind.DONE)
                with m.Elif((end == _End.MARK) & (fetch < nodes)):
                    m.d.comb += [request.kind.eq(Kind.MARKED), request.value.eq(settings.round)]
                with m.If(swept & (fetch == nodes + late) & ~handing):
                    m.d.sync += [epoch.eq(epoch + 1), seed.eq(seed + ~task.isolated), end.eq(_End.COMPLETE)]
                    m.d.sync += half.eq(half ^ (end == _End.COMPLETE))
                    m.next = "SEED"
        m.d.sync += [
            Cover(self.gave_up & keep_late, "too many nodes"),
            Cover(self.gave_up & is_hub, "too many hubs"),
            Cover(retries.o.valid & retries.o.ready & searching, "a neighbour is looked at again"),
        ]
        return m
