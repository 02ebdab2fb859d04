"""Decoders: each party trains a conditional VAE and sends its decoder, from which the tally draws labelled rows.

Related: FedCVAE (Heinbaugh, Luz-Ricca, Shao: Data-Free One-Shot Federated Learning Under Very High Statistical
Heterogeneity, ICLR 2023), whose parties send decoders too.

- method.py, settings.py: the plug-in, its ballots and their checks
- layout.py: encoded rows as what a decoder learns, and back
- work.py, train.py: the training, of all parties that cast at the same time (train.py needs torch)
- format.py: decoders as bytes
- draw.py: the rows that a decoder makes, with NumPy alone
"""
