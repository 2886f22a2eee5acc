"""Prints one C++ file that includes those named: a program in one go, its seldom used halves not optimised.

Takes the place of Verilator's own includer, with the same arguments. What runs once, which is two fifths of a chiplet's
C++, takes as long to optimise as what runs every cycle.
"""

import sys

seldom = [name for name in sys.argv[1:] if name.endswith("Slow.cpp")]
often = [name for name in sys.argv[1:] if name.endswith(".cpp") and name not in seldom]
print(*(f'#include "{name}"' for name in often), sep="\n")
print("#pragma clang optimize off")
print(*(f'#include "{name}"' for name in seldom), sep="\n")
