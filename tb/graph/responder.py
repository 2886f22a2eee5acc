"""A memory that answers the requests of a reader's bench, so that no model has to stand around the design."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import cocotb

from sim.harness.bench import Bench

__all__ = ["Responder"]


class Responder:
    """Answers bursts on one pair of streams, in order, from an image that starts at address 0.

    Parameters
    ----------
    bench
        The bench with the streams; ``idle`` of the beats' stream and ``stall`` of the requests' are the memory's pace.
    requests, beats
        Names of the streams.
    beat_bytes
        Bytes of a beat.
    image
        Contents; what lies behind is random.
    failing
        Beat addresses that are answered with an error.

    Attributes
    ----------
    asked
        Beat addresses in the order they were asked for.
    repeat
        Contents instead of the image, over and over.
    held
        While true, requests are taken and not answered.
    latency
        Cycles that every answer takes more; to be changed while nothing is under way.
    """

    def __init__(
        self,
        bench: Bench,
        requests: str,
        beats: str,
        beat_bytes: int,
        image: bytes = b"",
        failing: Collection[int] = (),
    ) -> None:
        self.bench, self.beats, self.beat_bytes = bench, beats, beat_bytes
        self.image, self.failing = image, failing
        self.asked: list[int] = []
        self.repeat = b""
        self.held = False
        self.latency = 0
        self._under_way: list[Any] = []
        self._waiting: list[dict[str, int]] = []
        bench.take(requests, self._answer)

    def forget(self) -> None:
        """Answer nothing of what has been asked for, after a reset."""
        for task in self._under_way:
            task.cancel()
        self._under_way, self._waiting = [], []

    def beat(self, address: int) -> int:
        """Contents of a beat."""
        if self.repeat:
            at = address * self.beat_bytes % len(self.repeat)
            return int.from_bytes(self.repeat[at : at + self.beat_bytes], "little")
        data = self.image[address * self.beat_bytes : (address + 1) * self.beat_bytes]
        missing = self.beat_bytes - len(data)
        return int.from_bytes(data + self.bench.random.randbytes(missing), "little")

    def release(self) -> None:
        """Answer what was held."""
        self.held = False
        self.bench.drive(self.beats, self._waiting)
        self._waiting = []

    def _answer(self, request: Any) -> None:
        beats = []
        for index in range(request["length"] + 1):
            address = request["address"] + index
            self.asked.append(address)
            beats.append(
                {
                    "data": self.beat(address),
                    "error": int(address in self.failing),
                    "last": int(index == request["length"]),
                }
            )
        if self.held:
            self._waiting += beats
        elif self.latency:
            self._under_way = [task for task in self._under_way if not task.done()]
            self._under_way.append(cocotb.start_soon(self._later(beats)))
        else:
            self.bench.drive(self.beats, beats)

    async def _later(self, beats: list[dict[str, int]]) -> None:
        await self.bench.cycles(self.latency)
        self.bench.drive(self.beats, beats)
