"""What all tests start from: one thread per process, and a Ctrl-C that is heard."""

import contextlib
import os
import signal

# Tensors are tiny here, and threads that wait for each other take far longer.
for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

# What a shell starts in the background ignores SIGINT, and so would the processes of the tests.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    with contextlib.suppress(ValueError):  # not in the main thread
        signal.signal(signal.SIGINT, signal.default_int_handler)

# These register methods when they are imported; the tests that want them do that.
collect_ignore = ["tests/toy_methods.py", "tests/wawa.py"]
