"""Speech as frames: audio in SPHERE or RIFF files, log-mel or MFCC features of 25 ms windows every 10 ms."""

import io
import struct

import numpy as np
from numpy.typing import NDArray

from gradwalk.data.examples import Frames, Labels

FEATURES = ("log-mel", "mfcc")
RATE = 16_000  # samples per second
WINDOW = 400  # samples: 25 ms
SHIFT = 160  # samples: 10 ms
BANDS = 40  # log-mel features
CEPSTRA = 13  # MFCC features, the energy first
_SLOPE_FRAMES = 5  # over which a delta is computed
_UNKNOWN = 0x7FFFF000  # a RIFF size from here on means that its writer did not know it, as with a stream

_SAMPLES_PER_BYTE = 16  # of the densest coding that a RIFF file may have, with room to spare

Samples = NDArray[np.int16]


def samples(content: bytes, origin: str) -> Samples:
    """Return the 16-bit samples of an utterance; the format is detected from the content, not from the file's name."""
    import soundfile  # type: ignore[import-untyped]

    if content.startswith(b"NIST_1A"):
        _check_sphere(content, origin)
    elif content.startswith(b"RIFF"):
        _check_riff(content, origin)
    else:
        raise ValueError(f"data: {origin} must be SPHERE or RIFF audio, got the first bytes {content[:8]!r}")
    try:
        with soundfile.SoundFile(io.BytesIO(content)) as file:
            _check_claim(file.frames * file.channels, len(content), origin)
            values, rate = file.read(dtype="int16"), file.samplerate
    except (soundfile.LibsndfileError, RuntimeError) as error:
        raise ValueError(f"data: {origin} cannot be read as audio ({error})") from None
    if rate != RATE or values.ndim != 1:
        channels = 1 if values.ndim == 1 else values.shape[1]
        raise ValueError(f"data: {origin} must have {RATE} samples per second in 1 channel, got {rate} in {channels}")
    if len(values) < WINDOW:
        raise ValueError(f"data: {origin} must last at least 25 ms, got {len(values)} samples")
    return np.asarray(values, np.int16)


def features(values: Samples, kind: str) -> Frames:
    """Return the frames of an utterance with their delta and delta-delta: (frames, 120) for log-mel, 39 for MFCC.

    Frames lie entirely within the utterance. There is no dither, so that the same samples give the same numbers. A
    delta is the slope of the least-squares line through 5 frames, with the edge frames repeated: HTK's regression with
    a window of 2.
    """
    static = _static(values, kind)
    delta = _slope(static)
    return np.hstack([static, delta, _slope(delta)])


def centres(count: int) -> Labels:
    """Return the index of the sample at the centre of each of `count` frames: 200, 360, 520, ..."""
    return np.arange(count, dtype=np.int64) * SHIFT + WINDOW // 2


def _slope(frames: Frames) -> Frames:
    from scipy.signal import savgol_filter

    return savgol_filter(frames, _SLOPE_FRAMES, polyorder=1, deriv=1, axis=0, mode="nearest")


def _static(values: Samples, kind: str) -> Frames:
    import kaldi_native_fbank as kaldi  # type: ignore[import-untyped]

    options = kaldi.MfccOptions() if kind == "mfcc" else kaldi.FbankOptions()
    options.frame_opts.dither = 0.0
    options.frame_opts.samp_freq = RATE
    options.frame_opts.snip_edges = True
    if kind == "mfcc":
        options.num_ceps = CEPSTRA
    else:
        options.mel_opts.num_bins = BANDS
    computer = kaldi.OnlineMfcc(options) if kind == "mfcc" else kaldi.OnlineFbank(options)
    computer.accept_waveform(RATE, values.astype(np.float32))  # not scaled to 1: Kaldi expects the range of 16 bits
    computer.input_finished()
    return np.stack([computer.get_frame(index) for index in range(computer.num_frames_ready)])


def _check_sphere(content: bytes, origin: str) -> None:
    """Raise if a SPHERE file is compressed or truncated, which libsndfile does not report."""
    size = int(content[8:16]) if content[8:16].strip().isdigit() else 1024
    fields = {name: value.strip() for name, _, value in (line.split(None, 2) for line in _lines(content[16:size]))}
    if b"shorten" in fields.get(b"sample_coding", b"").lower():
        raise ValueError(f"data: {origin} is compressed with shorten; convert it first, as `sph2pipe -f wav` does")
    numbers = [fields.get(name, b"") for name in (b"sample_count", b"sample_n_bytes")]
    if all(number.isdigit() and len(number) < 20 for number in numbers):
        _check_length(len(content) - size, int(numbers[0]) * int(numbers[1]), origin)


def _check_riff(content: bytes, origin: str) -> None:
    (size,) = struct.unpack("<I", content[4:8].rjust(4, b"\0"))
    if size < _UNKNOWN:
        _check_length(len(content) - 8, size, origin)


def _check_claim(samples: int, size: int, origin: str) -> None:
    """Raise before memory is taken for more samples than a file of that many bytes can hold."""
    if samples > _SAMPLES_PER_BYTE * size:
        raise ValueError(f"data: {origin} claims {samples:,} samples in {size:,} bytes, which cannot be")


def _check_length(size: int, expected: int, origin: str) -> None:
    if size < expected:
        raise ValueError(f"data: {origin} is truncated: it has {size:,} of {expected:,} bytes")


def _lines(header: bytes) -> list[bytes]:
    """Return the lines `name -type value` of a SPHERE header."""
    return [line for line in header.splitlines() if len(line.split(None, 2)) == 3]
