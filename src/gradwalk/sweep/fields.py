"""The types that a setting or a column may have, read from its annotation."""

from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin


def value_types(annotation: Any) -> frozenset[type]:
    """Return the plain types of the values that an annotation allows.

    >>> sorted(kind.__name__ for kind in value_types(Annotated[float, "positive"] | None))
    ['NoneType', 'float']
    >>> value_types(Literal["train", "test"])
    frozenset({<class 'str'>})
    """
    origin = get_origin(annotation)
    if origin in (Union, UnionType):
        return frozenset().union(*map(value_types, get_args(annotation)))
    if origin is Annotated:
        return value_types(get_args(annotation)[0])
    if origin is Literal:
        return frozenset(type(value) for value in get_args(annotation))
    if annotation is None:
        return frozenset({NoneType})
    return frozenset({origin or annotation})
