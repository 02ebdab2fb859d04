"""Distilled One-Shot Federated Learning (Zhou, Pu, Ma, Li, Wu, 2021), the method `dosfl`.

Each party distils its rows into a short sequence of gradient descent steps: synthetic inputs, labels and one learning
rate per step. The tally trains the initial weights on the steps of all parties.

- method.py: the plug-in: settings (table 5), ballots and their checks, LP-DOSFL (section 4.3)
- work.py: the requests that the method sends to its learner, and how several requests run as one
- initialization.py: rules for the initial weights (Algorithm 1, line 1; section 5.2)
- distillation.py: records: a party that distils, and distilled data
- distil.py, wave.py: DISTILLDATA (Algorithm 1, lines 14 to 31; section 3: soft resets, random masking)
- steps.py: training on the data of all parties (lines 6 to 12), and back-propagation through it (lines 18 to 27)
- stacked.py, hvp.py: logits, gradients and Hessian-vector products of many models at once

Only method.py and work.py can be imported without torch. The package's public name is `oneballot.DOSFL`;
`oneballot_lab` and the benchmarks use the other modules.
"""
