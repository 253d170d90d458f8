"""Command lines in processes that can be interrupted and killed.

They are forked from a server that has imported everything: importing torch would take most of a test's time.
"""

import multiprocessing
import os
import signal
import sys
import time

import pytest

from gradwalk import cli

if "forkserver" not in multiprocessing.get_all_start_methods():
    pytest.skip("processes are forked here, which this system cannot do", allow_module_level=True)

processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(["gradwalk.cli.sweep", "gradwalk.cli.train", "gradwalk.sweep.session"])


def started(words, log=os.devnull, before=None, *arguments):
    """Return a process that runs a command line, with stderr in a log file, after calling `before(*arguments)`."""
    process = processes.Process(target=_run, args=([str(word) for word in words], log, before, arguments))
    process.start()
    return process


def write_at_once():
    """Let epochs be in the store as soon as they have ended, for tests that wait for the first; pass as `before`."""
    from gradwalk.sweep import writer

    writer._EVERY = 0.0


def interrupt_after_epoch(number, others=0, hold=None):
    """Send Ctrl-C to this process in the middle of a run; pass as `before`.

    It comes when that epoch has been recorded and as many other runs have ended, once the file `hold` is gone, which is
    waited for no longer than a minute.
    """
    from gradwalk.sweep import record

    epoch_ended = record.Recorder.epoch_ended

    def interrupted(self, identity, epoch):
        epoch_ended(self, identity, epoch)
        if epoch.epoch == number and self.progress.ended >= others:
            late = time.monotonic() + 60
            while hold is not None and hold.exists() and time.monotonic() < late:
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGINT)

    record.Recorder.epoch_ended = interrupted


def ended(process, seconds=30):
    """Return the exit code of a process that is about to end; one that does not is killed."""
    process.join(seconds)
    exitcode = process.exitcode
    process.kill()
    return exitcode


def _run(words, log, before, arguments):
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # which nohup ignores, and gradwalk then too
    os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT), sys.stderr.fileno())
    if before is not None:
        before(*arguments)
    cli.main(words)
