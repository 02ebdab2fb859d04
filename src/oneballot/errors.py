"""All errors that OneBallot raises on purpose.

OneBallotError
├── ElectionError       the election: a setting, a combination that cannot work, a digest that does not match
├── PrivacyError        a release would exceed the guarantee; nothing was released
├── DataError           a party's file or the public file: columns, values, labels, sizes
│   └── DataNotFound    a public data set, or word vectors, that must be downloaded or copied first
├── BallotError
│   ├── Spoiled         a rejected ballot; the tally reports it with the reason and counts the others
│   └── AlreadyCast     a ballot of this party exists and would be replaced
├── BoxError            the box cannot be read or written
│   └── NotFound        the box, or a ballot in it, does not exist or is not visible
├── QuorumError         too few ballots, or a tally that should wait for more
├── KeyFileError        a key that is missing, unreadable or of the wrong type
└── MissingExtra        an optional library is not installed

OneBallotWarning        something that the user should know; the work continues
└── WillNotWork         the result will be no better than chance
    └── CollapsedModel  the final model predicts one class for nearly every row, or never predicts a class

A message says what was wrong, where, what was expected, and what to do.
"""


def printable(text: object, most: int = 2000) -> str:
    """Untrusted text made safe to print: no control characters, and not too long."""
    return "".join(c if c.isprintable() else " " for c in str(text)[:most])


class OneBallotError(Exception):
    """The base class: catch this to catch every error that OneBallot raises on purpose."""


class ElectionError(OneBallotError): ...


class PrivacyError(OneBallotError): ...


class DataError(OneBallotError): ...


class DataNotFound(DataError): ...


class BallotError(OneBallotError): ...


class Spoiled(BallotError):
    """A rejected ballot. The reason may quote untrusted text."""

    def __init__(self, reason: str) -> None:
        super().__init__(printable(reason))


class AlreadyCast(BallotError): ...


class BoxError(OneBallotError): ...


class NotFound(BoxError): ...


class QuorumError(OneBallotError): ...


class KeyFileError(OneBallotError): ...


class MissingExtra(OneBallotError):
    def __init__(self, what: str, extra: str) -> None:
        super().__init__(what, extra)  # both, so that the error can be pickled by a worker process

    def __str__(self) -> str:
        what, extra = self.args
        return f"{what} needs an optional library. Install it with: pip install 'oneballot[{extra}]'"


class OneBallotWarning(UserWarning): ...


class WillNotWork(OneBallotWarning): ...


class CollapsedModel(WillNotWork): ...
