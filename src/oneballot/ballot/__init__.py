"""The one message: how a ballot is packed, sealed, signed, encrypted, opened and inspected.

`archive` packs contents into one file, `manifest` describes them, `signatures` and `encryption` protect them, and
`seal` puts all of that together. Everything here reads ballots as untrusted input. `election` and `ballot` may import
each other; `party`, `server` and everything above may import both.
"""
