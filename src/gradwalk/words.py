"""Times and quantities as short text."""


def duration(seconds: float) -> str:
    """Return a duration in its two largest units, rounded.

    >>> duration(0.25), duration(59.6), duration(252), duration(7300), duration(200000), duration(86399)
    ('0.2 s', '1 min 0 s', '4 min 12 s', '2 h 2 min', '2 d 8 h', '1 d 0 h')
    """
    if seconds < 10:
        return f"{seconds:.1f} s"
    for size, name, smaller, unit in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        count = round(seconds / smaller)
        if count * smaller >= size:
            return f"{count * smaller // size} {name} {count * smaller % size // smaller} {unit}"
    return f"{seconds:.0f} s"


def quantity(number: float, unit: str) -> str:
    """Return a number with a metric prefix.

    >>> quantity(2_520_000_000, "B"), quantity(4.0e15, "FLOP"), quantity(120, "B")
    ('2.5 GB', '4.0 PFLOP', '120 B')
    """
    for size, prefix in ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.1f} {prefix}{unit}"
    return f"{number:.0f} {unit}"
