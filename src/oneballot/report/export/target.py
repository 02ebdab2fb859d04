"""Where an export may be written. Checked before any work, with one rule for all kinds of exports."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ...errors import ExportError
from ...runtime.files import PART


def check_target(path: Path, suffixes: Sequence[str], marks: Sequence[str], *, overwrite: bool) -> None:
    """Raise ExportError unless an export may be written to this path.

    suffixes: how a file must end; empty for exports that are folders. marks: files that such a folder has. Something
    that exists is replaced only with `overwrite`, and a folder only if it is an export of the same kind, or empty.
    """
    if suffixes and path.is_dir():
        raise ExportError(f"{path} is a folder; name a file, such as {path / f'model{suffixes[0]}'}")
    if suffixes and path.suffix not in suffixes:
        pickles = f" (or {', '.join(suffixes[1:])} for a pickle)" if len(suffixes) > 1 else ""
        raise ExportError(f"{path}: expected a name that ends in {suffixes[0]}{pickles}")
    if not path.parent.is_dir():
        raise ExportError(f"the folder {path.parent} does not exist; create it first, or choose another with --out")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise ExportError(f"the folder {path.parent} may not be written to; choose another with --out")
    if not os.path.lexists(path):
        return
    if not overwrite:
        raise ExportError(f"{path} exists; choose another name with --out, or replace it with --overwrite")
    if suffixes:
        return
    if not path.is_dir() or path.is_symlink():
        raise ExportError(f"{path} exists and is not a folder, so it is not replaced; choose another name with --out")
    names = {each.name for each in path.iterdir()}
    if names and not names.issuperset(marks):
        raise ExportError(
            f"{path} exists and is not replaced, because it is not an export of this kind: it has no "
            f"{' and '.join(sorted(set(marks) - names))}; choose another name with --out"
        )


def put_folder(part: Path, path: Path) -> None:
    """Give a finished folder its name. An export that has the name, which `check_target` permitted, is removed."""
    if not path.exists():
        os.replace(part, path)
        return
    aside = Path(tempfile.mkdtemp(dir=path.parent, prefix=PART))
    os.replace(path, aside / path.name)
    try:
        os.replace(part, path)
    except BaseException:
        os.replace(aside / path.name, path)
        raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)
