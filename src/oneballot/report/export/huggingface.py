"""Export to a Hugging Face folder: model card, model, config.json and an example. Nothing is uploaded."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from ...errors import ExportError, MissingExtra
from ...server.documents import CARD, write_document
from ...server.documents.card import model_card
from ...server.documents.facts import Facts, ModelFile
from ...server.outcome import Outcome
from . import Exported
from .bundle import check_class_names, new_folder, write_bundle

USAGE = """```bash
pip install {libraries}
python example.py
```

`predictor.py` reads `config.json` and the model, and needs no OneBallot:

```python
from predictor import Predictor

predictions = Predictor(".").predict(rows)  # {rows}
```"""
EXAMPLE = '''"""Predict the rows of example.{suffix}. Run it in this folder."""

{load}
from predictor import Predictor

print(Predictor(Path(__file__).parent).predict(rows))
'''
FRAME = 'from pathlib import Path\n\nimport pandas as pd\n\nrows = pd.read_csv(Path(__file__).with_name("example.csv"))'
ARRAY = 'from pathlib import Path\n\nimport numpy as np\n\nrows = np.load(Path(__file__).with_name("example.npy"))'


def export(outcome: Outcome, path: Path, *, data: Any = None, trust_members: bool = False) -> Exported:
    """Write a folder that `huggingface_hub` can upload. Its card holds only what may be published."""
    try:
        from huggingface_hub import ModelCard
    except ImportError:
        raise MissingExtra("Exporting to Hugging Face", "huggingface") from None
    import numpy as np

    check_class_names(outcome)
    with new_folder(path) as folder:
        bundle = write_bundle(outcome, folder, data, trust_members=trust_members)
        onnx, table = bundle.form == "onnx", outcome.schema is not None
        if table:
            bundle.example.to_csv(folder / "example.csv", index=False)
        else:
            np.save(folder / "example.npy", bundle.example)
        example = EXAMPLE.format(suffix="csv" if table else "npy", load=FRAME if table else ARRAY)
        (folder / "example.py").write_text(example, "utf-8")
        name = "model.onnx" if onnx else "model.skops"
        file = ModelFile(name, bundle.form, hashlib.sha256((folder / name).read_bytes()).hexdigest())
        libraries = "numpy pandas onnxruntime" if onnx else "numpy pandas scikit-learn skops"
        usage = USAGE.format(libraries=libraries, rows="a DataFrame of raw columns" if table else "an array")
        library = "onnx" if onnx else "sklearn"
        text = model_card(Facts(outcome, file), usage=usage, library=library, tags=[library, "tabular-classification"])
        write_document(folder / CARD, text)
        try:
            card: Any = ModelCard(text)
            card.data.to_dict()
        except ValueError as error:
            raise ExportError(f"Hugging Face does not read the metadata of the card: {error}") from None
        names = sorted(file.name for file in folder.iterdir())
    lost = (*bundle.lost, "Nothing was uploaded: complete the card, then use `hf upload NAME FOLDER`.")
    return Exported(path, tuple(path / each for each in names), bundle.checked, lost)
