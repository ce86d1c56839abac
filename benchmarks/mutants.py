"""Whether tests notice mistakes: one small mistake at a time is made, and some test must fail.

    make mutants                                        # 300 mistakes; resumes where it ended
    python benchmarks/mutants.py --number 50 --seed 1   # others
    python benchmarks/mutants.py --again                # survivors again, after tests were added
    python benchmarks/mutants.py --list                 # what would be tried

Mistakes are made in `PACKAGES`: a comparison, operator, number or
condition is changed; a call, keyword or statement is left out. Docstrings, annotations, texts,
names and assertions are spared. Tests are those of the file (`TESTS`), which take seconds: all
libraries and tests are imported once, and each mistake is tried in a fork of that process, where
functions get other code (or, for mistakes outside of functions, `raters` is imported again). No
file is changed. A mistake is killed if a test fails, or takes far longer than it should.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import gc
import hashlib
import importlib
import importlib.abc
import importlib.util
import io
import json
import os
import random
import resource
import signal
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "raters"
PACKAGES = ("metrics/confusion", "learning/rater_models", "learning/methods")

LOSS = "tests/learning/methods/test_loss.py"
MATRICES = "tests/learning/rater_models/test_rater_models.py"
LIKELIHOOD = "tests/learning/rater_models/test_likelihood.py"
PAPERS = "tests/learning/methods/test_paper_forms.py"
METHODS = "tests/learning/methods/test_methods.py"
TABLES = "tests/docs/test_docs.py::test_tables_are_those_of_the_code"
AXES = "tests/learning/test_rater_axes.py"
# The tests of each file, its own doctests before them; after '?' words of which names have one.
DRAWS = (
    "tests/learning/methods/test_sampling_methods.py?loops|is_drawn|draws|divergence|sums|held_out|mean_of|"
    "samples_are|winner|add_up|is_the"
)
_DRAWING = ("draws", "multi_hypothesis", "prob_unet", "pionono")
TESTS: dict[str, tuple[str, ...]] = {
    "metrics/confusion": ("tests/metrics/test_confusion.py",),
    "metrics/confusion/counts.py": (
        "tests/metrics/test_confusion.py",
        f"{AXES}?soft_targets|counts_of_masks|matrices_of_a_case",
        METHODS,
    ),
    "learning/rater_models": (MATRICES, LIKELIHOOD, f"{AXES}?nobody_knows", LOSS),
    "learning/rater_models/confidence.py": ("tests/learning/methods/test_prism.py",),
    "learning/rater_models/confusion.py": (
        MATRICES,
        "tests/learning/rater_models/test_own_matrices.py",
        LIKELIHOOD,
        LOSS,
    ),
    "learning/rater_models/complement.py": ("tests/learning/methods/test_coarse.py",),
    "learning/rater_models/likelihood.py": (LIKELIHOOD, LOSS),
    "learning/rater_models/low_rank.py": (
        f"{MATRICES}?low_rank|low rank|rank_one|mean|column",
        f"{PAPERS}?low_rank|product",
        f"{LOSS}?low rank",
    ),
    "learning/rater_models/models.py": (
        f"{LOSS}?warm_up|held_out|gradients",
        MATRICES,
        PAPERS,
        METHODS,
    ),
    "learning/rater_models/start.py": (PAPERS, f"{LOSS}?global|pixel", f"{MATRICES}?start|near"),
    "learning/methods": (LOSS, METHODS, PAPERS),
    "learning/methods/base.py": (
        METHODS,
        "tests/learning/prediction/test_samples.py",
        f"{LOSS}?held_out|would_say|targets",
    ),
    "learning/methods/confusion_method.py": (
        LOSS,
        METHODS,
        PAPERS,
        "tests/learning/training/test_extend.py?joined|extend",
    ),
    **{
        f"learning/methods/{name}.py": ("tests/learning/methods/test_crowd_methods.py",)
        for name in ("agg_net", "counting", "crowd_layer", "max_mig", "wdn")
    },
    **{
        f"learning/methods/{name}.py": ("tests/learning/methods/test_weak_methods.py",)
        for name in ("box_sup", "cycle_mix", "region_method", "scribble_sup")
    },
    "learning/methods/phases.py": (
        f"{METHODS}?schedule",
        "tests/learning/methods/test_method_protocol.py?Test",
    ),  # not those of killed processes
    "learning/methods/bootstrap.py": ("tests/learning/methods/test_bootstrap.py",),
    "learning/methods/em.py": ("tests/learning/methods/test_em.py?TestSteps|TestRounds|paper_s",),
    "learning/methods/global_cm.py": (f"{LOSS}?global|single|oracle", METHODS, PAPERS),
    "learning/methods/coarse.py": ("tests/learning/methods/test_coarse.py",),
    "learning/methods/diag.py": ("tests/learning/methods/test_diag.py",),
    "learning/methods/mrnet.py": ("tests/learning/methods/test_mrnet.py",),
    **{
        f"learning/methods/{name}.py": ("tests/learning/methods/test_prism.py",)
        for name in ("prism", "prism_confidence", "prism_losses")
    },
    "learning/methods/options.py": (METHODS, TABLES, PAPERS),
    "learning/methods/pixel_cm.py": (f"{LOSS}?pixel|low rank", METHODS, PAPERS),
    "learning/methods/registry.py": (METHODS, TABLES, PAPERS),
    "learning/methods/separate.py": (f"{LOSS}?separate", METHODS),
    "learning/methods/supervised.py": (f"{LOSS}?targets", METHODS),
    "learning/methods/targets.py": (METHODS, f"{LOSS}?held_out|would_say|targets"),
    **{f"learning/methods/{name}.py": (DRAWS,) for name in _DRAWING},
}


@dataclass(frozen=True)
class Mutant:
    """One mistake.

    Attributes:
        path: The file, from `src/raters`.
        place: The position of the node in a walk over the tree.
        kind: What is done to it; a node may be changed in several ways.
        line: The line.
        before: The code.
        after: The code with the mistake.
    """

    path: str
    place: int
    kind: int
    line: int
    before: str
    after: str

    @property
    def key(self) -> str:
        """A name that stays the same while the file does."""
        digest = hashlib.sha1((SOURCE / self.path).read_bytes()).hexdigest()[:8]
        return f"{self.path}@{digest}:{self.line}:{self.place}.{self.kind}"

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.before}  ->  {self.after}"


# Making mistakes

_COMPARE = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_BINARY = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.Mod: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
}


def mistakes(node: ast.AST) -> list[ast.AST]:
    """Return what may be put in place of a node."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _COMPARE:
        other = _with(node, ops=[_COMPARE[type(node.ops[0])](), *node.ops[1:]])
        return [other]
    if isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in _BINARY:
        return [_with(node, op=_BINARY[type(node.op)]())]
    if isinstance(node, ast.BoolOp):
        return [_with(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())]
    if isinstance(node, ast.UnaryOp):
        return [node.operand]
    if isinstance(node, ast.Constant):
        return _other_constants(node)
    if isinstance(node, ast.If | ast.IfExp | ast.While) and not _negated(node.test):
        return [_with(node, test=ast.UnaryOp(ast.Not(), node.test))]
    if isinstance(node, ast.comprehension) and node.ifs:
        return [_with(node, ifs=[])]
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        return [ast.Pass()]
    if isinstance(node, ast.Raise):
        return [ast.Pass()]
    return _other_calls(node) if isinstance(node, ast.Call) else []


