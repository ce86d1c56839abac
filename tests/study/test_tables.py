"""Tables of class labels: every form of file gives the same triplets, and bad ones say why."""

from __future__ import annotations

import gzip
import io
import itertools
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from raters.core.errors import RatersError
from raters.io import table_files, table_text
from raters.io.table_files import number
from raters.study import tables as table_names
from raters.study.pattern import natural_key, natural_order
from raters.study.table_folder import read_triplets, write_triplets
from raters.study.tables import Names, read_table
from raters.study.triplets import Triplets
from tests.support.pairs import all_pairs

LONG = "task,worker,label\n10,ann,1\n2,bob,0\n2,ann,1\n2,ann,0\n"
quick = settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)

texts = st.text(st.sampled_from('abZé漢 09-,;"\t\n.'), min_size=1, max_size=6).filter(
    lambda text: text == text.strip() and text.lower() != "nan"
)
words = st.text(st.sampled_from("abZé漢09-."), min_size=1, max_size=6).filter(
    lambda text: text.lower() != "nan"
)


def tiny_blocks(patch: pytest.MonkeyPatch, size: int) -> None:
    patch.setattr(table_files, "BLOCK_BYTES", size)
    patch.setattr(table_files, "BATCH_CELLS", 7)
    patch.setattr(table_names, "WAITING_BYTES", 20)


@pytest.fixture(params=[None, 64], ids=["one block", "tiny blocks"])
def blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param:
        tiny_blocks(monkeypatch, request.param)


@pytest.fixture
def write_table(tmp_path: Path) -> Callable[..., Path]:
    numbers = itertools.count()

    def write(text: str | bytes, suffix: str = ".csv") -> Path:
        path = tmp_path / f"table{next(numbers)}{suffix}"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return write


def rows_of_triplets(triplets: Triplets) -> list[tuple[str, str, int | str]]:
    return [
        (triplets.tasks[t], triplets.raters[r], triplets.values[v])
        for t, r, v in zip(triplets.task, triplets.rater, triplets.label, strict=True)
    ]


def assert_table_refused(path: Path, kind: str, *parts: str, **options: object) -> None:
    with pytest.raises(RatersError) as caught:
        read_table(path, **options)  # type: ignore[arg-type]
    assert caught.value.kind == kind, caught.value
    for part in (str(path), *parts):
        assert part in str(caught.value)


# Names


@settings(deadline=None)
@given(st.lists(st.text(st.sampled_from("ab019 .")), unique=True))
def test_natural_order_compares_digits_as_numbers(names: list[str]) -> None:
    def plain(name: str) -> tuple[list[object], str]:
        # Odd parts are numbers; a digit sorts among other characters where "0" to "9" do.
        parts = re.split("([0-9]+)", name)
        return [p if k % 2 == 0 else ("0", int(p)) for k, p in enumerate(parts)], name

    ordered = [names[k] for k in natural_order(names)]
    assert ordered == sorted(names, key=natural_key)
    for one, other in itertools.pairwise(ordered):
        a, _ = plain(one)
        b, _ = plain(other)
        if len(a) > 1 and len(b) > 1 and a[0] == b[0]:
            assert a[1] <= b[1]  # type: ignore[operator]
    assert sorted(ordered) == sorted(names)


def test_natural_order_of_many_numbers_is_that_of_the_key() -> None:
    names = [f"x{k}" for k in np.random.default_rng(0).permutation(200)]
    assert [names[k] for k in natural_order(names)] == [f"x{k}" for k in range(200)]
    for odd in (["01", "1", "001"], ["1" * 30, "2"], ["", "1"], ["a", "a1"], []):
        assert [odd[k] for k in natural_order(odd)] == sorted(odd, key=natural_key)


# Round trips


