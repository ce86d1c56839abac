"""Code that runs before a command, to see what the command imports."""

TORCH = ("torch", "monai", "lightning")
HEAVY = ("numpy", "pandas", "scipy", "nibabel", "SimpleITK", "pyarrow", "pydicom", "tifffile")

# Any attempt to import one of these ends the process, even one that is caught.
BLOCK = """
import os
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names}:
            os.write(2, f"imports {{name}}".encode())
            os._exit(99)
sys.meta_path.insert(0, Blocker())
import atexit
atexit.register(lambda: print("loaded", sorted({names} & sys.modules.keys()), file=sys.stderr))
"""

RUN_ALL = """
from raters.cli import main
first = sys.argv
for arguments in {commands}:
    sys.argv = ["raters", *arguments]
    try:
        main()
    except SystemExit as end:
        assert not end.code, (arguments, end.code)
sys.argv = first
"""
