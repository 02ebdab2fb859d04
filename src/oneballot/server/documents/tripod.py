"""The TRIPOD+AI checklist of an outcome: what the outcome answers is filled in, the rest is left for people.

The items are those of Collins et al., "TRIPOD+AI statement: updated guidance for reporting clinical prediction models
that use regression or machine learning methods", BMJ 2024;385:e078378, in our own short words.
"""

from __future__ import annotations

from collections.abc import Mapping

from .facts import Facts
from .markdown import code, escaped, listed, table

SOURCE = "https://doi.org/10.1136/bmj-2023-078378"
OPEN = "*To be completed by people*"

ITEMS: Mapping[str, Mapping[str, str]] = {
    "Title and abstract": {
        "1": "Title: development or evaluation of a prediction model, the population, the predicted outcome",
        "2": "Abstract: see TRIPOD+AI for Abstracts",
    },
    "Introduction": {
        "3a": "The health context, why the model is needed, and existing models",
        "3b": "The target population, the care pathway, and the intended users",
        "3c": "Known health inequalities between groups",
        "4": "Objectives: development, evaluation or both",
    },
    "Methods": {
        "5a": "Sources of the data for development and evaluation, and why they represent the population",
        "5b": "Dates of collection and of follow-up",
        "6a": "Setting: where, how many centres",
        "6b": "Who was eligible",
        "6c": "Treatments received, and how they were handled",
        "7": "Preparation and quality checks of the data, the same for all groups or not",
        "8a": "The predicted outcome, its time horizon, how and when it was assessed",
        "8b": "If assessed subjectively: qualifications of the assessors",
        "8c": "Blinded assessment of the outcome",
        "9a": "How the initial predictors were chosen",
        "9b": "All predictors, how and when they were measured",
        "9c": "If measured subjectively: qualifications of the assessors",
        "10": "How the sample size was determined, and why it suffices",
        "11": "Missing data: how handled",
        "12a": "How the data were used: for development and for evaluation",
        "12b": "How predictors were handled: form, scaling, transformation",
        "12c": "Type of model, all steps of building it, hyperparameters, internal validation",
        "12d": "Heterogeneity between clusters such as hospitals: how handled and measured",
        "12e": "Measures and plots of performance, and of comparisons between models",
        "12f": "Updating of the model after its evaluation, such as recalibration",
        "12g": "In an evaluation: how the predictions were computed",
        "13": "Class imbalance: whether and how it was handled, and recalibration afterwards",
        "14": "Fairness: what was done about it, and why",
        "15": "Output of the model (probability, class), and thresholds",
        "16": "Differences between development and evaluation data",
        "17": "Ethical approval and consent",
    },
    "Open science": {
        "18a": "Funding, and the role of the funders",
        "18b": "Conflicts of interest",
        "18c": "Where the protocol is",
        "18d": "Registration",
        "18e": "Availability of the data",
        "18f": "Availability of the code",
    },
    "Patient and public involvement": {
        "19": "Involvement of patients and the public, or that there was none",
    },
    "Results": {
        "20a": "Flow of participants, with and without the outcome, and follow-up",
        "20b": "Characteristics overall and by data source, with missing data and sample sizes",
        "20c": "In an evaluation: comparison with the development data",
        "21": "Participants and outcome events in each analysis",
        "22": "The full model, so that others can predict with it; restrictions of access",
        "23a": "Performance with confidence intervals, also for groups",
        "23b": "Heterogeneity of performance between clusters",
        "24": "Results of updating the model",
    },
    "Discussion": {
        "25": "Interpretation of the main results, including fairness",
        "26": "Limitations, and their effect on bias, uncertainty and generalisation",
        "27a": "How poor or missing input is handled when the model is used",
        "27b": "Whether users interact with the input or need expertise",
        "27c": "Next steps for research, applicability and generalisation",
    },
}


