"""Analytic: parties send sums over their rows, and a linear model follows in closed form.

With features z of length at most 1 that every party computes alike, a party sends G = Σ z zᵀ and C = Σ z·onehot(y)ᵀ.
The model is therefore exactly that of the pooled rows, however they were split. Features are rounded to a grid first,
so that all sums are integers: exact in any order, and so is the noise on them. This method is from none of the papers.

`settings` builds the feature map, `method` sums at a party and solves for the model, `statistics` computes and checks
the sums, `format` holds the feature map and the linear model (docs/analytic.md).
"""