@pytest.mark.slow
@quick
@given(
    rows=st.lists(st.tuples(texts, texts, texts), min_size=1, max_size=30), numeric=st.booleans()
)
@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet"])
@pytest.mark.parametrize("block", [None, 128])
def test_long_tables_come_back(
    tmp_path: Path, rows: list[tuple[str, str, str]], numeric: bool, suffix: str, block: int | None
) -> None:
    labels = [len(row[2]) if numeric else row[2] for row in rows]
    assume(numeric or any(number(str(label)) is None for label in labels))
    frame = pd.DataFrame(rows, columns=["task", "worker", "label"]).assign(label=labels, note="x,y")
    path = tmp_path / f"table{suffix}"
    if suffix == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, sep="," if suffix == ".csv" else "\t", index=False)
    with pytest.MonkeyPatch.context() as patch:
        if block:
            tiny_blocks(patch, block)
        triplets = read_table(path)
    expected = [(row[0], row[1], label) for row, label in zip(rows, labels, strict=True)]
    assert rows_of_triplets(triplets) == expected
    assert list(triplets.tasks) == sorted(set(frame["task"]), key=natural_key)
    assert triplets.raters == tuple(sorted(set(frame["worker"]), key=natural_key))
    order = None if numeric else natural_key
    assert triplets.values == tuple(sorted(set(labels), key=order))  # type: ignore[arg-type,type-var]


@quick
@given(data=st.data(), rows=st.integers(1, 12), named=st.booleans())
@pytest.mark.parametrize("suffix", [".csv", ".txt", ".parquet"])
def test_wide_tables_come_back(
    tmp_path: Path, data: st.DataObject, rows: int, named: bool, suffix: str
) -> None:
    raters = data.draw(st.lists(words.filter(_no_number), min_size=2, max_size=5, unique=True))
    assume("task" not in raters)
    ids = data.draw(st.lists(words, min_size=rows, max_size=rows, unique=True))
    cells = np.array(data.draw(st.lists(st.integers(-1, 11), min_size=rows * len(raters))))
    cells = cells[: rows * len(raters)].reshape(rows, len(raters))
    assume((cells >= 0).any())
    frame = pd.DataFrame(cells, columns=raters)
    if named:
        frame.insert(0, "task", ids)
    path = tmp_path / f"table{suffix}"
    if suffix == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, sep="," if suffix == ".csv" else " ", index=False)
    with pytest.MonkeyPatch.context() as patch:
        tiny_blocks(patch, 256)
        triplets = read_table(path, wide=True, missing="-1")
    names = ids if named else [str(k) for k in range(rows)]
    assert rows_of_triplets(triplets) == [
        (names[r], raters[c], cells[r, c]) for r, c in zip(*np.nonzero(cells >= 0), strict=True)
    ]
    assert list(triplets.tasks) == sorted(names, key=natural_key)
    assert triplets.raters == tuple(sorted(raters, key=natural_key))


def _no_number(text: str) -> bool:
    return number(text) is None


@quick
@given(data=st.data(), whole=st.booleans())
def test_own_file_keeps_everything(tmp_path: Path, data: st.DataObject, whole: bool) -> None:
    any_text = st.text(st.characters(codec="utf-8"), max_size=5)
    tasks = data.draw(st.lists(any_text, min_size=1, max_size=9, unique=True))
    raters = data.draw(st.lists(any_text, min_size=1, max_size=9, unique=True))
    value = st.integers(-(2**63), 2**63 - 1) if whole else any_text
    values = data.draw(st.lists(value, min_size=1, max_size=9, unique=True))
    rows = data.draw(
        st.lists(
            st.tuples(
                st.integers(0, len(tasks) - 1),
                st.integers(0, len(raters) - 1),
                st.integers(0, len(values) - 1),
            )
        )
    )
    columns = np.array(rows, dtype=int).reshape(-1, 3).T
    triplets = Triplets(*columns, tasks, tuple(raters), tuple(values))  # type: ignore[arg-type]
    path = tmp_path / "labels.parquet"
    write_triplets(path, triplets)
    again = read_triplets(path)
    assert again == triplets
    assert (again.task.dtype, again.label.dtype) == (np.dtype("int32"), np.dtype("int16"))
    plain = pd.read_parquet(path)
    assert list(plain) == ["task", "worker", "label"]
    assert not any(isinstance(dtype, pd.CategoricalDtype) for dtype in plain.dtypes)
    assert plain.to_numpy().tolist() == triplets.frame().to_numpy().tolist()
    assert [file.name for file in tmp_path.iterdir()] == ["labels.parquet"]


def test_own_file_of_nothing_and_files_of_others(tmp_path: Path) -> None:
    path = tmp_path / "new folder" / "labels.parquet"
    empty = Triplets([], [], [], ["a"], (), ())  # type: ignore[arg-type]
    write_triplets(path, empty)
    assert read_triplets(path) == empty
    pd.DataFrame({"task": ["1"]}).to_parquet(path)
    with pytest.raises(RatersError, match="no lists of names"):
        read_triplets(path)
    path.write_text("task,worker,label\n")
    with pytest.raises(RatersError, match=r"labels\.parquet: cannot be read"):
        read_triplets(path)
    with pytest.raises(RatersError):
        read_triplets(tmp_path / "none")


