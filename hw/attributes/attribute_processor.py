"""Attribute processor: brings each attribute to its target address in the buffer (A3-A7, A10).

Requests take effect in their order, on ID table, cache and keys at once; rows follow. So hits, misses, swaps and
evictions do not depend on the latency of the memory. A row under way from memory has its slot and its ID in the table
already, and the slot is marked: a request for that ID or that slot waits, all others go on (hit under miss). The mark
is cleared when the row has arrived; if the memory fails, the ID leaves the table again, so no entry is ever half
written.
"""

from amaranth import Elaboratable, Module, Signal
from amaranth.hdl import Cover
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.attributes.decision import Decision
from hw.attributes.directory import Directory
from hw.attributes.formats import AttributeConfig, AttributeSettings
from hw.attributes.look_up import LookUp
from hw.attributes.replica_table import replica_members
from hw.attributes.request_queue import RequestQueue
from hw.attributes.responder import Responder
from hw.attributes.row_unit import RowUnit
from hw.memory.formats import ReadBeat, ReadRequest

__all__ = ["AttributeProcessor", "processor_signature"]


def processor_signature(config: AttributeConfig, clients: int) -> wiring.Signature:
    """Return the ports of an `AttributeProcessor`, or of several in its place, with so many read clients."""
    requests = stream.Signature(ReadRequest(config.address_width, config.data_width))
    beats = stream.Signature(ReadBeat(config.data_width), always_ready=True)
    return wiring.Signature(
        {
            "settings": In(AttributeSettings(config)),
            "i": In(stream.Signature(config.request)),
            "responses": Out(stream.Signature(config.response)),
            "rows": Out(stream.Signature(config.row)),
            "event_valid": Out(1),
            "event": Out(config.event),
            "flush": In(1),
            "idle": Out(1),
            **replica_members(config),
            "requests": Out(requests).array(clients),
            "beats": In(beats).array(clients),
        }
    )


class AttributeProcessor(wiring.Component):
    """Attribute RAM of two levels, with look-up, replacement and fetch.

    Parameters
    ----------
    config : AttributeConfig

    Attributes
    ----------
    settings : In
        `AttributeSettings`, constant while `idle` is 0.
    i : stream of ``config.request``
    responses : stream of ``config.response``
        One for each request, those that wait for memory later than those that hit. ``error``: ``MEMORY_READ`` or
        ``VID_RANGE``.
    rows : stream of ``config.row``
        Rows of the requests with ``read`` that did not fail, each with its request's tag. Each of the two
        streams must be taken even if the other one is not.
    event : Out, ``config.event`` and ``event_valid``
        The decision on every request, in order, for counters and tests.
    flush : In(1)
        Forget all attributes; only while `idle`.
    idle : Out(1)
        No request is under way.
    replica : stream of `ReplicaEntry`, always ready
        If there is a table of replicas; only while `idle`.
    requests, beats
        Clients' ends of the read arbiter: attributes, copies of them if there is a table of replicas, and offsets where
        the policy needs degrees.

    Raises
    ------
    ValueError
        If a parameter is out of its range.
    """

    def __init__(self, config: AttributeConfig | None = None) -> None:
        self.config = config = config or AttributeConfig()
        self._directory, self._rows = Directory(config), RowUnit(config)
        #: Read clients.
        self.clients = self._rows.clients + self._directory.clients
        super().__init__(processor_signature(config, self.clients))

    def elaborate(self, platform: object) -> Elaboratable:
        """Connect the parts; the decision is the only place where their state changes."""
        m = Module()
        config = self.config
        m.submodules.request_queue = requests = RequestQueue(config)
        m.submodules.look_up = look_up = LookUp(config)
        m.submodules.directory = directory = self._directory
        m.submodules.decision = decision = Decision(config)
        m.submodules.rows = rows = self._rows
        m.submodules.responder = responder = Responder(config)
        connect(m, flipped(self.i), requests.i)
        connect(m, rows.rows, flipped(self.rows))
        if config.replicas:
            connect(m, flipped(self.replica), rows.replica)
        connect(m, responder.o, flipped(self.responses))
        requested, arriving = [*rows.requests, *directory.requests], [*rows.beats, *directory.beats]
        for n, (request, beat) in enumerate(zip(requested, arriving, strict=True)):
            connect(m, request, flipped(self.requests[n]))
            connect(m, flipped(self.beats[n]), beat)
        decided, found, effect = look_up.decided, directory.found, decision.effect

        # Look-ups run ahead of the decision, and start again when the state that they have seen changes.
        run, drop, landing, clearing = (Signal(name=name) for name in ("run", "drop", "landing", "clearing"))
        m.d.comb += [
            drop.eq(effect.change | decision.waits | clearing),
            run.eq(directory.ready & ~(decision.stays | rows.pending | effect.change | directory.searching)),
            requests.advance.eq(run & requests.ahead_valid),
            requests.retire.eq(effect.commits),
            requests.rewind.eq(drop),
            look_up.nodes.eq(self.settings.nodes),
            look_up.run.eq(run),
            look_up.enter.eq(requests.advance),
            look_up.request.eq(requests.ahead),
            look_up.drop.eq(drop),
            directory.settings.eq(self.settings),
            directory.flush.eq(self.flush),
            directory.run.eq(run),
            directory.cache_id.eq(look_up.cache_id),
            directory.table_id.eq(look_up.table_id),
            directory.table_slot.eq(look_up.table_slot),
            directory.slot.eq(decided.slot),
            directory.id.eq(decided.id),
            directory.search.eq(decision.search),
            directory.forget.eq(drop | effect.commits),
            directory.effect.eq(effect),
            decision.valid.eq(look_up.valid),
            decision.hold.eq(directory.second | directory.searching | clearing | rows.pending),
            decision.landing.eq(landing),
            decision.refused.eq(look_up.refused),
            decision.read.eq(decided.read),
            decision.found.eq(found),
            decision.marks.eq(rows.marks),
            decision.response_ready.eq(responder.ready),
            decision.move_ready.eq(rows.move_ready),
            decision.fetch_ready.eq(rows.fetch_ready & directory.degree_ready),
        ]
        # A row lands, or a request is decided: both need a place for the response.
        m.d.comb += [
            landing.eq(rows.landing_ready & directory.landing_ready & responder.ready),
            clearing.eq(landing & rows.failed),
            directory.landed.eq(rows.landed),
            directory.failed.eq(rows.failed),
            directory.landing.eq(landing),
            rows.settings.eq(self.settings),
            rows.run.eq(run),
            rows.next_slot.eq(look_up.next_slot),
            rows.decided.eq(decided),
            rows.effect.eq(effect),
            rows.found.eq(found),
            rows.landing.eq(landing),
            responder.landing.eq(landing),
            responder.failed.eq(rows.failed),
            responder.landed_tag.eq(rows.landed.tag),
            responder.answers.eq(effect.commits & effect.answers),
            responder.tag.eq(decided.tag),
            responder.flow.eq(decision.flow),
            self.idle.eq(requests.empty & rows.idle & ~directory.second & directory.ready),
        ]
        m.d.sync += [
            self.event_valid.eq(effect.commits),
            self.event.id.eq(decided.id),
            self.event.slot.eq(decided.slot),
            self.event.flow.eq(decision.flow),
            self.event.displaced_valid.eq(effect.change & found.occupied),
            self.event.displaced.eq(found.occupant),
            self.event.evicted_valid.eq(effect.met.missed & found.occupied & found.leaves),
            self.event.evicted.eq(found.leaver),
            Cover(clearing, "a row that was asked for did not come"),
        ]
        return m
