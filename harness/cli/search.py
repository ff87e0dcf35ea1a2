"""`harness explain --model`: the choices under which a model at hand gives a number."""

from __future__ import annotations

import json
import os
import sys

from harness.cli import options as opt
from harness.cli.verify import own_method
from harness.core.metrics.correlation import CORRELATION_SCORES
from harness.core.terminal import Bar
from harness.data.places import Places
from harness.data.tasks.loader import TaskLoader
from harness.evaluation.search import Explainer
from harness.evaluation.variants import VariantScores
from harness.registry import look_up
from harness.report.card_check import explanation_in_words
from harness.resolve import Resolver
from harness.results.cards import number_of_target


def search(
    task_name: str,
    target: str,
    model: str,
    metric: str,
    sources: opt.Sources,
    *,
    most_encodings: int | None,
    as_json: bool,
) -> int:
    """Look for the choices under which a model scores a number; the exit status."""
    look_up("score", metric, CORRELATION_SCORES)
    places = Places.from_environment(os.environ)
    resolver = Resolver.from_options(places, sources.encoder)
    [task_name] = resolver.task_patterns([task_name])
    task = look_up("task", task_name, resolver.registry.tasks)
    number = number_of_target(target, metric, task_name)
    method = own_method(resolver.method(model), resolver)
    with Bar(sys.stderr) as bar:
        loader = TaskLoader(resolver.places, resolver.registry.corpora)
        explainer = Explainer(
            VariantScores(method, loader, bar),
            resolver.registry,
            most_encodings,
            opt.note,
        )
        [explanation] = explainer.search(task, [number])
    is_found = explanation.measured is not None
    if as_json:
        facts = {
            "method": method.id,
            "task": task_name,
            "target": target,
            "choices": list(explanation.words) if is_found else None,
            "measured": explanation.measured,
            "tried": explanation.tried,
            "chance": explanation.is_chance,
        }
        opt.say(json.dumps(facts))
    elif is_found and not explanation.words:
        opt.say(
            f"{target}: the model's own settings give it ({explanation.measured:.4f})."
        )
    else:
        opt.say(explanation_in_words(f"{task_name} {target}", explanation))
    return 0 if is_found else 1
