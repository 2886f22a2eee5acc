"""Tests of route decision, tokens, errors and tables; `tb.ring.test_parts` runs them."""

import random
from typing import Any

import cocotb
from cocotb.triggers import RisingEdge

from contracts import PACKET_CONTROL, PACKET_HEADER, Error, PacketKind, Token
from sim.ring.parts import CHIPLETS
from tb.ring.part_bench import ADDRESSES, begin, pack, pulse, rises

__all__ = [
    "an_error_halts_and_is_sent_once",
    "each_header_is_judged_by_its_fields",
    "the_boundary_table_is_read_into_registers",
    "tokens_say_who_has_drained_arrived_or_failed",
    "words_are_written_in_beats",
]


def judged(header: dict[str, int], given: dict[str, int]) -> tuple[bool, bool, bool, bool, Error]:
    """Return whether a packet is decided, taken, passed on, its filter entry used, and what is wrong with it."""
    chiplets, position, stopped = given["chiplets"], given["position"], bool(given["stopped"])
    lost = header["destination"] >= chiplets
    stray = header["source"] >= chiplets or header["source"] == position
    bad = lost or stray
    goes = not bad and header["destination"] != position
    misfit = header["elements"] != given["elements"]
    wrong = Error.BAD_PACKET if bad else Error.NONE
    kind = header["kind"]
    if kind == PacketKind.FEATURE:
        if bad or stopped:
            return True, False, goes, False, wrong
        if not given["receiving"]:
            return False, False, goes, False, wrong
        if misfit or given["outside"]:
            return True, False, goes, False, Error.BAD_PACKET if misfit else Error.VID_RANGE
        late = Error.BAD_PACKET if given["late"] else Error.NONE
        return bool(given["found"]), bool(given["hit"]), goes, bool(given["begins"]), late
    if kind == PacketKind.PARTIAL:
        if given["reducing"] and misfit:
            wrong = Error.BAD_PACKET
        takes = bool(given["reducing"]) and not (bad or stopped or misfit)
        return bad or stopped or bool(given["reducing"]), takes, False, False, wrong
    if kind == PacketKind.CONTROL:
        full = header["elements"] != 0
        return True, not bad and not full, goes, False, Error.BAD_PACKET if full else wrong
    return True, False, goes, False, Error.BAD_PACKET


@cocotb.test()
async def each_header_is_judged_by_its_fields(dut: Any) -> None:
    """Random headers, most of them good or wrong in one thing."""
    bench = await begin(dut, manual=("route_decision_error",))
    source: random.Random = bench.random
    edge = RisingEdge(dut.clk)
    for _ in range(2000):
        chiplets = source.randrange(2, 17)
        position, elements = source.randrange(chiplets), source.getrandbits(12)
        flags = {name: int(source.random() < 0.7) for name in ("begins", "receiving", "reducing", "found", "hit")}
        flags |= {name: int(source.random() < 0.15) for name in ("stopped", "late", "outside")}
        given = flags | {"chiplets": chiplets, "position": position, "elements": elements}
        header = {
            "kind": source.choice((0, 0, 0, 1, 1, 2, 2, 3)),
            "source": source.choice([n for n in range(chiplets) if n != position]),
            "destination": source.randrange(chiplets),
            "elements": elements,
            "vid": source.getrandbits(32),
        }
        if header["kind"] == PacketKind.CONTROL:
            header["elements"] = 0
        chance = source.random()
        if chance < 0.1:
            header["source"] = source.choice((position, chiplets, source.getrandbits(5)))
        elif chance < 0.2:
            header["destination"] = source.choice((position, chiplets, source.getrandbits(5)))
        elif chance < 0.3:
            header["elements"] ^= 1 << source.randrange(12)
        for name, value in given.items():
            getattr(dut, f"route_decision_{name}").value = value
        dut.route_decision_header.value = PACKET_HEADER.pack(header)
        await edge
        decided, take, forward, uses, wrong = judged(header, given)
        assert int(dut.route_decision_decided.value) == decided, (header, given)
        if decided:
            assert int(dut.route_decision_verdict.value) == take | forward << 1, (header, given)
        assert int(dut.route_decision_take.value) == uses, (header, given)
        reports = given["begins"] and wrong != Error.NONE and not given["stopped"]
        assert int(dut.route_decision_error__valid.value) == reports, (header, given)
        if reports:
            assert int(dut.route_decision_error__payload.value) == wrong | header["vid"] << 8


