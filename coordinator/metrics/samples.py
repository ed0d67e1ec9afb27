"""What an exposition says: the value of each series, by the name of its metric."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from prometheus_client.parser import text_string_to_metric_families

Labels = frozenset[tuple[str, str]]
Samples = Mapping[str, Mapping[Labels, float]]
"""The values of a scrape, by name and labels."""


def parse(text: str) -> Samples:
    """The samples of an exposition.

    Raises:
        ValueError: it is malformed.
    """
    samples: dict[str, dict[Labels, float]] = defaultdict(dict)
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            samples[sample.name][frozenset(sample.labels.items())] = sample.value
    return samples
