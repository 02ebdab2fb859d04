"""The server's job: read ballots from a box, count them, close the count, and keep the outcome.

`tally` is the job, `files` does it with files, `prefetch` reads ballots ahead, `count` checks and adds them, `context`
is what a method may use, `outcome` and `model` are the result, and `sandbox` runs models from untrusted ballots. May be
imported by `report`, `simulation` and everything above.
"""
