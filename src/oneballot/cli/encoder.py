from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..report.text import print_json, size
from .terminal import AsJson, session

HELP = "Learn an encoder of images, and encode files."
app = typer.Typer(
    no_args_is_help=True,
    help=HELP,
    epilog="Example: oneballot encoder new public.npz --out encoder.safetensors",
    rich_markup_mode=None,
)
Column = Annotated[str | None, typer.Option(help="The array of images. Default: the only one with several numbers.")]


@app.callback()
def group() -> None:
    """Learn an encoder of images, and encode files."""


@app.command(epilog="Example: oneballot encoder new public.npz --out encoder.safetensors")
def new(
    public: Annotated[Path, typer.Argument(metavar="PUBLIC", help="An NPZ file of public images.")],
    out: Annotated[Path, typer.Option(help="Write the encoder here.")] = Path("encoder.safetensors"),
    column: Column = None,
    shape: Annotated[
        str | None, typer.Option(metavar="C,H,W", help="The shape of an image, if rows are flat, as in 1,28,28.")
    ] = None,
    filters: Annotated[int, typer.Option(help="The number of patches that it learns.")] = 64,
    features: Annotated[int, typer.Option(help="How many numbers represent an image.")] = 64,
    seed: Annotated[int, typer.Option(min=0, help="The seed of everything random.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Learn an encoder from public images, without labels.

    Everybody who encodes gets this file. Give it to an election as the setting encoder, or encode files with it.
    """
    with session(as_json):
        from ..data.image_files import read_images
        from ..errors import DataError
        from ..methods._learn_encoder import learn_encoder
        from ..runtime.files import write_atomic

        _, images = read_images(public, column)
        try:
            sides = None if shape is None else tuple(int(part) for part in shape.split(","))
        except ValueError:
            raise DataError(f"--shape {shape}: expected numbers with commas between them, as in 1,28,28") from None
        encoder = learn_encoder(images, shape=sides, filters=filters, features=features, seed=seed)
        assert encoder.data is not None
        write_atomic(out, encoder.data)
        if as_json:
            print_json({"encoder": str(out), "digest": str(encoder), "images": len(images), "features": features})
            return
        print(f"{out}: {features} features of an image, learned from {len(images):,} images, {size(len(encoder.data))}")
        print(f"Its digest: {encoder}")


@app.command(epilog="Example: oneballot encoder apply encoder.safetensors mine.npz --out mine-features.npz")
def apply(
    encoder: Annotated[Path, typer.Argument(metavar="ENCODER", help="The file that `oneballot encoder new` wrote.")],
    data: Annotated[Path, typer.Argument(metavar="DATA", help="An NPZ file of images.")],
    out: Annotated[Path, typer.Option(help="Write the features and all other arrays here, as NPZ.")],
    column: Column = None,
    as_json: AsJson = False,
) -> None:
    """Write a file of features instead of images.

    Labels, IDs and all other arrays stay as they are.
    """
    with session(as_json):
        from ..data.image_files import read_images, write_features
        from ..methods._encoder import read_encoder

        name, images = read_images(data, column)
        features = read_encoder(encoder).apply(images)
        write_features(out, data, name, features)
        if as_json:
            print_json({"out": str(out), "rows": len(features), "features": features.shape[1]})
            return
        print(f"{out}: {len(features):,} rows of {features.shape[1]} features instead of {name}")
