"""The attribute cache: widths of keys, replacement, hashing (A7, A8)."""

from contracts import Policy

__all__ = ["HASH_FACTOR", "KEY_BITS", "LARGEST_LEAVES"]

#: Bits of the key by which a policy orders the entries of the cache; counts and degrees saturate, the others wrap.
KEY_BITS = {
    Policy.DEGREE: 16,
    Policy.LRU: 32,
    Policy.LFU: 8,
    Policy.MRU: 32,
    Policy.FIFO: 32,
    Policy.LIFO: 32,
    # Whether it was requested again, and above that the number of its entry into the cache.
    Policy.SIEVE: 17,
}
#: Odd factor of the hash: 2^16 divided by the golden ratio.
HASH_FACTOR = 0x9E37
#: Policies that evict the largest key.
LARGEST_LEAVES = (Policy.MRU, Policy.LIFO)
