"""Peers: iterative and central methods that one-shot elections are compared with, one module per paper.

`oneballot compare` finds them through the entry-point group `oneballot.peers`. Modules with an underscore are shared by
several peers; only this package and benchmarks import them.
"""
