"""One thread a test process: tensors are tiny here, and threads that wait take far longer."""

import os

for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
