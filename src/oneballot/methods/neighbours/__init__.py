"""Reverse k-NN votes: each private row adds its label to its k nearest public rows, and the sums are the ballot.

A row changes k counts, whatever the number of public rows, parties or classes, so that the noise of level L2 is drawn
once, on the sums. Nothing is trained at a party, and the sums are the same however the rows were divided among parties.
Related: fine-grained private knowledge distillation, in which the nearest private rows vote on a query; here a private
row chooses the public rows that it votes on. This method is from none of the five papers.

`method` is the election's side of it, `search` finds the nearest public rows exactly, `shares` estimates from noisy
votes how the rows at each public row divide among the classes (docs/neighbours.md).
"""
