"""What is first imported within a step: seeded and limited like what was loaded before. In processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SETTINGS = {"OMP_NUM_THREADS": "2", "ONEBALLOT_WORKERS": "1", "TWO": str(min(2, os.cpu_count() or 1))}
DRAWS = """
import os, sys
from oneballot.interfaces import Work
from oneballot.runtime.scheduler import Job, run

def draw():
    import torch
    tf32 = torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32
    return [float(torch.rand(1)), torch.get_num_threads(), *tf32, torch.backends.cudnn.deterministic]

class Draw(Work):
    @staticmethod
    def together(learner, works):
        return [draw() for _ in works]

def steps():
    return (draw() if sys.argv[1] == "cast" else None) or (yield Draw())

def result():
    return run(Job(steps(), lambda role: None, "a", "election"))

assert "torch" not in sys.modules
lazy, again = result(), result()
assert lazy == again, (lazy, again)
assert lazy[1:] == [1, False, False, True], lazy
import torch
assert torch.get_num_threads() == int(os.environ["TWO"])
assert torch.backends.cudnn.allow_tf32 and not torch.backends.cudnn.deterministic
assert not [finder for finder in sys.meta_path if "oneballot" in type(finder).__module__]
"""
THREADS = """
import os, sys
from threadpoolctl import threadpool_info
from oneballot.runtime.scheduler import run

def most():
    return max((pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "openmp"), default=0)

def steps():
    yield from ()
    import sklearn.ensemble
    return most()

assert most() == 0  # no OpenMP library is loaded
assert run(steps()) == 1
assert most() == int(os.environ["TWO"])
"""


def in_new_process(code: str, *arguments: str) -> None:
    call = [sys.executable, "-W", "ignore", "-c", code, *arguments]
    done = subprocess.run(call, env={**os.environ, **SETTINGS}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("where", ["cast", "work"])
def test_torch_is_seeded_and_set_as_soon_as_a_step_imports_it(where: str) -> None:
    pytest.importorskip("torch")
    in_new_process(DRAWS, where)


def test_threads_are_limited_in_a_library_that_a_step_imports() -> None:
    in_new_process(THREADS)


def test_a_method_that_imports_torch_in_its_cast_sends_the_same_ballot_again() -> None:
    pytest.importorskip("torch")
    in_new_process("""
import sys
import numpy as np, oneballot as ob
from typing import ClassVar
from oneballot.interfaces import Method
from oneballot.settings import settings
from oneballot.types import Plan

@settings
class Lazy(Method):
    name: ClassVar = "lazy"
    def plan(self, data, ctx):
        return Plan(0, "random numbers", bytes=16)
    def cast(self, data, ctx):
        import torch
        return {"draws": torch.rand(4).numpy()}
    def count(self, ballot, ctx):
        raise NotImplementedError
    def close(self, count, ctx):
        raise NotImplementedError

X, y = np.random.default_rng(0).random((60, 4), dtype=np.float32), np.arange(60) % 3
election = ob.Election(range(3), X[:20], method=Lazy(), learner=ob.Kernel())
assert "torch" not in sys.modules
first, second, other = (ob.cast(election, X, y, party=party).contents["draws"] for party in "aab")
assert (first == second).all() and (first != other).any()
""")
