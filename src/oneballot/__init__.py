"""OneBallot: one-shot federated learning."""