def test_own_file_is_also_a_table(tmp_path: Path) -> None:
    triplets = Triplets([0, 1], [0, 0], [0, 1], ["1", "2"], ("ann",), (3, 4))  # type: ignore[arg-type]
    write_triplets(tmp_path / "labels.parquet", triplets)
    assert read_table(tmp_path / "labels.parquet") == triplets


# Separators, encodings, line ends


SEPARATED = [
    (",", ".csv"),
    (";", ".csv"),
    ("\t", ".csv"),
    ("\t", ".tsv"),
    (",", ".txt"),
    ("\t", ".txt"),
    (" ", ".txt"),
    ("   ", ".dat"),
    (" \t ", ""),
    (";", ".CSV"),
]


@pytest.mark.parametrize(
    ("separated", "mark", "end", "last", "blocks"),
    all_pairs(SEPARATED, ["", "\ufeff"], ["\n", "\r\n", "\r"], [True, False], [None, 64]),
    indirect=["blocks"],
)
@pytest.mark.usefixtures("blocks")
def test_separators_marks_and_line_ends(
    write_table: Callable[..., Path], separated: tuple[str, str], mark: str, end: str, last: bool
) -> None:
    separator, suffix = separated
    text = LONG.replace(",", separator).replace("\n", end)
    path = write_table(mark + (text if last else text.removesuffix(end)), suffix)
    triplets = read_table(path)
    assert rows_of_triplets(triplets) == [
        ("10", "ann", 1),
        ("2", "bob", 0),
        ("2", "ann", 1),
        ("2", "ann", 0),
    ]
    assert list(triplets.tasks) == ["2", "10"]


def test_quoted_and_padded_cells(write_table: Callable[..., Path]) -> None:
    path = write_table('task , worker,label\n"a, ""b""",  Jürgen ,"cat\ndog"\n"x;y",漢, 7\n')
    assert rows_of_triplets(read_table(path)) == [
        ('a, "b"', "Jürgen", "cat\ndog"),
        ("x;y", "漢", "7"),
    ]
    path = write_table('  task worker  label \n"a  b"  ann 1  \n\n c   bob   2\n', ".txt")
    assert rows_of_triplets(read_table(path)) == [("a  b", "ann", 1), ("c", "bob", 2)]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 1000])
def test_runs_of_blanks_over_block_boundaries(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(table_text, "_BLANKS_BYTES", size)
    text = b"  a   b \r\n\t c\t\td\re  f"
    stream = io.BufferedReader(table_text.SingleBlanks(io.BytesIO(text)))
    assert stream.read() == b"a b\r\nc d\re f"


def test_compressed_text(write_table: Callable[..., Path]) -> None:
    assert len(read_table(write_table(gzip.compress(LONG.encode()), ".csv.gz"))) == 4
    assert_table_refused(write_table(b"no gzip at all", ".csv.gz"), "unreadable")


@pytest.mark.usefixtures("blocks")
def test_dictionaries_grow_over_blocks_as_in_pandas(write_table: Callable[..., Path]) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "item": [f"t{k}" for k in rng.integers(300, size=2000)],
            "extra": rng.random(2000),
            "who": rng.integers(40, size=2000),
            "answer": rng.integers(9, size=2000),
        }
    )
    names = {"task": "item", "worker": "who", "label": "answer"}
    path = write_table(frame.to_csv(index=False))
    triplets = read_table(path, **names)  # type: ignore[arg-type]
    assert (triplets.tasks[triplets.task] == frame["item"]).all()
    assert (np.array(triplets.raters, dtype=int)[triplets.rater] == frame["who"]).all()
    assert (np.array(triplets.values)[triplets.label] == frame["answer"]).all()
    assert triplets.raters == tuple(map(str, range(40)))
    frame.astype({"who": float, "answer": "category"}).to_parquet(path)
    assert read_table(path, **names) == triplets  # type: ignore[arg-type]


