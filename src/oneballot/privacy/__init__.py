"""Differential privacy: settings, calibration of noise, mechanisms and samplers, accountants, ledgers and forecasts.

`settings` is what an election states; `calibration` turns it and a method's releases into a `guarantee`. `mechanisms`
add the noise, with the exact `sampling`; `accounting` and `renyi` compute what `releases` cost; `ledger` and `charges`
record it. `data_dependent/` costs depend on the votes and must not be published. This package imports only `types`,
`errors`, `settings` and `runtime`; any room from the methods upwards may import it.
"""