def _negated(test: ast.AST) -> bool:
    """Whether the condition itself has the mistake that turns it round."""
    even = (ast.Eq, ast.NotEq, ast.Is, ast.IsNot, ast.In, ast.NotIn)
    compared = isinstance(test, ast.Compare) and isinstance(test.ops[0], even)
    return compared or (isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not))


def _other_constants(node: ast.Constant) -> list[ast.AST]:
    if isinstance(node.value, bool):
        return [ast.Constant(not node.value)]
    if isinstance(node.value, int):
        return [ast.Constant(node.value + 1)]
    if isinstance(node.value, float):
        return [ast.Constant(2 * node.value + 0.1)]
    return []


def _other_calls(node: ast.Call) -> list[ast.AST]:
    """Leave out a keyword, or a method that a value goes through (`x.exp()` becomes `x`)."""
    found: list[ast.AST] = [
        _with(node, keywords=[k for k in node.keywords if k is not keyword])
        for keyword in node.keywords
        if keyword.arg not in (None, "strict") and not _text(keyword.value)
    ]
    value = node.func.value if isinstance(node.func, ast.Attribute) else None
    through = isinstance(value, ast.Call | ast.Subscript | ast.BinOp | ast.Compare)
    if isinstance(value, ast.Name) and value.id not in ("self", *_MODULES):
        through = True
    return [*found, value] if through and value is not None else found


