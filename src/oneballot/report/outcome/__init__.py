"""The report of an outcome: `subject` is what it is about, `write` makes the pages, others make their sections."""
