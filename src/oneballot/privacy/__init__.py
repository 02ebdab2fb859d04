"""Differential privacy: settings, calibration of noise, mechanisms and samplers, accountants, ledgers and forecasts.

`settings` is what an election states; `calibration` turns it and a method's releases into a `guarantee`. Each of the
`mechanisms` adds noise, with the exact `sampling`, and knows its costs; `accounting` composes them; `ledger` and
`charges` record them. `data_dependent/` costs depend on the votes and must not be published. This package imports only
`types`, `errors`, `settings`, `plugins` and `runtime`; any room from the methods upwards may import it.
"""