@quick
@given(
    blocks=st.lists(
        st.lists(
            st.one_of(
                st.integers(0, 30).map(str),
                st.integers(0, 30).map("t{}".format),
                st.sampled_from(["007", "7", "t07", "t", "", "-7", "+7", "0x7", "٣", "9" * 19]),
                st.integers(0, 10**17).map(str),
            ),
            max_size=20,
        ),
        max_size=8,
    ),
    kind=st.sampled_from(["any", "numbers", "prefixed", "large"]),
    waiting=st.sampled_from([1, 60, 1 << 26]),
)
def test_names_come_back_whatever_they_look_like(
    blocks: list[list[str]], kind: str, waiting: int
) -> None:
    if kind == "numbers":
        blocks = [[str(len(text)) for text in block] for block in blocks]
    elif kind != "any":
        form = "task-{}" if kind == "prefixed" else "{}"
        blocks = [[form.format(hash(text) % 10**12) for text in block] for block in blocks]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_names, "WAITING_BYTES", waiting)
        names = Names()
        for block in blocks:
            names.add(pa.array(block, pa.string()))
        column = names.finish()
    expected = [text for block in blocks for text in block]
    for found in (column, column.sorted()):
        assert [found.names[k] for k in found.cells] == expected
        assert sorted(found.names) == sorted(set(expected))
    assert column.sorted().names == sorted(set(expected), key=natural_key)


def test_importing_triplets_is_light() -> None:
    code = "import sys, raters.study.backend; print({'pandas', 'pyarrow'} & {*sys.modules})"
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert run.stdout == "set()\n"


# What labels are


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["10", "9", "-1"], (-1, 9, 10)),
        (["1.0", "1", "2."], (1, 2)),
        (["1e1", "+3", "007"], (3, 7, 10)),
        (["10", "9", "x"], ("9", "10", "x")),
        (["1.0", "1", "x"], ("1", "1.0", "x")),
        (["0.7", "x"], ("0.7", "x")),
        (["99999999999999999999", "1"], ("1", "99999999999999999999")),
        (["1_0", "1"], ("1", "1_0")),
        (["NA", "inf"], ("NA", "inf")),
    ],
)
def test_values_are_whole_numbers_or_strings(
    write_table: Callable[..., Path], cells: list[str], values: tuple[int | str, ...]
) -> None:
    path = write_table("task,worker,label\n" + "".join(f"{k},a,{c}\n" for k, c in enumerate(cells)))
    assert read_table(path).values == values


@pytest.mark.parametrize("missing", ["-1", -1, -1.0, " -1.00"])
def test_missing_labels_leave_their_task_and_rater(
    write_table: Callable[..., Path], missing: str | float
) -> None:
    path = write_table("task,worker,label\n1,a,3\n2,b,-1\n3,c,\n4,d,NaN\n5,e,-1.0\n")
    triplets = read_table(path, missing=missing)
    assert rows_of_triplets(triplets) == [("1", "a", 3)]
    assert (len(triplets.tasks), triplets.raters, triplets.values) == (5, tuple("abcde"), (3,))
    assert read_table(path).values == (-1, 3)
    assert read_table(write_table("task,worker,label\n1,a,x\n1,b,n/a\n"), missing="n/a").values == (
        "x",
    )


def test_parquet_types(tmp_path: Path) -> None:
    path = tmp_path / "table.parquet"
    columns = {
        "task": pa.array([1e7, 123456789012.0, 2.5]),
        "worker": pa.array(["a", "b", "b"], pa.large_string()),
        "label": pa.array([1.0, None, float("nan")], pa.float32()),
        "worker.age": [1, 2, 3],
    }
    pq.write_table(pa.table(columns), path)
    triplets = read_table(path)
    assert list(triplets.tasks) == ["2.5", "10000000", "123456789012"]
    assert rows_of_triplets(triplets) == [("10000000", "a", 1)]
    assert read_table(path, worker="worker.age").raters == ("1", "2", "3")


# Wide form


def test_several_values_may_mean_missing(write_table: Callable[..., Path]) -> None:
    path = write_table("task,worker,label\n1,a,NA\n1,b,n/a\n2,a,cat\n2,b,-1.0\n3,a,dog\n")
    assert read_table(path, missing=["NA", "n/a", -1]).values == ("cat", "dog")
    assert read_table(path, missing=("NA",)).values == ("-1.0", "cat", "dog", "n/a")
    assert read_table(path, missing="NA,n/a").values == ("-1.0", "NA", "cat", "dog", "n/a")


