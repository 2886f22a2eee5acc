"""The bench itself: a broken design must fail, whatever it breaks."""

from types import SimpleNamespace
from typing import Any

import cocotb
import pytest
from amaranth.asserts import AnySeq
from amaranth.hdl import Assert, Cover, Elaboratable, Module, Signal, signed
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out

from sim.harness import BuildOptions, parameters, simulate, stream_ports
from sim.harness.bench import start
from sim.harness.build import build
from sim.harness.codec import Codec
from sim.harness.formal import Proof, assert_stream, assume_stream, check
from sim.harness.run import run


class Colour(enum.Enum, shape=2):  # type: ignore[call-arg]
    """A field with names."""

    RED = 0
    BLUE = 2


LAYOUT = data.StructLayout(
    {"flag": 1, "list": data.ArrayLayout(5, 3), "level": Colour, "inner": data.StructLayout({"x": 4})}
)


class Hop(wiring.Component):
    """A register of one word that breaks one rule of streams, named by `fault`."""

    i: stream.Interface
    o: stream.Interface

    def __init__(self, fault: str) -> None:
        self.fault = fault
        super().__init__({"i": In(stream.Signature(8)), "o": Out(stream.Signature(8))})

    def elaborate(self, platform: Any) -> Module:
        """Pass words on, except for the fault every 16 cycles."""
        m = Module()
        age = Signal(4)
        m.d.sync += age.eq(age + 1)
        m.d.comb += self.i.ready.eq(~self.o.valid | self.o.ready)
        with m.If(self.i.ready):
            m.d.sync += [self.o.valid.eq(self.i.valid), self.o.payload.eq(self.i.payload)]
        with m.Elif(age == 0):
            if self.fault == "drop":
                m.d.sync += self.o.valid.eq(0)
            if self.fault == "change":
                m.d.sync += self.o.payload.eq(self.i.payload)
        with m.If(self.i.valid & self.i.ready & (age == 0)):
            if self.fault == "wrong":
                m.d.sync += self.o.payload.eq(~self.i.payload)
            if self.fault == "lose":
                m.d.sync += self.o.valid.eq(0)
        if self.fault == "double":
            with m.If((age == 0) & ~self.o.valid & ~self.i.valid):
                m.d.sync += self.o.valid.eq(1)
        if self.fault == "assert":
            m.d.sync += Assert(age != 9)
        return m


@cocotb.test()
async def words_come_through(dut: Any) -> None:
    bench = await start(dut, Hop(parameters()["fault"]), stall=0.5)
    sent = [n % 256 for n in range(300)]
    bench.drive("i", sent)
    bench.expect("o", sent)
    await bench.drain(2_000, quiet=40)


