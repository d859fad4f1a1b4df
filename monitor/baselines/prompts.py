"""What a load run asks: varied texts, so that neither cache nor drafter has it too easy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from monitor.config import files

_MAX_BYTES = 64 * 1024 * 1024

BUILT_IN = (
    "Explain to a new colleague how a write-ahead log protects a database in a power cut.",
    "Write a Python function that merges two sorted lists, with a docstring and three tests.",
    "A train leaves at 9:40 and arrives at 13:05 after two stops of 7 minutes. How long does it"
    " move? Think step by step.",
    "Tell a short story about a lighthouse keeper who learns to repair radios.",
    "Translate into French, German and Spanish: The delivery will be two days late because of"
    " the strike at the harbour.",
    "List the arguments for and against moving a small company from email to a ticket system.",
    "Write a SQL query that finds customers who bought in March but not in April, and explain it.",
    "Summarise in five sentences what causes tides and why there are two of them a day.",
    'Return a JSON object that describes a recipe for lentil soup: "title", "servings", "steps".',
    "Draft a polite letter to a landlord about a heating that has been broken for a week.",
    "What is the difference between concurrency and parallelism? Give one example of each.",
    "Write a shell script that deletes log files older than 30 days but keeps the newest five.",
    "Describe the water cycle for a child of eight years.",
    "Prove that the sum of two odd numbers is even.",
    "Compare three ways to store passwords and say which one you would choose.",
    "Write a dialogue between a baker and an engineer who both want to name a new bread.",
    "Convert this to a table: apples 3 kg 4.20, pears 1 kg 2.10, plums 5 kg 9.00; add a total.",
    "Explain how a bicycle stays upright while it moves.",
    "Write unit tests for a function that parses durations such as 1h30m and rejects the rest.",
    "Plan a weekend in a town by the sea with two children, rain included.",
    "What does this do, and what is wrong with it? for i in range(len(xs)): if xs[i] == 0:"
    " xs.remove(xs[i])",
    "Give a balanced account of why the Bronze Age kingdoms of the Mediterranean collapsed.",
    "Write a haiku for each month of the year.",
    "Explain the central limit theorem with dice, without any formula.",
)


def read_prompts(path: Path) -> tuple[str, ...]:
    """One prompt a line; ``ValueError`` says what is wrong with the file."""
    text = files.decode(files.read_limited(path, _MAX_BYTES))
    prompts = tuple(line.strip() for line in text.splitlines() if line.strip())
    if not prompts:
        raise ValueError("holds no prompt: write one a line")
    return prompts


def prompt_for(number: int, prompts: Sequence[str] = ()) -> str:
    """The text of one request: the given prompts in turns, or a built-in one made unique.

    A number at the very beginning keeps the prefix cache from serving the built-in ones.
    """
    if prompts:
        return prompts[number % len(prompts)]
    return f"Question {number + 1}. {BUILT_IN[number % len(BUILT_IN)]}"
