"""The error that bad input raises; commands turn it into one line and exit status 2."""

__all__ = ["InputError"]


class InputError(ValueError):
    """Input that cannot be used.

    Parameters
    ----------
    where
        What the user named: a file, a data set, a field.
    what
        What is wrong with it, with the offending value.
    expected
        What would have been accepted.
    """

    def __init__(self, where: object, what: str, expected: str) -> None:
        super().__init__(where, what, expected)
        self.where = str(where)
        self.what = what
        self.expected = expected

    def __str__(self) -> str:
        return " ".join(f"{self.where}: {self.what}; expected {self.expected}".split())
