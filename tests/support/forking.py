"""Children of this process that do some work and end."""

import faulthandler
import gc
import os
import signal
import traceback
import warnings

HANG_SECONDS = 20
"""A child that takes longer is taken to hang. Its work takes milliseconds."""

STDERR = 2
"""The file descriptor. What is written to it is not lost when a child ends at once."""


def fork(work):
    """Run `work` in a child and return its process id.

    The child ends with status 0, with 1 after an error, or by a signal if it hangs; then it writes where.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn: there are threads
        child = os.fork()
    if child:
        return child
    try:
        gc.freeze()
        faulthandler.register(signal.SIGALRM, file=STDERR, chain=True)
        signal.alarm(HANG_SECONDS)
        work()
        os._exit(0)
    except BaseException:  # noqa: BLE001, the child must not return into its parent's work
        os.write(STDERR, traceback.format_exc().encode())
        os._exit(1)
