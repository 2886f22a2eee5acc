"""The DNP-II neural processor: instruction set, arithmetic, cycle-exact machine, assembler and mapper."""
