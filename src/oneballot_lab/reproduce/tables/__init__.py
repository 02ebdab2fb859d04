"""The papers' tables: one module per paper, or part of one, declares `TABLES` with the printed figures."""