_MODULES = ("torch", "np", "nn", "math", "dist", "matrices", "F", "o", "ctx", "pd")


def _text(node: ast.AST) -> bool:
    """Whether a node is a sentence for people."""
    if isinstance(node, ast.JoinedStr):
        return True
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value


def _with(node: ast.AST, **fields: object) -> ast.AST:
    other = copy.copy(node)
    for name, value in fields.items():
        setattr(other, name, value)
    return other


_TYPES = {"annotation", "returns", "decorator_list", "bases"}


def places(tree: ast.AST) -> Iterator[tuple[int, ast.AST, str, int]]:
    """Walk over the nodes that may be changed: position, parent, field, and index in a list."""
    for place, (parent, name, index, node) in enumerate(_walk(tree)):
        if mistakes(node):
            yield place, parent, name, index


def _walk(parent: ast.AST) -> Iterator[tuple[ast.AST, str, int, ast.AST]]:
    for name, value in ast.iter_fields(parent):
        if name in _TYPES:
            continue
        for index, node in enumerate(value if isinstance(value, list) else [value]):
            if isinstance(node, ast.AST) and not _spared(parent, node):
                yield parent, name, index, node
                if not isinstance(node, ast.Raise):  # its text is for people
                    yield from _walk(node)


def _spared(parent: ast.AST, node: ast.AST) -> bool:
    """Whether a node is a docstring, a type, an assertion or a list of names."""
    if isinstance(node, ast.Assert | ast.Import | ast.ImportFrom):
        return True
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id == "__all__" or isinstance(node.value, ast.Subscript)
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return True
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return True
    if isinstance(parent, ast.Subscript) and ast.unparse(parent.value) in ("Literal", "tuple"):
        return True
    cast = isinstance(parent, ast.Call) and ast.unparse(parent.func) in ("cast", "TypeVar")
    return cast and node is not parent.args[-1]  # type: ignore[attr-defined]


def _changed(tree: ast.AST, place: int, kind: int) -> tuple[ast.AST, ast.AST]:
    """Make a mistake in a tree; return the node before and after."""
    for found, parent, name, index in places(tree):
        if found == place:
            value = getattr(parent, name)
            node = value[index] if isinstance(value, list) else value
            other = mistakes(node)[kind]
            ast.copy_location(other, node)
            if isinstance(value, list):
                value[index] = other
            else:
                setattr(parent, name, other)
            ast.fix_missing_locations(tree)
            return node, other
    raise LookupError(place)


def every_mutant(path: Path) -> list[Mutant]:
    """List the mistakes that can be made in a file."""
    tree = ast.parse(path.read_text())
    found = []
    for place, parent, name, index in places(tree):
        value = getattr(parent, name)
        node = value[index] if isinstance(value, list) else value
        before = _short(node)
        for kind, other in enumerate(mistakes(node)):
            line = getattr(node, "lineno", getattr(parent, "lineno", 0))
            where = str(path.relative_to(SOURCE))
            found.append(Mutant(where, place, kind, line, before, _short(other)))
    return found


def _short(node: ast.AST) -> str:
    if isinstance(node, ast.If | ast.While):
        return f"if {ast.unparse(node.test)}"
    return ast.unparse(node).replace("\n", " ")[:90]


def sample(number: int, seed: int) -> list[Mutant]:
    """Draw mistakes from all that can be made."""
    every: list[Mutant] = []
    for package in PACKAGES:
        for path in _files(package):
            every += every_mutant(path)
    return random.Random(seed).sample(every, min(number, len(every)))


def _files(package: str) -> list[Path]:
    return sorted(path for path in (SOURCE / package).glob("*.py") if path.name != "__init__.py")


# Trying them


def tests_of(path: str) -> list[str]:
    """Return the tests of a file, its own doctests first."""
    package = path.rpartition("/")[0]
    return [f"src/raters/{path}", *TESTS.get(path, TESTS[package])]


def _every_test() -> list[str]:
    return sorted({test.split("?")[0] for tests in TESTS.values() for test in tests})


def _sources() -> list[str]:
    return [f"src/raters/{package}" for package in PACKAGES]


def preload() -> None:
    """Import all tests and what they need, before anything is forked."""
    import pytest

    with contextlib.redirect_stdout(io.StringIO()) as said:
        failed = pytest.main([*_QUIET, "--collect-only", *_every_test(), *_sources()])
    if failed:
        print(said.getvalue())
        raise SystemExit("found tests that cannot be imported, expected all to be")


