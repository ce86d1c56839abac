"""Models for use without raters: ONNX, torch programs and MONAI bundles."""

from raters.export.formats import FORMATS, Format
from raters.export.run import Exported, export

__all__ = ["FORMATS", "Exported", "Format", "export"]