@cocotb.test()
@cocotb.parametrize(stall=[0.0, 0.7])
async def tokens_say_who_has_drained_arrived_or_failed(dut: Any, stall: float) -> None:
    """Random lives of all chiplets, beside an account of who has said what."""
    bench = await begin(dut, stall=stall)
    source: random.Random = bench.random
    for chiplets, position in ((2, 1), (3, 0), (4, 0), (3, 2), (4, 3), (4, 2)):
        await bench.reset()
        dut.tokens_position.value, dut.tokens_chiplets.value = position, chiplets
        others = {n for n in range(chiplets) if n != position}
        drained: list[set[int]] = [set(), set()]
        arrived: list[set[int]] = [set(), set()]
        failed: tuple[int, int] | None = None
        pass_ = parity = 0
        before = {"kind": PacketKind.CONTROL, "source": position, "destination": (position - 1) % chiplets}

        def token(said: dict[str, int], before: dict[str, int] = before) -> dict[str, int]:
            return {"data": PACKET_HEADER.pack(before | {"vid": PACKET_CONTROL.pack(said)}), "last": 1}

        async def hears(sender: int, token: Token, phase: int = 0, error: int = 0) -> None:
            said = PACKET_CONTROL.pack({"token": token, "phase": phase, "error": error})
            header = {"kind": PacketKind.CONTROL, "source": sender, "vid": said}
            bench.drive("tokens_i", [{"data": PACKET_HEADER.pack(header), "last": 1}])
            await bench.cycles(2)

        for _ in range(40):
            choice = source.random()
            sender = source.choice(sorted(others))
            if choice < 0.3:
                phase = source.getrandbits(1)
                drained[phase].add(sender)
                await hears(sender, Token.DRAINED, phase, source.getrandbits(8))
            elif choice < 0.6:
                phase = source.getrandbits(1)
                arrived[phase].add(sender)
                await hears(sender, Token.ARRIVED, phase, source.getrandbits(8))
            elif choice < 0.65:
                error = source.getrandbits(8)
                failed = failed or (sender, error)
                await hears(sender, Token.ERROR, source.getrandbits(1), error)
            elif choice < 0.75:
                bench.expect("tokens_o", [token({"token": Token.DRAINED, "phase": pass_})])
                await pulse(dut, "tokens_drain")
                await bench.drain(quiet=0)
            elif choice < 0.85:
                bench.expect("tokens_o", [token({"token": Token.ARRIVED, "phase": parity})])
                await pulse(dut, "tokens_arrive")
                await bench.drain(quiet=0)
            elif choice < 0.9:
                dut.tokens_code.value = code = source.getrandbits(8)
                bench.expect("tokens_o", [token({"token": Token.ERROR, "error": code})])
                await pulse(dut, "tokens_stop")
                dut.tokens_code.value = 0
                await bench.drain(quiet=0)
            elif choice < 0.95:
                drained[pass_].clear()
                pass_ ^= 1
                await pulse(dut, "tokens_forget")
            else:
                arrived[parity].clear()
                parity ^= 1
                await pulse(dut, "tokens_passed")
            await bench.cycles(1)
            assert int(dut.tokens_owners.value) == sum(1 << n for n in drained[pass_])
            assert int(dut.tokens_drained.value) == (drained[pass_] == others)
            assert int(dut.tokens_arrived.value) == (arrived[parity] == others)
            assert int(dut.tokens_failed.value) == (failed is not None)
            assert failed is None or int(dut.tokens_peer.value) == failed[0] | failed[1] << 8
        # All at once come in the order in which they are asked for.
        dut.tokens_code.value = 0xA5
        said: list[dict[str, int]] = [
            {"token": Token.DRAINED, "phase": pass_},
            {"token": Token.ARRIVED, "phase": parity},
            {"token": Token.ERROR, "error": 0xA5},
        ]
        bench.expect("tokens_o", [token(one) for one in said])
        dut.tokens_drain.value = dut.tokens_arrive.value = dut.tokens_stop.value = 1
        await RisingEdge(dut.clk)
        dut.tokens_drain.value = dut.tokens_arrive.value = dut.tokens_stop.value = 0
        await bench.drain()


