"""Fuzz with atheris: python fuzz [TARGET …] [--seconds 60]; without a target all of them, one after the other.

Inputs that were interesting stay in fuzz/corpus, so that the next run goes on from there. A finding is written to
fuzz/findings, with what was wrong on stderr.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["oneballot", "zipfile", "json", "skops"]):
    import targets

HERE = Path(__file__).parent
LIMITS = ["-rss_limit_mb=3072", "-timeout=20", "-max_len=65536", "-print_final_stats=1"]


def mutate(data: bytes, most: int, seed: int) -> bytes:
    """Mostly within the files of a zip, which would fail their sums otherwise; at times the zip itself."""
    if seed % 4 == 0:
        return bytes(atheris.Mutate(data, most))
    return targets.altered(data, lambda part: bytes(atheris.Mutate(part, most)), seed // 4)[:most]


def fuzz(name: str, seconds: int) -> None:
    """Does not return: libFuzzer ends the process."""
    file = name.replace(":", "-")
    corpus, findings = HERE / "corpus" / file, HERE / "findings"
    corpus.mkdir(parents=True, exist_ok=True)
    findings.mkdir(exist_ok=True)
    target = targets.target(name)
    for i, seed in enumerate(target.seeds):
        assert target.accepts(seed), f"{name}: honest bytes are refused"
        (corpus / f"seed-{i}").write_bytes(seed)
    targets.forbid_files()
    options = [f"-max_total_time={seconds}", f"-artifact_prefix={findings}/{file}-", *LIMITS, str(corpus)]
    atheris.Setup([sys.argv[0], *options], target.accepts, custom_mutator=mutate)
    atheris.Fuzz()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", nargs="*", help=f"of {', '.join(targets.names())}")
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    options = parser.parse_args()
    found = []
    for name in options.target or targets.names():
        targets.target(name)  # what it takes to make the seeds is made once, here
        print(f"== {name}", flush=True)
        child = os.fork()
        if child == 0:
            fuzz(name, options.seconds)
        if os.waitpid(child, 0)[1]:
            found.append(name)
    print(f"findings: {', '.join(found) or 'none'}")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
