"""Everything that can go wrong, as a tree.

OneBallotError
├── ElectionError       the election itself: a setting, a pairing that cannot work, a digest that does not match
├── PrivacyError        more would be released than was promised; nothing was
├── DataError           a party's or a public file: columns, values, labels, sizes
│   └── NotAtHand       a public data set, or word vectors, that have to be brought first
├── BallotError
│   ├── Spoiled         a ballot that is refused; the tally names it with the reason and counts the others
│   └── AlreadyCast     a ballot of this party exists and would be replaced
├── BoxError            the place where ballots are put cannot be read or written
│   └── NotThere        the box, or a ballot in it, is not there or cannot be had; the box as such may be in order
├── QuorumError         fewer ballots than the election asks for, or a tally that should wait for the others
├── KeyFileError        a signing key that is missing, unreadable or not what it should be
└── MissingExtra        an optional library is not installed

OneBallotWarning        something a person should know, nothing that stops the work
└── WillNotWork         and the result will be no better than chance

A message says what was wrong, where, what was expected, and what to do.
"""


def printable(text: object, most: int = 2000) -> str:
    """A stranger's words: nothing in them can move a terminal's cursor, and they are not endless."""
    return "".join(c if c.isprintable() else " " for c in str(text)[:most])


class OneBallotError(Exception):
    """The root: catch this to catch every error that OneBallot raises on purpose."""


class ElectionError(OneBallotError): ...


class PrivacyError(OneBallotError): ...


class DataError(OneBallotError): ...


class DataNotFound(DataError): ...


class BallotError(OneBallotError): ...


class Spoiled(BallotError):
    """Its reason may quote a stranger."""

    def __init__(self, reason: str) -> None:
        super().__init__(printable(reason))


class AlreadyCast(BallotError): ...


class BoxError(OneBallotError): ...


class NotFound(BoxError): ...


class QuorumError(OneBallotError): ...


class KeyFileError(OneBallotError): ...


class MissingExtra(OneBallotError):
    def __init__(self, what: str, extra: str) -> None:
        super().__init__(what, extra)  # both, so that the error survives the way from a worker process

    def __str__(self) -> str:
        what, extra = self.args
        return f"{what} needs an optional library. Install it with: pip install 'oneballot[{extra}]'"


class OneBallotWarning(UserWarning): ...


class WillNotWork(OneBallotWarning): ...
