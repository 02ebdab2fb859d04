"""Fuzzing with atheris: python fuzz [TARGET …] [--seconds 60]. Without a target, all of them run one after another.

Interesting inputs are kept in fuzz/corpus, where the next run resumes. A finding is written to fuzz/findings, and its
error to stderr.
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


def mutate(data: bytes, max_size: int, seed: int) -> bytes:
    """Mutate the files in a zip, with correct checksums, and one time in four the zip itself."""
    if seed % 4 == 0:
        return bytes(atheris.Mutate(data, max_size))
    return targets.altered(data, lambda part: bytes(atheris.Mutate(part, max_size)), seed // 4)[:max_size]


def fuzz(name: str, seconds: int) -> None:
    """Fuzz one target. Does not return, because libFuzzer exits the process."""
    file = name.replace(":", "-")
    corpus, findings = HERE / "corpus" / file, HERE / "findings"
    corpus.mkdir(parents=True, exist_ok=True)
    findings.mkdir(exist_ok=True)
    target = targets.target(name)
    for i, seed in enumerate(target.seeds):
        assert target.accepts(seed), f"{name}: a seed is refused"
        (corpus / f"seed-{i}").write_bytes(seed)
    targets.forbid_files()
    options = [f"-max_total_time={seconds}", f"-artifact_prefix={findings}/{file}-", *LIMITS, str(corpus)]
    atheris.Setup([sys.argv[0], *options], target.accepts, custom_mutator=mutate)
    atheris.Fuzz()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", nargs="*", help=f"one or more of {', '.join(targets.names())}")
    parser.add_argument("--seconds", type=int, default=60, help="seconds per target")
    options = parser.parse_args()
    findings = []
    for name in options.target or targets.names():
        targets.target(name)  # make the seeds once, in this process
        print(f"== {name}", flush=True)
        child = os.fork()
        if child == 0:
            fuzz(name, options.seconds)
        if os.waitpid(child, 0)[1]:
            findings.append(name)
    print(f"findings: {', '.join(findings) or 'none'}")
    return bool(findings)


if __name__ == "__main__":
    sys.exit(main())
