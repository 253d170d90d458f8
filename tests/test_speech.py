"""Transcriptions and recordings of speech become labels and frames."""

import re

import numpy as np
import pytest
from helpers.toy_speech import riff, sphere, voice

from gradwalk.data import audio, phones
from gradwalk.data.phones import NONE, Segment

# Phones


def test_the_foldings_have_61_48_and_39_phones() -> None:
    assert [len(phones.names(count)) for count in (61, 48, 39)] == [61, 48, 39]
    assert phones.names(61) == phones.PHONES == tuple(sorted(phones.PHONES))


def test_the_39_are_the_groups_of_lee_and_hon() -> None:
    groups: dict[str | None, set[str]] = {}
    for phone in phones.PHONES:
        groups.setdefault(phones.fold(phone, 39), set()).add(phone)
    expected = (
        {"aa", "ao"},
        {"ah", "ax", "ax-h"},
        {"er", "axr"},
        {"hh", "hv"},
        {"ih", "ix"},
        {"l", "el"},
        {"m", "em"},
        {"n", "en", "nx"},
        {"ng", "eng"},
        {"sh", "zh"},
        {"uw", "ux"},
        {"bcl", "dcl", "gcl", "pcl", "tcl", "kcl", "h#", "pau", "epi"},
    )
    assert {frozenset(group) for group in groups.values() if len(group) > 1} == {frozenset(each) for each in expected}
    assert groups[None] == {"q"}


def test_the_48_keep_apart_what_lee_and_hon_keep_apart_in_training() -> None:
    groups: dict[str | None, set[str]] = {}
    for phone in phones.PHONES:
        groups.setdefault(phones.fold(phone, 48), set()).add(phone)
    assert groups["cl"] == {"pcl", "tcl", "kcl"}
    assert groups["vcl"] == {"bcl", "dcl", "gcl"}
    assert groups["sil"] == {"h#", "pau"}
    assert groups["epi"] == {"epi"}
    assert {"ao", "ax", "ix", "el", "en", "zh"} <= groups.keys()
    assert groups[None] == {"q"}


def test_labels_fold_as_their_names_do() -> None:
    labels = np.array([*range(61), NONE])
    for count in phones.FOLDINGS:
        folded = phones.folded(labels, count)
        for phone, label in zip(phones.PHONES, folded[:-1], strict=True):
            assert (phones.names(count)[label] if label != NONE else None) == phones.fold(phone, count)
        assert folded[-1] == NONE


