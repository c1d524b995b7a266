"""Modules that run in copies of a process that has imported what most of them need: a new Python would import for seconds."""

import os
import runpy
import sys
import tempfile
import warnings
from contextlib import AbstractContextManager
from multiprocessing import get_context
from pathlib import Path

STDOUT, STDERR = 1, 2


class PreloadedModule(AbstractContextManager):
    """``python -m module arguments`` in such a copy, with the methods of a `subprocess.Popen` whose output goes to pipes."""

    def __init__(self, module, arguments):
        self._folder = tempfile.TemporaryDirectory()
        self._files = [Path(self._folder.name, name) for name in ("stdout", "stderr")]
        context = get_context("forkserver")
        context.set_forkserver_preload(["supquant_lab.cell"])
        work = module, arguments, self._files, dict(os.environ)
        self._process = context.Process(target=_run, args=work)
        self._process.start()
        self.pid = self._process.pid

    @property
    def returncode(self):
        return self._process.exitcode

    poll = returncode.fget

    def communicate(self):
        self._process.join()
        return tuple(file.read_text() for file in self._files)

    def kill(self):
        self._process.kill()

    def __exit__(self, *_):
        self._process.join()
        self._folder.cleanup()


def _run(module, arguments, files, environment):
    os.environ.clear()
    os.environ.update(environment)
    for descriptor, file in zip((STDOUT, STDERR), files, strict=True):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT), descriptor)
    sys.argv = [module, *arguments]
    warnings.simplefilter("ignore", RuntimeWarning)  # the module was imported before
    runpy.run_module(module, run_name="__main__", alter_sys=True)
