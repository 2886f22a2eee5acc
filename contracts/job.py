"""What a host sends to the firmware on a board: images, and what their results should be."""

from contracts.layout import Field, Layout

__all__ = ["CHECK", "JOB", "JOB_MAGIC", "NO_LABEL", "RUN", "SEGMENT"]

#: First word of a job: "ATOJ".
JOB_MAGIC = int.from_bytes(b"ATOJ", "little")
#: Label of a vertex that does not count for the accuracy.
NO_LABEL = 0xFFFF


def _u(name: str, bits: int, doc: str) -> Field:
    return Field(name, bits, doc)


JOB = Layout(
    "Job",
    "First bytes of a job; its runs follow without gaps.",
    (_u("magic", 32, '"ATOJ"'), _u("version", 16, "version of all formats"), _u("runs", 16, "images to run")),
)

RUN = Layout(
    "Run",
    "An image of a job. Its segments follow, then its checks, then as many labels of 16 bits as it says, in the order "
    "of the rows of the last check.",
    (
        _u("bytes", 32, "size of the image"),
        _u("segments", 16, "parts of the image that are sent; the others are 0"),
        _u("checks", 16, "tables of results to compare; the last one gives the classes"),
        _u("labels", 32, "labels, 0xffff for a vertex that does not count for the accuracy"),
    ),
)

SEGMENT = Layout(
    "Segment",
    "A part of an image; its bytes follow.",
    (_u("offset", 32, "place in the image, in bytes"), _u("bytes", 32, "size")),
)

CHECK = Layout(
    "Check",
    "A table of results in the image; the values it should have follow, int16 row by row without padding.",
    (
        _u("offset", 32, "place in the image, in bytes"),
        _u("rows", 32, "rows"),
        _u("row_elements", 32, "elements of a row"),
        _u("row_bytes", 32, "distance of rows in the image, in bytes"),
    ),
)
