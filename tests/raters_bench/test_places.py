"""`raters bench` replaces nothing that it reads."""

from __future__ import annotations

from pathlib import Path

import pytest

import raters
from tests.support.command_line import Run, draw_masks, fingerprint

CASES = [
    (("run", "--study", "study", "--results"), ("study", "study/new")),
    (("table", "labelme", "-o", "results", "--out"), ("results/labelme/a.md",)),
    (("table", "labelme", "-o", "results", "--out"), ("results/labelme/b.json",)),
    (("plot", "lidc", "-o", "results", "--out"), ("results/pixel-cm-slices/a.png",)),
]


@pytest.mark.parametrize(("words", "places"), CASES)
def test_bench_does_not_write_over_its_inputs(
    words: tuple[str, ...],
    places: tuple[str, ...],
    tmp_path: Path,
    run_raters: Run,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    draw_masks(tmp_path)
    masks = f"{tmp_path}/masks/{{rater}}/{{case}}.png"
    study = raters.read(masks, images=f"{tmp_path}/images/{{case}}.png")
    study.write(tmp_path / "study")
    monkeypatch.chdir(tmp_path)
    before = fingerprint(tmp_path)

    for place in places:
        outcome = run_raters("bench", *words, place)
        assert outcome.code == 2, (place, outcome)
        assert outcome.err.splitlines()[-1].startswith("error: "), (place, outcome)
        assert place in outcome.err or str(tmp_path) in outcome.err, (place, outcome)

    assert fingerprint(tmp_path) == before
