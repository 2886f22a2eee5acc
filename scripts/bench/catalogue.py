"""The benchmarks by name, for `atoll bench`."""

from collections.abc import Callable
from pathlib import Path

from contracts.errors import unknown
from scripts.bench import (
    attributes,
    cache_2050,
    cache_rates,
    community,
    divided,
    growth,
    islands,
    latency,
    machine,
    networks,
    portfolio,
    ring,
    scaling,
    schemes,
    stream,
)
from scripts.dnp.bench import BENCHES as DNP_BENCHES

__all__ = ["BENCHES", "find"]


def _ring(out: Path) -> object:
    return ring.bench(output=out)


def _islands(out: Path) -> object:
    return islands.bench(out=out)


def _community(out: Path) -> object:
    return community.bench(out=out)


def _machine(out: Path) -> object:
    return machine.bench(out=out)


def _portfolio(out: Path) -> object:
    return portfolio.bench(out=out)


def _schemes(out: Path) -> object:
    return schemes.bench(out=out)


def _networks(out: Path) -> object:
    return networks.bench(out=out)


def _growth(out: Path) -> object:
    return growth.bench(out=out)


def _scaling(out: Path) -> object:
    return scaling.bench(out=out)


def _stream(out: Path) -> object:
    return stream.bench(out=out)


def _latency(out: Path) -> object:
    return latency.bench(out=out)


def _attributes(out: Path) -> object:
    return attributes.bench(out=out)


def _divided(out: Path) -> object:
    return divided.bench(out=out)


def _cache_2050(out: Path) -> object:
    return cache_2050.bench(out=out)


def _cache_rates(out: Path) -> object:
    return cache_rates.bench(out=out)


#: What `atoll bench` can run; each takes the folder for its files.
BENCHES: dict[str, Callable[[Path], object]] = {
    "ring": _ring,
    "islands": _islands,
    "community": _community,
    "machine": _machine,
    "portfolio": _portfolio,
    "schemes": _schemes,
    "networks": _networks,
    "growth": _growth,
    "scaling": _scaling,
    "stream": _stream,
    "latency": _latency,
    "attributes": _attributes,
    "divided": _divided,
    "cache-2050": _cache_2050,
    "cache-rates": _cache_rates,
    **DNP_BENCHES,
}


def find(name: str) -> list[Callable[[Path], object]]:
    """Return the benchmark of a name, or all.

    Raises
    ------
    InputError
        If there is none.
    """
    if name == "all":
        return list(BENCHES.values())
    if name not in BENCHES:
        raise unknown("benchmark", name, ["all", *BENCHES])
    return [BENCHES[name]]
