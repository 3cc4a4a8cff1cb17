"""Verdicts on published claims follow the rule that the page states, and every claim that has a study has its records."""

from pathlib import Path

import claims
import numpy as np
import published
import pytest


def claim(**more):
    return published.Claim("paper", "claim", 1.0, "bmr", needs="time", **more)


NONE = np.zeros(0)


@pytest.mark.parametrize(
    ("of", "ours", "left", "word"),
    [
        (claim(slack=0.1), [0.8], NONE, "beaten"),
        (claim(slack=0.1), [1.05], NONE, "reproduced"),
        (claim(slack=0.1), [1.2], NONE, "open"),
        (claim(slack=0.1, why="a slip"), [1.2], NONE, "refuted"),
        (claim(slack=0.1, higher=True), [1.2], NONE, "beaten"),
        (claim(slack=0.1, higher=True), [0.8], NONE, "open"),
        (claim(), [1.0, 1.2], NONE, "reproduced"),  # a standard error of .1
        (claim(by_seed=True), [1.0, 1.2], NONE, "open"),
        (claim(slack=0.1, published_left=0.1), [0.8], np.array([0.11]), "beaten"),
        (claim(slack=0.1, published_left=0.1), [0.8], np.array([0.12]), "open"),
        (claim(), NONE, NONE, "open"),
        (claim(slack=0.1), [0.8, np.nan], NONE, "open"),  # it was "reproduced"
        (claim(slack=0.1, published_left=0.1), [0.8], np.array([np.nan]), "open"),
    ],
)
def test_a_verdict_is_a_rule(of, ours, left, word):
    assert claims.verdict(of, np.asarray(ours), left)[0] == word


def test_every_claim_of_a_study_has_records_and_a_page():
    folder = Path(claims.__file__).parent
    for of in published.CLAIMS:
        assert (folder / of.page).is_file(), of
        assert bool(claims.records(of)) == bool(of.study), of
        assert of.needs or claims.judged(of)[2][0] != "open", of
