"""Data-dependent accounting: what the answers to particular votes cost. The figures must not be published.

`accounting` compares the votes with all their `neighbours` by `moments` of the outcome distributions; `report` writes
the sentence that `oneballot cast` and `tally` print with --data-dependent. Only those commands, the research tools and
the benchmarks import this package.
"""
