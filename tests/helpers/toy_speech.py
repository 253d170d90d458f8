"""A very small TIMIT: noise with transcriptions, in several layouts, containers and audio formats."""

import io
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import soundfile

TRAIN, TEST = ("mcpm0", "faem0"), ("fvmh0", "madd0")  # speakers of the public sample; their names decide the split
SENTENCES = ("sa1", "si42")


def voice(seed: int, count: int) -> np.ndarray:
    """Return noise of 16 bits."""
    return (np.random.default_rng(seed).standard_normal(count) * 1000).astype(np.int16)


def riff(values: np.ndarray, rate: int = 16_000) -> bytes:
    """Return a RIFF file of these samples."""
    file = io.BytesIO()
    soundfile.write(file, values, rate, format="WAV", subtype="PCM_16")
    return file.getvalue()


def sphere(values: np.ndarray, order: str = "01", coding: str = "pcm", rate: int = 16_000) -> bytes:
    """Return a SPHERE file of these samples; order: "01" for little-endian, "10" for big-endian."""
    lines = [f"sample_count -i {len(values)}", f"sample_rate -i {rate}", "channel_count -i 1", "sample_n_bytes -i 2"]
    lines += [f"sample_byte_format -s2 {order}", "sample_sig_bits -i 16", f"sample_coding -s{len(coding)} {coding}"]
    header = "\n".join(["NIST_1A", "   1024", *lines, "end_head\n"]).encode()
    return header.ljust(1024, b" ") + values.astype("<i2" if order == "01" else ">i2").tobytes()


def transcript(count: int) -> str:
    """Return a transcription of silence, a vowel, a glottal stop and silence, up to the last sample."""
    edges = [0, 700, 1600, 2200, count]
    return "".join(f"{a} {b} {p}\n" for a, b, p in zip(edges, edges[1:], ("h#", "aa", "q", "h#"), strict=False))


def sample_files(encode=sphere, speakers=(*TRAIN, *TEST)) -> dict[str, bytes]:
    """Return a small corpus in the layout of the public sample, as paths with their contents."""
    files = {"README": b"not speech"}
    for place, speaker in enumerate(speakers):
        for sentence in SENTENCES:
            count, path = 4000 + 160 * place, f"dr{place + 1}-{speaker}/{sentence}"
            files[f"{path}.wav"] = encode(voice(place * 9 + len(sentence), count))
            files[f"{path}.phn"] = transcript(count).encode()
    return files


def ldc_files(encode=sphere) -> dict[str, bytes]:
    """Return the same recordings in the layout of LDC."""
    files = {}
    for path, content in sample_files(encode).items():
        folder, _, name = path.partition("/")
        dialect, _, speaker = folder.partition("-")
        part = "TEST" if speaker in TEST else "TRAIN"
        files[f"TIMIT/{part}/{dialect}/{speaker}/{name}".upper() if name else path] = content
    return files


def tape(path: Path, files: dict[str, bytes]) -> Path:
    """Write the files to a gzipped tar archive, in reverse order, and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as archive:
        for name, content in reversed(files.items()):
            member = tarfile.TarInfo(f"./{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def pack(path: Path, files: dict[str, bytes]) -> Path:
    """Write the files to a zip archive below a folder timit/, and return its path."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(f"timit/{name}", content)
    return path


def without(files: dict[str, bytes], *words: str) -> dict[str, bytes]:
    """Return the files whose paths have none of these words."""
    return {name: content for name, content in files.items() if not any(word in name for word in words)}
