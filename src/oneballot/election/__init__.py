"""The agreement that all parties share: what is predicted, from which columns, how, and with which privacy.

`election` is the agreement, `file` reads it from TOML, `template` writes a first draft, `checks` rejects what cannot
work, `schema` and `columns` encode tables, `warm_start` and `outcome_files` read earlier outcomes. `election` and
`ballot` may import each other; `party`, `server` and everything above may import both.
"""