def test_a_correct_design_passes() -> None:
    result = simulate(Hop("none"), __name__, parameters={"fault": "none"})
    assert (result.tests, result.failed) == (1, 0)
    assert result.cycles > 300


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("drop", "stream o: valid dropped before ready"),
        ("change", "stream o: payload changed"),
        ("wrong", r"o: word \d+ is \d+, expected"),
        ("lose", r"o: word \d+ is \d+, expected"),
        ("double", "o: word 300 was not expected"),
    ],
)
def test_a_broken_design_fails(fault: str, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        simulate(Hop(fault), __name__, parameters={"fault": fault})


#: Two of a module one behind the other.
TWO_HOPS = """
module two_hops(input clk, input rst, input i__valid, input [7:0] i__payload, output i__ready,
                output o__valid, output [7:0] o__payload, input o__ready);
  wire valid, ready; wire [7:0] payload;
  hop_block first(.clk, .rst, .i__valid, .i__payload, .i__ready,
                  .o__valid(valid), .o__payload(payload), .o__ready(ready));
  hop_block second(.clk, .rst, .i__valid(valid), .i__payload(payload), .i__ready(ready),
                   .o__valid, .o__payload, .o__ready);
endmodule
"""


@pytest.mark.parametrize(("fault", "passes"), [("none", True), ("wrong", False), ("assert", False)])
def test_a_block_that_is_compiled_once_runs_and_fails_like_others(fault: str, passes: bool) -> None:
    hop = Hop(fault)
    made = build(
        hop,
        "hop_block",
        toplevel="two_hops",
        texts={"two_hops.sv": TWO_HOPS},
        ports=stream_ports(hop),
        options=BuildOptions(blocks=("hop_block",)),
    )
    result = run(made, __name__, parameters={"fault": fault})
    assert (result.message == "") == passes, result.message


def test_a_bench_without_tests_fails() -> None:
    with pytest.raises(AssertionError, match="no cocotb test was run"):
        simulate(Hop("none"), "sim.harness.codec")


def test_a_run_ends_at_its_time_limit() -> None:
    made = build(Hop("none"), "hop")
    result = run(made, __name__, parameters={"fault": "none"}, limit=0.05)
    assert result.failed
    assert "the simulator was stopped after" in result.message


def test_payloads_are_packed_as_amaranth_does() -> None:
    value = {"flag": 1, "list": [1, 30, 7], "level": Colour.BLUE, "inner": {"x": 9}}
    bits = LAYOUT.const(value).as_bits()
    assert Codec(LAYOUT).pack({**value, "level": 2}) == bits
    assert Codec(LAYOUT).unpack(bits) == {**value, "level": 2}


def test_signed_fields_keep_their_sign() -> None:
    codec = Codec(data.StructLayout({"a": signed(4), "b": signed(3)}))
    assert codec.unpack(codec.pack({"a": -8, "b": 3})) == {"a": -8, "b": 3}
    with pytest.raises(ValueError, match="-5 does not fit 3 bits"):
        codec.pack({"b": -5})


def test_ports_are_found_in_nested_and_flipped_interfaces() -> None:
    inner = wiring.Signature({"request": Out(stream.Signature(4)), "response": In(stream.Signature(6))})
    signature = wiring.Signature(
        {
            "i": In(stream.Signature(8)).array(2),
            "bus": Out(inner),
            "server": In(inner),
            "free": Out(stream.Signature(1, always_ready=True)),
            "level": Out(3),
        }
    )

    found = {port.name: port for port in stream_ports(SimpleNamespace(signature=signature))}
    assert {name: port.inward for name, port in found.items()} == {
        "i__0": True,
        "i__1": True,
        "bus__request": False,
        "bus__response": True,
        "server__request": True,
        "server__response": False,
        "free": False,
    }
    assert found["free"].always_ready
    assert found["bus__response"].width == 6


class HopSpec(Elaboratable):
    """The rules of streams hold for a :class:`Hop`."""

    def __init__(self, fault: str) -> None:
        self.fault = fault

    def elaborate(self, platform: Any) -> Module:
        """Drive it freely."""
        m = Module()
        m.submodules.dut = dut = Hop(self.fault)
        m.d.comb += [dut.i.payload.eq(AnySeq(8)), dut.i.valid.eq(AnySeq(1)), dut.o.ready.eq(AnySeq(1))]
        assume_stream(m, dut.i, "i")
        assert_stream(m, dut.o, "o")
        m.d.comb += Cover(dut.o.valid & (dut.o.payload == 0x5A))
        return m


@pytest.mark.parametrize(("fault", "holds"), [("none", True), ("drop", False), ("change", False)])
def test_a_proof_fails_for_a_broken_design(fault: str, holds: bool) -> None:
    verdict = check("hop", Proof(f"keeps_the_rules_{fault}", lambda: HopSpec(fault), "bmc", 20))
    assert verdict.passed == holds
    if not holds:
        assert "Assert failed" in verdict.message


def test_a_cover_out_of_reach_fails() -> None:
    assert check("hop", Proof("reaches_a_word", lambda: HopSpec("none"), "cover", 4)).passed
    verdict = check("hop", Proof("reaches_a_word_at_once", lambda: HopSpec("none"), "cover", 1))
    assert not verdict.passed
    assert "Unreached cover" in verdict.message
