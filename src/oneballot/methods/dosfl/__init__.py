"""Distilled One-Shot Federated Learning (Zhou, Pu, Ma, Li, Wu, 2021), the method `dosfl`.

Each party distils its rows into a short sequence of gradient descent steps: synthetic inputs, labels and one learning
rate per step. The tally trains the initial weights on the steps of all parties.

- method.py: the plug-in: settings (table 5), contents of a ballot, its checks, LP-DOSFL (section 4.3)
- work.py: the requests that the method sends to its learner, and how several requests run as one
- encoding.py: distilled inputs as float32, float16 or uint8, and the digest of the initial weights
- initialization.py: rules for the initial weights (Algorithm 1, line 1; section 5.2)
- distillation.py: records: settings of a distillation, a party, distilled data
- distil.py, wave.py: DISTILLDATA (Algorithm 1, lines 14 to 31; section 3: soft resets, random masking)
- train.py: training on the merged data of all parties (Algorithm 1, lines 6 to 12)
- steps.py: gradient descent on distilled steps, and back-propagation through it (lines 10, 21 and 24 to 27)
- stacked.py, hvp.py: logits, gradients and Hessian-vector products of many models at once

Only method.py, work.py and encoding.py can be imported without torch. The package's public name is `oneballot.DOSFL`;
`oneballot_lab` and the benchmarks use the other modules.
"""
