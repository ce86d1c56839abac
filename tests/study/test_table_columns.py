"""Columns of tables by their names: what people and platforms call them."""

from __future__ import annotations

import pytest

from raters.study.table_columns import guess_columns, rater_columns


@pytest.mark.parametrize(
    ("names", "found"),
    [
        ("item,worker,label", "item,worker,label"),
        ("Image ID,Annotator,Diagnosis", "Image ID,Annotator,Diagnosis"),
        ("patient,observer,occasion,label", "patient,observer,label"),
        ("patient,image,reader,grade", "image,reader,grade"),
        ("id,annotator,feature0,class", "id,annotator,class"),
        ("HITId,WorkerId,Input.song,Answer.genre", "Input.song,WorkerId,Answer.genre"),
        (
            "WorkerID,Input.song,Input.true_label,Answer.pred_label",
            "Input.song,WorkerID,Answer.pred_label",
        ),
        ("ITEM_ID,RATER_ID,ANSWER,comment_time", "ITEM_ID,RATER_ID,ANSWER"),
        ("documentId,coder,category,gold", "documentId,coder,category"),
    ],
)
def test_columns_are_found_by_their_names(names: str, found: str) -> None:
    columns = guess_columns(names.split(","), {})
    assert [columns.only(role) for role in ("task", "worker", "label")] == found.split(",")


@pytest.mark.parametrize(
    "name", ["truth", "gold", "Gold_Label", "true class", "GT", "Input.true_label"]
)
def test_the_truth_is_no_label_of_a_rater(name: str) -> None:
    columns = guess_columns(["item", "worker", "answer", name], {})
    assert (columns.only("label"), columns.only("truth")) == ("answer", name)


@pytest.mark.parametrize(
    "names", ["a,b,c", "image,label", "image,case,rater,label", "image,rater,label,diagnosis"]
)
def test_what_is_not_clear_is_not_guessed(names: str) -> None:
    assert not guess_columns(names.split(","), {}).is_complete


def test_columns_that_are_given_are_kept() -> None:
    columns = guess_columns(["image", "case", "rater", "label"], {"task": "case"})
    assert columns.only("task") == "case"
    assert columns.is_complete


def test_numbered_columns_are_raters() -> None:
    assert rater_columns(["path", "class", "human1", "human2"]) == ("human1", "human2")
    assert rater_columns(["a1", "b1", "a2", "b2"]) == ()
