"""One-shot methods, each in a package of its own: what a party casts, how a ballot is counted, how the count is closed.

A package has the method class in `method.py` and, if its models need one, the format they travel in in `format.py`.
`_packing`, `_queries` and `_shared` hold what several methods use. Methods import the layers below them (types,
interfaces, formats, learners, privacy), never the election, the party or the server, which find them by name through
`oneballot.plugins`.
"""