@cocotb.test()
async def an_error_halts_and_is_sent_once(dut: Any) -> None:
    """Fail a command, which stops the unit; the chiplet's error is sent, unless it came from another chiplet."""
    bench = await begin(dut)
    source: random.Random = bench.random
    edge = RisingEdge(dut.clk)
    for turn in range(30):
        await bench.reset()
        told: list[dict[str, int]] = []
        bench.take("halt_tell", told.append)
        dut.halt_failed.value = 0
        await edge
        failed, halted = False, []
        for _ in range(12):
            failed = failed or source.random() < 0.1
            if source.random() < (0.1, 0.4)[turn % 2]:
                halted.append(report(source))
                bench.drive("halt_halt", halted[-1:])
            dut.halt_failed.value = int(failed)
            await edge
            await edge
            await edge
            assert int(dut.halt_stopped.value) == (failed or bool(halted))
            assert int(dut.halt_halted.value) == bool(halted)
        assert told == ([halted[0]] if halted and halted[0]["code"] != Error.PEER else [])


def report(source: random.Random) -> dict[str, int]:
    """Return an error at random; the one that stands for another chiplet's among them."""
    return {"code": source.choice((Error.PEER, source.getrandbits(8))), "info": source.getrandbits(32)}


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.6], stall=[0.0, 0.6])
async def the_boundary_table_is_read_into_registers(dut: Any, idle: float, stall: float) -> None:
    """Entries behind the last one repeat it."""
    bench = await begin(dut, idle=idle, stall=stall)
    source: random.Random = bench.random
    assert int(dut.table_done.value) == 1
    for _ in range(20):
        chiplets, address = source.randrange(2, CHIPLETS + 1), source.getrandbits(30)
        table = [source.getrandbits(32) for _ in range(chiplets + 1)]
        dut.table_chiplets.value, dut.table_address.value = chiplets, address
        asked: list[dict[str, int]] = []

        def answer(request: dict[str, int], asked: list[Any] = asked, table: list[int] = table) -> None:
            asked.append(request)
            last = len(table) - 1
            bench.drive("table_i", [{"data": word, "last": int(n == last)} for n, word in enumerate(table)])

        bench.take("table_request", answer)
        await pulse(dut, "table_start")
        await rises(dut, "table_done", 200)
        await bench.cycles(4)
        assert asked == [{"address": address, "words": chiplets + 1}]
        assert int(dut.table_boundaries.value) == pack(table + table[-1:] * (CHIPLETS - chiplets))


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.6], stall=[0.0, 0.6])
async def words_are_written_in_beats(dut: Any, idle: float, stall: float) -> None:
    """Four to a beat; of the last one only the bytes that were given are written."""
    bench = await begin(dut, idle=idle, stall=stall)
    source: random.Random = bench.random
    for count in (0, 1, 4, 3, 8, 17, 2, 30):
        address = source.choice((ADDRESSES - 2, source.randrange(ADDRESSES)))
        dut.writer_address.value, dut.writer_ended.value = address, 0
        await pulse(dut, "writer_start")
        given = [source.getrandbits(32) for _ in range(count)]
        want = []
        for n in range(0, count, 4):
            part = given[n : n + 4]
            want.append(((address + n // 4) % ADDRESSES, pack(part), (1 << 4 * len(part)) - 1))
        got: list[tuple[int, int, int]] = []

        def writes(beat: dict[str, int], got: list[tuple[int, int, int]] = got) -> None:
            bytes_ = sum(0xFF << 8 * n for n in range(16) if beat["strobe"] >> n & 1)
            got.append((beat["address"], beat["data"] & bytes_, beat["strobe"]))

        bench.take("writer_o", writes)
        bench.drive("writer_i", given)
        began = bench.cycle
        for _ in range(400):
            if not bench.drivers["writer_i"].busy_words:
                break
            assert int(dut.writer_done.value) == 0
            await bench.cycles(1)
        # A word for each cycle, and one more for a beat.
        assert idle or stall or bench.cycle - began <= count + count // 4 + 3
        await bench.cycles(30 if stall else 3)
        assert len(got) in (count // 4, count // 4 - 1) if count else not got
        dut.writer_ended.value = 1
        await bench.cycles(1)
        await rises(dut, "writer_done", 100)
        assert got == want
        await bench.cycles(3)
        assert got == want
