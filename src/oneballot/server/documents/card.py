"""The model card: Markdown with the metadata of Hugging Face, made from an outcome."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .facts import Facts, Performance
from .markdown import bullets, code, escaped, quoted, table

FILL = "**To be completed by people:**"
USAGE = """```bash
# after installing OneBallot and what its extras need for this model
oneballot predict . --data new.csv --out predictions.csv
oneballot evaluate . --data test.csv
```

```python
import oneballot as ob

outcome = ob.Outcome.load(".")
probabilities = outcome.model.predict_proba(rows)  # {rows}
```"""


def model_card(
    facts: Facts, *, usage: str = "", library: str = "oneballot", tags: Sequence[str] = (), files: str = ""
) -> str:
    """The card. usage, library, tags, files: of an export, in place of those of an outcome folder."""
    outcome = facts.outcome
    rows = "a DataFrame with the columns below" if outcome.schema is not None else "an array of encoded rows"
    sections = {
        "Model details": _details(facts),
        "Intended use": (
            f"{FILL} who should use this model, for which decision, and on whom.\n\n{FILL} uses that are out of scope."
        ),
        "How to use it": usage or USAGE.format(rows=rows),
        "Input": _input(facts),
        "Output": facts.output,
        "Training": _training(facts),
        "Privacy": bullets(facts.privacy),
        "Evaluation": _evaluation(facts),
        "Limitations": bullets(facts.limitations) + f"\n\n{FILL} other limitations, such as populations not covered.",
        "Ethical considerations": f"{FILL} approval, consent, risks of harm, fairness between groups.",
        "Versions and digests": _digests(facts) + (f"\n\n{files}" if files else ""),
        "Contact and citation": f"{FILL} who answers questions, the licence, and how to cite the model.",
    }
    body = "\n\n".join(f"## {title}\n\n{text}" for title, text in sections.items())
    intro = (
        "This model was made by one-shot federated learning: every party trained on its own data and sent exactly one "
        "message. This card states what the outcome knows. Complete the marked fields; edits are kept."
    )
    return f"{_metadata(facts, library, tags)}\n# {escaped(facts.name)}\n\n{intro}\n\n{body}\n"


def _metadata(facts: Facts, library: str, tags: Sequence[str]) -> str:
    """The YAML front matter, by the specification of Hugging Face's model cards."""
    privacy = (
        () if facts.outcome.ledger.epsilon is None or facts.outcome.ledger.rehearsal else ("differential-privacy",)
    )
    every = dict.fromkeys(["oneballot", "federated-learning", "one-shot-federated-learning", *privacy, *tags])
    lines = [
        "---",
        f"model_name: {quoted(facts.name)}",
        f"library_name: {library}",
        f"pipeline_tag: {facts.task}",
        "license: unknown",
        "tags:",
        *(f"- {tag}" for tag in every),
    ]
    if facts.performance is not None:
        lines += _model_index(facts, facts.performance)
    return "\n".join([*lines, "---", ""])


def _model_index(facts: Facts, performance: Performance) -> list[str]:
    values = {name: value for name, value in performance.values.items() if value == value}
    if not values:
        return []
    lines = [
        "model-index:",
        f"- name: {quoted(facts.name)}",
        "  results:",
        "  - task:",
        f"      type: {facts.task}",
        "    dataset:",
        "      type: private",
        f"      name: {quoted(performance.source)}",
        "    metrics:",
    ]
    for name, value in values.items():
        label = performance.names.get(name, name)
        lines += [f"    - type: {quoted(name)}", f"      value: {value:.6g}", f"      name: {quoted(label)}"]
    return lines


def _details(facts: Facts) -> str:
    return table(
        ["", ""],
        [
            ["Task", facts.task],
            ["Predicts", facts.predicts],
            ["Model", facts.architecture],
            ["Format", code(facts.model.format)],
            ["Privacy level", facts.level],
            ["Made with", "OneBallot, one-shot federated learning"],
        ],
    )


def _input(facts: Facts) -> str:
    if not facts.columns:
        shape = " × ".join(map(str, facts.outcome.model.features_)) or "unknown shape"
        return f"Arrays of encoded rows, {shape} numbers each. The election has no schema of named columns."
    header = ["column", "type", "values", "a missing value is", "other values are"]
    text = "Columns by name, in any order; others are ignored. Ranges and categories were agreed before training, in "
    text += f"the election that all parties have.\n\n{table(header, facts.columns)}"
    row_id = None if facts.outcome.schema is None else facts.outcome.schema.id
    return text if row_id is None else f"{text}\n\nRows have an ID, {code(row_id)}, which the model does not use."


def _training(facts: Facts) -> str:
    items = [
        f"Method: {facts.method}.".replace("..", "."),
        *(f"Learner, {learner}" for learner in facts.learners),
        f"Public rows: {facts.public_rows}",
        f"Parties: {facts.parties} {FILL} their names, if they agree to be named.",
    ]
    return f"{bullets(items)}\n\n{FILL} where the parties' data come from, when and how they were collected."


def _evaluation(facts: Facts) -> str:
    parts = []
    verdict = facts.verdict
    if verdict is not None and verdict.rows:
        shares = sorted(verdict.predicted.items(), key=lambda item: -item[1])[:20]
        title = f"What the model predicts for {verdict.rows:,} public rows, whose labels were not used:"
        parts.append(title + "\n\n" + table(["class", "share"], [[code(n), f"{100 * s:.1f} %"] for n, s in shares]))
    if (performance := facts.performance) is not None:
        names: Mapping[str, str] = performance.names
        rows = [
            [escaped(names.get(name, name)), f"{value:.3f}", _interval(performance, name)]
            for name, value in performance.values.items()
            if value == value
        ]
        title = f"On {performance.rows:,} labelled rows ({escaped(performance.source)}):"
        parts.append(title + "\n\n" + table(["metric", "value", "95 % interval"], rows))
    else:
        parts.append(f"{FILL} results on labelled rows; `oneballot evaluate` computes them.")
    return "\n\n".join(parts)


def _interval(performance: Performance, name: str) -> str:
    low, high = performance.intervals.get(name, (None, None))
    return "" if low is None or high is None else f"{low:.3f} to {high:.3f}"


def _digests(facts: Facts) -> str:
    rows = [
        ["election", code(facts.outcome.election)],
        ["model file", code(facts.model.name)],
        ["model, SHA-256", code(facts.model.sha256)],
        *facts.versions,
    ]
    return table(["", ""], rows)
