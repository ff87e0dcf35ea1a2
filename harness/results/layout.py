"""Folders of a results folder that several modules read or write.

Each kind of thing has one: what is published (`papers/`), measured (`records/`), given by authors'
code (`references/`), asked by a page (`questions/`) and generated (`tables/`).
"""

from __future__ import annotations

from pathlib import Path

RECORDS = "records"
QUESTIONS = "questions"
REFERENCES = "references"
CONFORMANCE = "conformance"  # among the questions: trainings that references have as well


def measured_for(question: Path) -> Path:
    """Where that stands, but for the suffix, which was measured for a file of questions.

    `results/questions/speed.toml` -> `results/records/speed.toml`; a file of questions that lies
    elsewhere has its measurements beside it.
    """
    for folder in question.parents:
        if folder.name == QUESTIONS:
            return folder.with_name(RECORDS) / question.relative_to(folder)
    return question
