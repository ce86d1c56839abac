"""Models for use without raters: ONNX, torch programs and MONAI bundles."""

from raters.learning.export.run import FORMATS, Exported, Format, export

__all__ = ["FORMATS", "Exported", "Format", "export"]
