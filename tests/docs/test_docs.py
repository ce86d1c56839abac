"""What the README and the docs say is true: blocks run, links lead somewhere, tables are fresh."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

from raters.cli import main
from raters.fusion.methods import METHODS as FUSION_METHODS
from raters.fusion.methods import _arguments
from raters.learning.methods.registry import METHODS as LEARNING_METHODS
from raters.simulation.phantoms import phantom_study
from raters.study.study import Study

if TYPE_CHECKING:
    from raters_bench.pages import Reader

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
FENCE = re.compile(r"^```(\w*)(?: title=\"([^\"]+)\")?\n(.*?)^```", re.MULTILINE | re.DOTALL)
DEMO = "raters demo --draw -o ."
NAMED_TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def code_blocks(page: Path) -> list[tuple[str, str, str]]:
    """Return language, file name (of code that is a file of its own) and text of what runs."""
    found = FENCE.findall(page.read_text(encoding="utf-8"))
    return [block for block in found if block[0] != "text"]


RUNNING = [page for page in PAGES if code_blocks(page)]


@pytest.fixture
def registries(tmp_path: Path) -> Iterator[None]:
    """Take out what a page has added to the registries, so that other tests do not find it."""
    fusion = dict(FUSION_METHODS)
    learning = dict(LEARNING_METHODS)
    yield
    for name in set(FUSION_METHODS) - set(fusion):
        del FUSION_METHODS[name]
    for name in set(LEARNING_METHODS) - set(learning):
        del LEARNING_METHODS[name]
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture(scope="session")
def demo_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Draw the demo's study once for all pages, with a quarter of its pixels: they need files."""
    folder = tmp_path_factory.mktemp("drawn")

    def smaller(kind: str, number: int, shape: tuple[int, ...], seed: int) -> Study:
        return phantom_study(kind, number, tuple(side // 2 for side in shape), seed)

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr("raters.demo.draw.phantom_study", smaller)
        patch.setattr("raters.simulation.calibrate._DRAWS", 100)
        run_command(DEMO, patch)
    return folder


def run_command(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    words = shlex.split(line, comments=True)
    assert words[0] == "raters", line
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code in (0, None), line


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::FutureWarning:lightning", "ignore::UserWarning:lightning")
@pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")
@pytest.mark.filterwarnings("ignore:NvImgCodecPydicomReader:UserWarning")  # MONAI, without it
@pytest.mark.usefixtures("registries", "small_figures")
@pytest.mark.parametrize("page", RUNNING, ids=name_of)
def test_blocks_run(
    page: Path, tmp_path: Path, demo_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("raters.simulation.calibrate._DRAWS", 100)  # of 1000: only time
    monkeypatch.syspath_prepend(tmp_path)  # as Python does with the folder of a script
    names: dict[str, object] = {}  # a page's blocks follow one another
    for language, file, text in code_blocks(page):
        assert language in ("bash", "python"), f"{page.name} has a block of {language!r}"
        if file:
            Path(file).write_text(text, encoding="utf-8")
        elif language == "python":
            exec(compile(text, name_of(page), "exec"), names)
        else:
            for line in text.strip().splitlines():
                if line == DEMO:
                    shutil.copytree(demo_folder, tmp_path, dirs_exist_ok=True)
                else:
                    run_command(line, monkeypatch)


def test_pages_are_found() -> None:
    """A slip in the expression above would leave nothing to run."""
    running = {name_of(page) for page in RUNNING}
    assert {"README.md", "docs/tutorials/crowd.md", "docs/methods/staple.md"} <= running
    for page in RUNNING:
        fences = len(re.findall(r"^```", page.read_text(encoding="utf-8"), re.MULTILINE))
        text_blocks = len(re.findall(r"^```text$", page.read_text(encoding="utf-8"), re.MULTILINE))
        assert fences == 2 * (len(code_blocks(page)) + text_blocks), page.name


def test_relative_links_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+?)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{name_of(page)} links to {target}"


def load_script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def make_tables() -> ModuleType:
    return load_script("make_tables")


@pytest.fixture(scope="module")
def committed() -> Reader:
    """Read the results of each benchmark once, for its page and its plot."""
    from raters_bench.pages import reader

    return reader(DOCS / "results")


@pytest.mark.slow
def test_tables_are_those_of_the_code(make_tables: ModuleType, committed: Reader) -> None:
    """All tables, quotes and pages of results are made again from code and results."""
    made = make_tables.pages(committed)
    for page, text in made.items():
        hint = f"{name_of(page)} is out of date: python docs/make_tables.py"
        assert page.read_text(encoding="utf-8") == text, hint
    assert {ROOT / "README.md", DOCS / "results/index.md", ROOT / "mkdocs.yml"} <= made.keys()
    assert {page for page in PAGES if page not in made} == set(), "pages of results that are gone"


@pytest.mark.parametrize("name", ["crowd", "masks"])
def test_notebooks_were_run_and_are_their_pages(name: str) -> None:
    """The page of a notebook is made of it, so that its code runs with that of all pages."""
    make_notebooks = load_script("make_notebooks")
    path = DOCS / "notebooks" / f"{name}.ipynb"
    made = make_notebooks.rendered(path)
    for file, content in made.items():
        hint = f"{name_of(file)} is out of date: python docs/make_notebooks.py"
        assert file.read_bytes() == content, hint
    assert path.with_suffix(".md") in RUNNING
    assert set(path.parent.glob(f"{name}-*.png")) == made.keys() - {path.with_suffix(".md")}
    assert max(file.stat().st_size for file in [path, *made]) < 500_000
    cells = [c for c in json.loads(path.read_text())["cells"] if c["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))


def test_notebooks_show_what_their_cells_give() -> None:
    source = ["x = 2\n", "print('one')\n", "x + 1"]
    code = {"cell_type": "code", "execution_count": None, "outputs": [], "source": source}
    notebook = {"cells": [{"cell_type": "markdown", "source": ["# Title"]}, code]}
    load_script("make_notebooks").run(notebook)
    assert code["execution_count"] == 1
    printed, value = code["outputs"]
    assert (printed["text"], value["data"]) == (["one\n"], {"text/plain": ["3"]})


@pytest.mark.slow
def test_plots_are_of_the_results(committed: Reader) -> None:
    """A plot says of which results it was drawn; a picture itself differs from font to font."""
    from raters_bench.pages import all_committed
    from raters_bench.plot import digest_of_plot, drawn_digest

    for name, found in all_committed(committed).items():
        path = DOCS / "results" / f"{name}.png"
        assert path.exists() == (found is not None), path
        if found is not None:
            hint = f"{name_of(path)} is out of date: python docs/make_tables.py"
            assert digest_of_plot(path) == drawn_digest(found), hint


def test_every_method_and_option_has_a_page(make_tables: ModuleType) -> None:
    pages = [*(DOCS / "methods").glob("*.md"), DOCS / "spatial-staple.md"]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    asked = {match[1] for match in make_tables.TABLE.finditer(text)}
    expected = {"methods"} | {f"learning {name}" for name in LEARNING_METHODS}
    for name, method in FUSION_METHODS.items():
        expected |= {f"fusion {name} masks"} if method.masks else set()
        expected |= {f"fusion {name} tables"} if method.table else set()
    assert asked == expected


def test_every_verb_is_in_the_reference(make_tables: ModuleType) -> None:
    text = (DOCS / "reference/cli.md").read_text(encoding="utf-8")
    sections = re.findall(r"^## raters (.+)$", text, re.MULTILINE)
    assert sections == list(make_tables.commands())
    for verb, command in make_tables.commands().items():
        section = text.split(f"## raters {verb}\n")[1].split("\n## ")[0]
        shared = text.split("## How a study is read\n")[1]
        for parameter in command.params:
            if parameter.param_type_name == "option" and parameter.name != "help":
                assert f"`{parameter.opts[0]}`" in section + shared, (verb, parameter.name)


def test_options_of_fusion_say_what_they_mean(make_tables: ModuleType) -> None:
    docstring = "Add.\n\nArgs:\n    a: One\n        more.\n    b: Two.\n\nReturns:\n    c"
    said = _arguments(docstring)
    assert said == {"a": "One more.", "b": "Two."}
    for match in make_tables.TABLE.finditer((DOCS / "methods/staple.md").read_text()):
        assert not re.search(r"\| *\|$", match[0], re.MULTILINE), "an option without a meaning"


def test_tests_that_are_named_exist() -> None:
    named = NAMED_TEST.findall((DOCS / "wrong.md").read_text(encoding="utf-8"))
    assert len(named) > 20
    for file, test in named:
        text = (ROOT / file).read_text(encoding="utf-8")
        assert re.search(rf"^ *def {test}\(", text, re.MULTILINE), f"{file} has no {test}"
    sections = re.findall(r"^### .*?(?=^##|\Z)", (DOCS / "wrong.md").read_text(), re.M | re.S)
    assert all(NAMED_TEST.search(section) for section in sections)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site strictly: broken links and unknown references are errors."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(folder)]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(
        command, cwd=ROOT, env=quiet, capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


@pytest.mark.slow
def test_the_site_fetches_nothing(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 30
    fetches = re.compile(
        r"<(?:script|img|iframe)[^>]+src=\"?(?:https?:)?//|"
        r"<link(?![^>]*rel=\"?canonical)[^>]+href=\"?(?:https?:)?//"
    )
    for page in pages:
        found = fetches.search(page.read_text(encoding="utf-8"))
        assert found is None, f"{page.name}: {found and found[0]}"


@pytest.mark.slow
def test_public_names_are_in_the_reference(site: Path) -> None:
    import raters

    text = "\n".join(p.read_text(encoding="utf-8") for p in (site / "reference").glob("*.html"))
    for name in set(raters.__all__) - {"__version__"}:
        assert f'id="raters.{name}"' in text, name
