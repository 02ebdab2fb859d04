"""The result of an audit in sentences: the verdict, what could not have been noticed, and what was not attacked."""

from __future__ import annotations

from .power import POWER
from .run import Audit


def describe_result(result: Audit) -> list[str]:
    """Sentences for people, the verdict first."""
    chance = f"{1 - result.confidence:.2g}"
    about = (
        f"{result.with_noise.canaries:,} canaries in {result.runs:,} runs. Evidence against the claim: "
        f"{result.wealth:.3g}. {result.refuting_wealth:.3g} refutes it, which happens to a true claim in at most "
        f"{chance} of all audits (--confidence)."
    )
    return [*_verdict(result), about, *unnoticed(result.noticed), not_attacked(result.not_attacked)]


def _verdict(result: Audit) -> list[str]:
    if not result.holds:
        return [
            "THE CLAIM IS REFUTED. Please report this as a vulnerability (SECURITY.md).",
            *(f"- {finding}" for finding in result.findings),
        ]
    sentences = ["This audit does not refute the claim. That is no proof of it."]
    if not result.catches:
        sentences.append(
            f"The bound on epsilon is inconclusive: {result.with_noise.canaries:,} canaries can show an epsilon of at "
            f"most {result.most:.3f}, and almost without noise they showed {result.without_noise.epsilon:.3f}. The "
            "test of the curve does not need it."
        )
    return sentences


def unnoticed(noticed: float | None) -> list[str]:
    """What noise would have passed."""
    if noticed is None:
        return [
            "This audit could NOT have noticed, with any reliability, weaker noise: by simulation, not even noise far "
            f"below the stated scale is noticed in {POWER:.0%} of audits. Use more --runs."
        ]
    return [
        f"This audit could NOT have noticed: noise of more than {noticed:.0%} of the stated scale would have passed in "
        f"more than {1 - POWER:.0%} of audits, and so would a unit that counts less than {1 / noticed:.2g} times. That "
        "is estimated by simulating this audit with all noise weaker alike; noise that is weaker in one place may pass "
        "more often. More --runs notice smaller deviations."
    ]


def not_attacked(parts: tuple[str, ...] | list[str]) -> str:
    """What the audit leaves out."""
    return f"It did not attack: {'; '.join(parts)}."
