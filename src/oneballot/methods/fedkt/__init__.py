"""FedKT (Li, He, Song: Practical One-Shot Federated Learning for Cross-Silo Setting, IJCAI 2021).

Each party splits its rows into subsets, trains a teacher on each, and trains a student on the public set with the
labels that the teachers vote for; once for each partition. The students of all parties vote on the public set in turn,
and the final model learns those labels. The server uses nothing but the students' labels, so a ballot carries only
those. At L1 the server adds noise to the parties' votes, at L2 each party to its teachers' votes.

`method` runs both tiers (section 3, Algorithm 1), `teachers` trains a party's teachers (lines 2 to 5), `votes` encodes
and counts votes (lines 15 to 19), `settings` says what can be combined and what each level releases (section 4).

The open vote is an addition to the paper: a teacher has one more class, *not mine*, whose examples are public rows, so
that a party's vote counts by how likely the row is to be its own (docs/fedkt.md).
"""
