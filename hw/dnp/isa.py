# mypy: disable-error-code="valid-type,call-arg,attr-defined,index,dict-item,misc"
"""Types of the hardware that follow from the table of instructions (`contracts.dnp.isa`)."""

from amaranth.hdl import signed, unsigned
from amaranth.lib import data, enum

from contracts.dnp.config import WORD
from contracts.dnp.isa import GENERAL, PORTS, Control

__all__ = [
    "ADDRESS",
    "DEFINED_PARTS",
    "Decoded",
    "Left",
    "Logic",
    "Multiplicand",
    "Multiplier",
    "Right",
    "Slot",
    "Value",
]

#: Addresses are as wide as the buses that carry them (D1).
ADDRESS = unsigned(WORD)
_GENERAL_BITS = (GENERAL - 1).bit_length()
#: A register operand: RFn, or A.
_REGISTER_BITS = GENERAL.bit_length()
_PORT_BITS = len(PORTS).bit_length()
_CONTROL_BITS = (len(Control) - 1).bit_length()
_POINTER_BITS = 2


#: Quarters of the opcodes, by the two bits below the repeat flag.
DEFINED_PARTS = 4


class Multiplicand(enum.Enum, shape=1):
    """First factor."""

    WM = 0
    GENERAL = 1


class Multiplier(enum.Enum, shape=2):
    """Second factor."""

    XM = 0
    WM = 1
    A = 2


class Left(enum.Enum, shape=2):
    """First input of the adder; ONE is 0x7FFF."""

    ZERO = 0
    A = 1
    VALUE = 2
    ONE = 3


class Right(enum.Enum, shape=2):
    """Second input of the adder and of the logic unit."""

    PRODUCT = 0
    VALUE = 1
    REGISTER = 2
    PORT = 3


class Value(enum.Enum, shape=2):
    """Value that the operand stage keeps beside the factors."""

    CONSTANT = 0
    WM = 1
    XM = 2


class Logic(enum.Enum, shape=3):
    """Unit that gives the result: the adder, or one of the logic unit's functions."""

    ADDER = 0
    AND = 1
    OR = 2
    XOR = 3
    SHL = 4
    SHR = 5
    LSR = 6


class Slot(data.Struct):
    """Control signals of an instruction in the arithmetic pipeline."""

    multiplicand: Multiplicand
    multiplier: Multiplier
    rounded: unsigned(1)
    value: Value
    left: Left
    right: Right
    subtract: unsigned(1)
    logic: Logic
    #: RFn read in the operand stage as a factor.
    factor: unsigned(_GENERAL_BITS)
    #: Register read in the add stage.
    register: unsigned(_REGISTER_BITS)
    #: Register written.
    target: unsigned(_GENERAL_BITS)
    write_a: unsigned(1)
    clear_a: unsigned(1)
    write_general: unsigned(1)
    write_wm: unsigned(1)
    write_xm: unsigned(1)
    receive: unsigned(1)
    receive_port: unsigned(2)
    send: unsigned(1)
    send_port: unsigned(2)


class Decoded(data.Struct):
    """Control signals of an instruction word in the issue stage."""

    slot: Slot
    #: The word is in the table, a bit for each quarter of the opcodes; one of them is set.
    defined: unsigned(DEFINED_PARTS)
    repeat: unsigned(1)
    two_words: unsigned(1)
    #: Completes in the issue stage.
    issue_only: unsigned(1)
    wm_source: unsigned(1)
    wm_source_pointer: unsigned(_POINTER_BITS)
    wm_source_mode: unsigned(2)
    wm_result_pointer: unsigned(_POINTER_BITS)
    wm_result_step: unsigned(1)
    xm_source: unsigned(1)
    xm_source_pointer: unsigned(_POINTER_BITS)
    xm_source_mode: unsigned(2)
    xm_result_pointer: unsigned(_POINTER_BITS)
    xm_result_step: unsigned(1)
    #: A register needed in the issue stage, and which.
    needs_register: unsigned(1)
    needed_register: unsigned(_REGISTER_BITS)
    #: RFn needed in the operand stage.
    needs_factor: unsigned(1)
    #: A needed in the operand stage.
    needs_a: unsigned(1)
    control: unsigned(_CONTROL_BITS)
    #: The control register is written: by the issue stage, or by the second word.
    write_control: unsigned(1)
    #: The value written is the instruction's own byte.
    byte: unsigned(1)
    #: The constant is the control register.
    read_control: unsigned(1)
    branch: unsigned(1)
    loop: unsigned(1)
    jump: unsigned(1)
    halt: unsigned(1)
    receive_code: unsigned(_PORT_BITS)
    send_code: unsigned(_PORT_BITS)


SIGNED_WORD = signed(WORD)
