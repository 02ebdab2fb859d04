"""One-shot ensembles (Guha, Talwalkar, Smith: One-Shot Federated Learning, 2019).

Each party trains one model on its own rows and sends it. The tally selects some of the models and averages their
predictions; that ensemble is the outcome, or a single model distilled from it on the public set.

`method` selects and distils (section 3; equation 3, in closed form with the kernel learner), `format` holds the
ensemble's members and averages them, `cohorts` groups parties whose models predict alike (section 5, future work).
Averaging class by class, so that a party does not vote on classes it lacks, is an addition to the paper.
"""
