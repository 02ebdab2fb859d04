"""Elections over Flower: a ServerApp and a ClientApp that carry ballots, and the app folder that `flwr run` takes.

Flower moves bytes. What is cast and what is counted are the files, and the code, of `oneballot cast` and `tally`.
"""

from importlib.util import find_spec

from ...errors import MissingExtra

if find_spec("flwr") is None:
    raise MissingExtra("Flower", "flower")
