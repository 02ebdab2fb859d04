"""The papers' data-dependent accounts, for reproduction only: `paper` (FedKT, PATE 2017) and `gnmax` (PATE 2018).

Both bound one direction of the divergence and are no guarantee. `reproduce` and the benchmarks import this package.
"""
