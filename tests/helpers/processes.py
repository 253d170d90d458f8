"""Command lines in processes that can be interrupted and killed.

They are forked from a server that has imported everything: importing torch would take most of a test's time.
"""

import multiprocessing
import os
import sys

from gradwalk import cli

processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(
    ["gradwalk.cli.sweep", "gradwalk.cli.train", "gradwalk.sweep.session", "sklearn.datasets"]
)


def started(words, log=os.devnull, before=None, *arguments):
    """Return a process that runs a command line, with stderr in a log file, after calling `before(*arguments)`."""
    process = processes.Process(target=_run, args=([str(word) for word in words], log, before, arguments))
    process.start()
    return process


def _run(words, log, before, arguments):
    os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT), sys.stderr.fileno())
    if before is not None:
        before(*arguments)
    cli.main(words)
