"""What each party adds to the outcome: Shapley values on labelled validation rows, from partial counts."""
