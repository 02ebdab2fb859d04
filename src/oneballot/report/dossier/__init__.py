"""The release dossier: one page, and a JSON twin, that says what a party's ballot releases before it is sent.

`record` is the JSON twin, `facts` fills it from a cast or a ballot, `samples` shows contents to people, `page` lays it
out, and `write` puts both files on disk.
"""