def test_a_frame_has_the_phone_at_its_centre() -> None:
    # centres: 200, 360, 520, 680, 840, 1000
    segments = phones.parse("100 360 h#\n360 521 SH\n\n521 680 iy\n700 1000 t\n", "sa1.phn")
    assert segments[1] == Segment(360, 521, "sh")
    labels = phones.at(segments, audio.centres(6))
    named = [None if label == NONE else phones.PHONES[label] for label in labels]
    assert named == ["h#", "sh", "sh", None, "t", None]  # 680 is in a gap, 1000 past the end
    assert phones.at([Segment(201, 300, "aa")], audio.centres(1)).tolist() == [NONE]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0 100 h#\n100 aa\n", "line 2 of sa1.phn must read `start end phone`, got '100 aa'"),
        ("0 x h#\n", "line 1 of sa1.phn must read `start end phone`, got '0 x h#'"),
        ("0 100 zz\n", "line 1 of sa1.phn must have one of the 61 phones, got 'zz'"),
        ("0 100 h#\n100 100 aa\n", "line 2 of sa1.phn must be in temporal order, got '100 100 aa'"),
        ("50 100 h#\n0 40 aa\n", "line 2 of sa1.phn must be in temporal order, got '0 40 aa'"),
        ("\n", "sa1.phn must have at least one segment, got none"),
    ],
)
def test_an_invalid_transcription_is_reported_with_its_line(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^data: {re.escape(message)}$"):
        phones.parse(text, "sa1.phn")


# Audio


@pytest.mark.parametrize("encode", [sphere, lambda values: sphere(values, "10"), riff])
def test_sphere_and_riff_give_the_samples_that_were_written(encode) -> None:
    values = voice(1, 1000)
    np.testing.assert_array_equal(audio.samples(encode(values), "sa1.wav"), values)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            sphere(voice(1, 900), coding="pcm,embedded-shorten-v2.00"),
            "sa1.wav is compressed with shorten; ",
        ),
        (sphere(voice(1, 900))[:-500], "sa1.wav is truncated: it has 1,300 of 1,800 bytes"),
        (riff(voice(1, 900))[:-500], "sa1.wav is truncated: "),
        (riff(voice(1, 900))[:20], "sa1.wav is truncated: "),
        (b"RIFF\x04\0\0\0WAVE", "sa1.wav cannot be read as audio ("),
        (b"NIST_1A\n   1024\n", "sa1.wav cannot be read as audio ("),
        (b"fLaC rest", "sa1.wav must be SPHERE or RIFF audio, got the first bytes b'fLaC res'"),
        (b"", "sa1.wav must be SPHERE or RIFF audio, got the first bytes b''"),
        (riff(voice(1, 900), 8000), "sa1.wav must have 16000 samples per second in 1 channel, got 8000 in 1"),
        (riff(voice(1, 900).reshape(-1, 2)), "sa1.wav must have 16000 samples per second in 1 channel, got 16000 in 2"),
        (sphere(voice(1, 399)), "sa1.wav must last at least 25 ms, got 399 samples"),
    ],
)
def test_unusable_audio_is_refused_in_one_sentence(content: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=f"^data: {re.escape(message)}"):
        audio.samples(content, "sa1.wav")


@pytest.mark.parametrize(("count", "frames"), [(400, 1), (559, 1), (560, 2), (16_000, 98)])
def test_frames_of_25_ms_lie_10_ms_apart_within_the_utterance(count: int, frames: int) -> None:
    assert audio.features(voice(1, count), "log-mel").shape == (frames, 120)
    assert audio.features(voice(1, count), "mfcc").shape == (frames, 39)
    assert audio.centres(frames)[-1] + 200 <= count


def test_a_frame_depends_only_on_its_own_25_ms() -> None:
    values = voice(1, 4000)
    before = audio.features(values, "log-mel")[:, :40]
    values[1600:1760] = 0
    changed = np.flatnonzero((audio.features(values, "log-mel")[:, :40] != before).any(axis=1))
    assert changed.tolist() == [8, 9, 10]  # frame i holds samples 160 i to 160 i + 399


def test_a_tone_is_loudest_in_the_band_of_its_pitch() -> None:
    time = np.arange(8000) / 16_000
    loudest = []
    for pitch in (300, 1000, 4000):
        tone = (8000 * np.sin(2 * np.pi * pitch * time)).astype(np.int16)
        loudest.append(int(audio.features(tone, "log-mel")[10, :40].argmax()))
    mel = 1127 * np.log1p(np.array([20, 8000, 300, 1000, 4000]) / 700)
    expected = (mel[2:] - mel[0]) / (mel[1] - mel[0]) * 41 - 1  # 40 triangles over 41 equal steps of mel
    np.testing.assert_allclose(loudest, expected, atol=0.75)


def test_deltas_are_the_regression_slope_over_five_frames() -> None:
    static, delta, second = np.split(audio.features(voice(2, 4000), "log-mel"), 3, axis=1)
    for values, slope in ((static, delta), (delta, second)):
        padded = np.pad(values, ((2, 2), (0, 0)), mode="edge")
        count = len(values)
        steps = [n * (padded[2 + n : 2 + n + count] - padded[2 - n : 2 - n + count]) for n in (1, 2)]
        np.testing.assert_allclose(slope, sum(steps) / 10, atol=1e-5)


def test_the_same_samples_give_the_same_numbers() -> None:
    for kind in audio.FEATURES:
        np.testing.assert_array_equal(*(audio.features(voice(2, 4000), kind) for _ in range(2)))