# Compiling takes long, and trainings are too slow to try each mistake on.
_SLOW = "not torch_compile and not are_found and not train_and and not small_study"
_QUIET = ("-k", _SLOW, "-q", "-x", "--no-header", "-p", "no:xdist", "-p", "no:randomly")


def run(tests: Sequence[str], mutant: Mutant | None, limit: float) -> tuple[str, float, str]:
    """Run tests in a fork: 'survived', 'killed' or 'timeout', processor time, and who killed."""
    notes_read, notes_write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(notes_read)
        _in_child(tests, mutant, limit, notes_write)
    os.close(notes_write)
    try:
        _, status, usage = os.wait4(child, 0)
    finally:  # also what tests started and left behind, and all of it after Ctrl-C
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
    os.set_blocking(notes_read, False)
    with os.fdopen(notes_read, "rb") as notes:
        note = (notes.read() or b"").decode(errors="replace")
    seconds = usage.ru_utime + usage.ru_stime
    if os.WIFSIGNALED(status):
        timed = os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGALRM, signal.SIGKILL)
        return ("timeout" if timed else "killed"), seconds, note
    return ("survived" if os.WEXITSTATUS(status) == 0 else "killed"), seconds, note


def _in_child(tests: Sequence[str], mutant: Mutant | None, limit: float, notes: int) -> None:
    """Make the mistake, run the tests, and end the process."""
    os.setpgid(0, 0)
    resource.setrlimit(resource.RLIMIT_CPU, (int(limit) + 1, int(limit) + 5))
    signal.alarm(int(20 * limit) + 60)  # something that waits for ever
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    code = 1
    try:
        if mutant is not None:
            _put_in(mutant)
        import pytest

        paths = [test.split("?")[0] for test in tests]
        code = int(pytest.main([*_QUIET, *paths], plugins=[_Plugin(tests, notes)]))
    except BaseException as error:  # a mistake may do anything
        os.write(notes, repr(error).encode()[:200])
    finally:
        os._exit(code)


class _Plugin:
    """Keeps the tests that are asked for, and notes the one that fails."""

    def __init__(self, tests: Sequence[str], notes: int) -> None:
        asked = (test.split("?") for test in tests if "?" in test)
        self.words = {path: words.split("|") for path, words in asked}
        self.notes = notes

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items[:] = [item for item in items if self._wanted(item.nodeid)]

    def _wanted(self, name: str) -> bool:
        path, _, test = name.partition("::")
        return any(word in test for word in self.words.get(path, [""]))

    def pytest_runtest_logreport(self, report: Any) -> None:  # noqa: ANN401
        if report.failed:
            os.write(self.notes, report.nodeid.encode()[-200:])


def _put_in(mutant: Mutant) -> None:
    """Put the code with the mistake into the functions of this process, or import it anew."""
    path = SOURCE / mutant.path
    whole = ast.parse(path.read_text())
    _changed(whole, mutant.place, mutant.kind)
    old = _functions(compile(path.read_text(), str(path), "exec"))
    new = compile(whole, str(path), "exec")
    other = {name: code for name, code in _functions(new).items() if code != old.get(name)}
    same_outside = _stripped(new) == _stripped(compile(path.read_text(), str(path), "exec"))
    if other and same_outside and all(_replace(str(path), n, code) for n, code in other.items()):
        return
    _import_anew(mutant, new)


def _functions(code: CodeType) -> dict[tuple[str, int], CodeType]:
    """Find the outermost functions of a module's code, those of classes too."""
    found = {}
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            if inner.co_flags & 0x2:  # CO_NEWLOCALS: a function, not a class
                found[inner.co_qualname, inner.co_firstlineno] = inner
            else:
                found |= _functions(inner)
    return found


def _stripped(code: CodeType) -> tuple[Any, ...]:
    """Return what a module or class does apart from the code of its functions."""
    inner = [
        _stripped(c) if not c.co_flags & 0x2 else c.co_qualname
        for c in code.co_consts
        if isinstance(c, CodeType)
    ]
    plain = [repr(c) for c in code.co_consts if not isinstance(c, CodeType)]
    return (code.co_code, code.co_names, tuple(plain), tuple(inner))