def tripod_checklist(facts: Facts) -> str:
    """The checklist as Markdown."""
    answers = {number: text for number, text in _answers(facts).items() if text}
    parts = [
        f"# TRIPOD+AI checklist: {escaped(facts.name)}",
        (
            f"Source of the items, here in short words: Collins et al., TRIPOD+AI, BMJ 2024;385:e078378, <{SOURCE}>. "
            f"What the outcome of the election knows is filled in; complete the fields marked {OPEN}. Edits are kept."
        ),
        f"{len(answers)} of {sum(map(len, ITEMS.values()))} items have an answer from the outcome. Check these too: an "
        "outcome knows the election, not the study.",
    ]
    for title, items in ITEMS.items():
        rows = [[number, text, answers.get(number, OPEN)] for number, text in items.items()]
        parts.append(f"## {title}\n\n{table(['item', 'what to report', 'answer'], rows)}")
    return "\n\n".join(parts) + "\n"


def _answers(facts: Facts) -> dict[str, str]:
    """What the outcome answers, by item. Cells of tables, so without line breaks."""
    outcome, schema, verdict = facts.outcome, facts.outcome.schema, facts.verdict
    predictors = "" if schema is None else listed((column.name for column in schema.columns), most=40)
    missing = "; ".join(f"{row[0]}: {row[3]}" for row in facts.columns[:40])
    outside = "; ".join(f"{row[0]}: {row[4]}" for row in facts.columns[:40])
    fixed = (
        "Ranges and categories are those of the election, agreed before training; nothing was learned from the data."
    )
    privacy = " ".join(facts.privacy)
    return {
        "6a": f"Number of parties: {facts.parties} {OPEN}: the setting."
        if outcome.voted and facts.level != "L1"
        else "",
        "7": "" if schema is None else f"{fixed} The same for all parties. {OPEN}: quality checks.",
        "8a": f"{facts.predicts} {OPEN}: time horizon and assessment.",
        "9b": "" if schema is None else f"{len(schema.columns)} predictors: {predictors}. {OPEN}: their measurement.",
        "11": "" if schema is None else f"A missing value is, by column: {missing}.",
        "12b": ""
        if schema is None
        else f"Numbers and dates are scaled from their range to 0–1, categories one-hot encoded. {fixed}",
        "12c": f"One-shot federated learning. Method: {facts.method}. Learners: {'; '.join(facts.learners)}. "
        f"Public rows: {facts.public_rows}. {facts.architecture} {OPEN}: internal validation.",
        "12d": "Every party trained on its own data alone; the tally combined what they sent. "
        f"{OPEN}: heterogeneity of the results, such as `oneballot evaluate` at each party.",
        "15": facts.output,
        "18e": f"The parties' data were not shared with anyone, only one message each. Privacy: {privacy} "
        f"{OPEN}: conditions of access.",
        "18f": f"OneBallot, version {code(outcome.about.get('versions', {}).get('oneballot', 'unknown'))}; election "
        f"{code(outcome.election)}. {OPEN}: other code.",
        "22": f"File {code(facts.model.name)}, format {code(facts.model.format)}, SHA-256 {code(facts.model.sha256)}; "
        "`oneballot predict` computes predictions.",
        "23a": _performance(facts),
        "26": " ".join(facts.limitations) + f" {OPEN}: limitations of the study.",
        "27a": "" if schema is None else f"A value outside the range or the categories is, by column: {outside}.",
        "25": ""
        if verdict is None or not verdict.rows
        else f"Share of {verdict.rows:,} public rows predicted as each class: {_shares(verdict.predicted)}. {OPEN}",
    }


def _performance(facts: Facts) -> str:
    if (performance := facts.performance) is None:
        return ""
    values = []
    for name, value in performance.values.items():
        if value == value:
            low, high = performance.intervals.get(name, (None, None))
            interval = "" if low is None or high is None else f" ({low:.3f} to {high:.3f})"
            values.append(f"{escaped(performance.names.get(name, name))} {value:.3f}{interval}")
    return f"On {performance.rows:,} labelled rows ({escaped(performance.source)}): {', '.join(values)}."


def _shares(predicted: Mapping[str, float]) -> str:
    most = sorted(predicted.items(), key=lambda item: -item[1])[:20]
    return ", ".join(f"{code(name)} {100 * share:.1f} %" for name, share in most)