def test_header_of_wide_tables(write_table: Callable[..., Path]) -> None:
    plain = read_table(write_table("1,-1,2\n,1,1\n"), wide=True, missing=-1)
    assert (plain.raters, list(plain.tasks), len(plain)) == (("0", "1", "2"), ["0", "1"], 4)
    assert read_table(write_table("1,,2\n2,1,1\n"), wide=True).raters == ("0", "1", "2")
    assert read_table(write_table("1,NA\n2,1\n"), wide=True, missing="NA").raters == ("0", "1")
    numbers = write_table("1,2\n1,1\n")
    assert read_table(numbers, wide=True, header=True).raters == ("1", "2")
    assert len(read_table(write_table("1,2"), wide=True)) == 2
    assert len(read_table(write_table("1  2", ".txt"), wide=True)) == 2
    strings = write_table("cat,dog\ndog,dog\n")
    assert len(read_table(strings, wide=True, header=False)) == 4
    assert read_table(strings, wide=True).raters == ("cat", "dog")


def test_pandas_index_names_the_tasks(write_table: Callable[..., Path], tmp_path: Path) -> None:
    frame = pd.DataFrame([[1, 2], [0, 1]], index=["x", "y"])
    expected = [("x", "0", 1), ("x", "1", 2), ("y", "0", 0), ("y", "1", 1)]
    assert rows_of_triplets(read_table(write_table(frame.to_csv()), wide=True)) == expected
    frame.columns = frame.columns.astype(str)
    frame.to_parquet(tmp_path / "wide.parquet")
    assert rows_of_triplets(read_table(tmp_path / "wide.parquet", wide=True)) == expected


def test_wide_id_column_anywhere(write_table: Callable[..., Path]) -> None:
    path = write_table("bob,image,ann\n1,x,\n2,a,1\n")
    triplets = read_table(path, wide=True, task="image")
    assert rows_of_triplets(triplets) == [("x", "bob", 1), ("a", "bob", 2), ("a", "ann", 1)]
    assert list(triplets.tasks) == ["a", "x"]


def test_long_without_header(write_table: Callable[..., Path]) -> None:
    path = write_table("1 ann 0\n2 bob 1\n", ".txt")
    triplets = read_table(path, header=False, task="0", worker="1", label="2")
    assert rows_of_triplets(triplets) == [("1", "ann", 0), ("2", "bob", 1)]


# Errors


def test_missing_column_says_what_there_is(write_table: Callable[..., Path]) -> None:
    path = write_table("item,who,answer\n1,a,2\n")
    hints = (
        "'item', 'who', 'answer'",
        "--task NAME --worker NAME --label NAME",
        "case, rater, mask",
    )
    assert_table_refused(path, "columns", "'task'", *hints)
    assert_table_refused(path, "columns", "'patient'", wide=True, task="patient")
    assert_table_refused(write_table("1,2\n"), "columns", "'patient'", wide=True, task="patient")


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize(
    ("text", "kind", "parts"),
    [
        ("", "table", ["is empty"]),
        (" \n\n", "table", ["is empty"]),
        ("task,worker,label\n", "table", ["no rows"]),
        ("task,worker,label", "table", ["no rows"]),
        ("task,worker,label,label\n1,2,3,4\n", "columns", ["2 columns named 'label'"]),
        ("task,worker,label\n1,a,1\n2,b\n", "table", ["2 cells in line 3", "expected 3"]),
        ("task,worker,label\n1,a,1\n\n2,b,1,1\n", "table", ["4 cells in line 4"]),
        ("task,worker,label\n1,a,1\n ,b,1\n", "value", ["'task' of row 2"]),
        ("task,worker,label\n1,a,1\n2,,1\n", "value", ["'worker' of row 2"]),
        ("task,worker,label\n1,a,1\n2,b,0.7\n", "value", ["0.7", "'b'", "'2'", "whole numbers"]),
        ("task,worker,label\n1,a,\n", "table", ["has no label"]),
        ("task,worker,label\n1,a,\xff\n".encode("latin-1"), "unreadable", ["line 2", "UTF-8"]),
        ("täsk\n".encode("latin-1"), "unreadable", ["line 1", "UTF-8"]),
        (LONG.encode("utf-16"), "unreadable", ["UTF-16"]),
        (b"\x89PNG\r\n\x1a\n\0\0\0", "unreadable", ["not a text file"]),
        (b"PK\3\4\0\0", "unreadable", ["not a text file"]),
        (b"PAR1 and nothing else", "unreadable", ["cannot be read"]),
    ],
)
def test_bad_long_tables(
    write_table: Callable[..., Path], text: str | bytes, kind: str, parts: list[str]
) -> None:
    assert_table_refused(write_table(text), kind, *parts)