def _replace(path: str, name: tuple[str, int], code: CodeType) -> bool:
    """Return all functions of a name other code; say whether that was possible."""
    functions = [
        thing
        for thing in gc.get_objects()
        if type(thing) is FunctionType
        and thing.__code__.co_filename == path
        and (thing.__code__.co_qualname, thing.__code__.co_firstlineno) == name
    ]
    if any(function.__code__.co_freevars != code.co_freevars for function in functions):
        return False
    for function in functions:
        function.__code__ = code
    return bool(functions)


class _Mistaken(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module with a mistake."""

    def __init__(self, name: str, path: Path, code: CodeType) -> None:
        self.name = name
        self.path = path
        self.code = code

    def find_spec(self, fullname: str, *_: object) -> ModuleSpec | None:
        if fullname != self.name:
            return None
        return importlib.util.spec_from_file_location(fullname, self.path, loader=self)

    def exec_module(self, module: ModuleType) -> None:
        exec(self.code, module.__dict__)


def _import_anew(mutant: Mutant, code: CodeType) -> None:
    """Forget `raters` and the tests, and import the module with its mistake."""
    name = "raters." + mutant.path.removesuffix(".py").replace("/", ".")
    for loaded in list(sys.modules):
        module = sys.modules[loaded]
        ours = loaded == "raters" or loaded.startswith("raters.")
        if ours or str(getattr(module, "__file__", "")).startswith(str(ROOT / "tests")):
            del sys.modules[loaded]
    sys.meta_path.insert(0, _Mistaken(name, SOURCE / mutant.path, code))
    importlib.import_module(name)  # at once: pytest would import the files of doctests by itself


# The whole


def main() -> None:
    """Try mistakes, and show the score and the survivors."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])  # type: ignore[union-attr]
    parser.add_argument("--number", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "mutants.jsonl")
    parser.add_argument("--again", action="store_true", help="try survivors once more")
    parser.add_argument("--hours", type=float, default=3.0, help="of processor time, at most")
    parser.add_argument("--list", action="store_true", help="show the mistakes only")
    given = parser.parse_args()
    chosen = sample(given.number, given.seed)
    if given.list:
        print(*sorted(map(str, chosen)), sep="\n")
        return
    given.out.parent.mkdir(parents=True, exist_ok=True)
    rows = _rows(given.out)
    done = [key for key, row in rows.items() if not (given.again and row["result"] == "survived")]
    waiting = [mutant for mutant in chosen if mutant.key not in done]
    with contextlib.suppress(KeyboardInterrupt):
        _try(waiting, rows, given.out, 3600 * given.hours)
    _show(chosen, rows)


def _rows(path: Path) -> dict[str, dict[str, Any]]:
    if not path.exists():
        return {}
    lines = path.read_text().splitlines()
    return {row["key"]: row for row in map(json.loads, lines)}  # the last of each counts


def _try(waiting: list[Mutant], rows: dict[str, Any], out: Path, most: float) -> None:
    if not waiting:
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.path.insert(0, str(SOURCE.parent))
    os.chdir(ROOT)
    preload()
    if "usual" not in rows:
        result, seconds, note = run([*_every_test(), *_sources()], None, 3600)
        if result != "survived":
            raise SystemExit(f"found that {note} fails without any mistake")
        _write(rows, {"key": "usual", "result": "usual", "seconds": seconds}, out)
    limit = 2 * rows["usual"]["seconds"]
    used = 0.0
    for number, mutant in enumerate(waiting, 1):
        result, seconds, note = run(tests_of(mutant.path), mutant, limit)
        used += seconds
        row = {"key": mutant.key, "result": result, "seconds": round(seconds, 1), "by": note}
        _write(rows, {**row, "mutant": str(mutant)}, out)
        print(f"{number}/{len(waiting)} {result:8} {seconds:5.1f} s  {mutant}", flush=True)
        if used > most:
            print(f"stopped after {used / 3600:.1f} hours of processor time")
            return


def _write(rows: dict[str, Any], row: dict[str, Any], out: Path) -> None:
    rows[row["key"]] = row
    with out.open("a") as file:
        file.write(json.dumps(row) + "\n")


def _show(chosen: list[Mutant], rows: dict[str, Any]) -> None:
    done = [m for m in chosen if m.key in rows]
    survivors = [m for m in done if rows[m.key]["result"] == "survived"]
    print(f"\n{len(done)} mistakes tried, {len(done) - len(survivors)} killed, survivors:")
    print(*sorted(map(str, survivors)), sep="\n")


if __name__ == "__main__":
    main()
