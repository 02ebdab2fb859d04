"""The server's job: read ballots from a box, count them, close the count, and keep the outcome.

`tally` is the job, `files` does it for a folder, `prefetch` reads ballots ahead, `count` checks and adds them up,
`context` is what a method may use meanwhile, `outcome` and `model` are the result, and `sandbox` runs models from
untrusted ballots. May be imported by `report`, `simulation` and everything above.
"""
