"""The party's job: train on its own rows, seal one ballot, keep a copy, and deliver it.

`cast` trains and seals, `context` is what a method may use, `outbox` keeps the party's own copy, `delivery` puts it
into a box, and `submit` does all of that for a data file. May be imported by `server` and everything above.
"""
