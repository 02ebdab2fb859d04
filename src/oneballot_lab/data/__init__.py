"""The papers' public data sets: where their files are, how they are downloaded, verified and parsed.

`registry.load` is the interface; peers, `reproduce` and benchmarks import it.
"""