@pytest.mark.parametrize(
    ("text", "kind", "parts"),
    [
        ("task,a,b\n1,1,1\n2,0,0\n1,0,0\n", "table", ["task '1' in rows 1 and 3"]),
        ("task,a,a\n1,1,1\n", "columns", ["2 columns named 'a'"]),
        ("task,a,\n1,1,1\n", "columns", ["column 3 has no name"]),
        ("task\n1\n", "columns", ["no column of a rater"]),
        ("task,a\n1,1\n,0\n", "value", ["'task' of row 2"]),
        ("task,a,b\n1,0.7,1\n", "value", ["0.7", "'a'", "'1'"]),
        ("a,b\n1,2,3\n", "table", ["3 cells in line 2"]),
        ("a,b\n", "table", ["no rows"]),
        ("a,b\n,\n", "table", ["has no label"]),
    ],
)
def test_bad_wide_tables(
    write_table: Callable[..., Path], text: str, kind: str, parts: list[str]
) -> None:
    assert_table_refused(write_table(text), kind, *parts, wide=True)


def test_bytes_that_are_not_text_far_into_the_file(
    write_table: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_text, "HEAD_BYTES", 64)
    path = write_table(LONG.encode() + b"1,a,2\n" * 50 + b"1,\xe9,2\n")
    assert_table_refused(path, "unreadable", "line 56", "UTF-8")


def test_other_bad_files(write_table: Callable[..., Path], tmp_path: Path) -> None:
    assert_table_refused(tmp_path / "none.csv", "unreadable", "no such file")
    assert_table_refused(tmp_path, "unreadable", "folder")
    assert_table_refused(write_table(LONG, ".parquet"), "unreadable")
    assert_table_refused(write_table(LONG), "columns", "expected three columns", worker="task")
    many = "".join(f"1,a,x{k}\n" for k in range(32768))
    assert_table_refused(
        write_table("task,worker,label\n" + many), "value", "32768", "looks like something else"
    )
    path = tmp_path / "nested.parquet"
    pq.write_table(pa.table({"task": [[1]], "worker": ["a"], "label": [1]}), path)
    assert_table_refused(path, "columns", "'task'", "list")
    pq.write_table(pa.table({"task": ["1", None], "worker": ["a", "b"], "label": [1, 1]}), path)
    assert_table_refused(path, "value", "'task' of row 2")
    pq.write_table(pa.table({"task": ["1"], "worker": ["a"], "label": [1]})[:0], path)
    assert_table_refused(path, "table", "no rows")


def test_a_row_longer_than_a_block(
    write_table: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_files, "BLOCK_BYTES", 32)
    assert_table_refused(write_table(LONG + f"3,{'x' * 500},1\n"), "unreadable", "cannot be read")


# Selecting


def test_selecting_keeps_names_consistent() -> None:
    triplets = Triplets(
        [0, 0, 1, 2], [0, 1, 1, 2], [0, 1, 2, 1], ["a", "b", "c"], ("x", "y", "z"), (0, 5, 7)
    )  # type: ignore[arg-type]
    assert triplets.select() == triplets
    some = triplets.select(tasks=np.array([True, False, True]))
    assert rows_of_triplets(some) == [("a", "x", 0), ("a", "y", 5), ("c", "z", 5)]
    assert (list(some.tasks), some.raters, some.values) == (["a", "c"], ("x", "y", "z"), (0, 5, 7))
    some = triplets.select(raters=[2, 1], values=[1])
    assert rows_of_triplets(some) == [("a", "y", 5), ("c", "z", 5)]
    assert (list(some.tasks), some.raters, some.values) == (["a", "b", "c"], ("y", "z"), (5,))
    none = triplets.select(tasks=[])
    assert (len(none), len(none.tasks), none.label.dtype) == (0, 0, np.dtype("int16"))
    with pytest.raises(IndexError):
        triplets.select(raters=[3])
    with pytest.raises(ValueError, match="one length"):
        Triplets([0], [0, 1], [0], ["a"], ("x",), (0,))  # type: ignore[arg-type]
    assert triplets != "triplets"
