"""Runs the notebooks, keeps what they show, and writes each as a page of the site.

`python docs/make_notebooks.py [NAME ...]` runs the code cells of `notebooks/NAME.ipynb` (of all, by
default) one after another in an empty folder, without a kernel. Pages are Markdown with the code in
blocks, so that the test of all pages runs it; another test compares pages and notebooks.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

NOTEBOOKS = Path(__file__).parent / "notebooks"
DPI = 80
"""Of pictures: they are to be small."""


def run(notebook: dict[str, Any]) -> None:
    """Run all code cells in one namespace and put what they show into the notebook."""
    names: dict[str, Any] = {"__name__": "__main__"}
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for number, cell in enumerate(cells, start=1):
        cell["execution_count"] = number
        cell["outputs"] = _outputs("".join(cell["source"]), names, number)


def _outputs(source: str, names: dict[str, Any], number: int) -> list[dict[str, Any]]:
    """Run a cell; its last line is shown if it is an expression."""
    body = ast.parse(source).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    value = None
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(ast.Module(body, []), "cell", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    found: list[dict[str, Any]] = []
    if printed.getvalue():
        text = _lines(printed.getvalue())
        found.append({"output_type": "stream", "name": "stdout", "text": text})
    if value is not None:
        about = {"output_type": "execute_result", "execution_count": number, "metadata": {}}
        found.append({**about, "data": _shown(value)})
    return found


def _shown(value: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return what a notebook shows of a value: text, and HTML or a picture."""
    shown: dict[str, Any] = {"text/plain": _lines(repr(value))}
    if hasattr(value, "savefig"):
        file = io.BytesIO()
        value.savefig(file, dpi=DPI, facecolor="white", metadata={"Software": None})
        shown["image/png"] = base64.b64encode(file.getvalue()).decode()
    elif hasattr(value, "_repr_html_"):
        shown["text/html"] = _lines(value._repr_html_())
    return shown


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def rendered(path: Path) -> dict[Path, bytes]:
    """Return the page of a notebook as it is, and its pictures, by their files."""
    files: dict[Path, bytes] = {}
    parts = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(text)
            continue
        parts.append(f"```python\n{text}\n```")
        for output in cell["outputs"]:
            data = output.get("data", {})
            if "image/png" in data:
                picture = path.with_name(f"{path.stem}-{len(files) + 1}.png")
                files[picture] = base64.b64decode(data["image/png"])
                parts.append(f"![What the code above draws]({picture.name})")
            else:
                said = "".join(output.get("text") or data["text/plain"]).rstrip()
                parts.append(f"```text\n{said}\n```")
    made = f"This page is a [notebook]({path.name}) that was run: get it and change it."
    title, *rest = parts
    page = "\n\n".join([title, made, *rest]) + "\n"
    return {path.with_suffix(".md"): page.encode(), **files}


def main(names: list[str]) -> None:
    """Run notebooks and write them, their pages and their pictures."""
    paths = [NOTEBOOKS / f"{name}.ipynb" for name in names]
    if not names:
        paths = sorted(NOTEBOOKS.glob("*.ipynb"))
    for path in paths:
        notebook = json.loads(path.read_text(encoding="utf-8"))
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            run(notebook)
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        for old in NOTEBOOKS.glob(f"{path.stem}-*.png"):
            old.unlink()
        for file, content in rendered(path).items():
            file.write_bytes(content)


if __name__ == "__main__":
    main(sys.argv[1:])
