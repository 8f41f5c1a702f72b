# SPDX-License-Identifier: Apache-2.0
"""
Typed payloads: JSON becomes dataclasses, enums, datetimes and what they contain. Members that a class does not have are
ignored, so that producers can be updated first.
"""
from __future__ import annotations

import dataclasses
import enum
import types
import typing
import uuid
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Callable, Dict, List, Literal, Tuple, Type, TypeVar, Union

from .errors import PayloadError

T = TypeVar("T")
Decode = Callable[[Any, str], Any]
"""Takes a value and its path, for the message of an error."""

_UNION_KINDS = (Union, getattr(types, "UnionType", Union))
_NONE = type(None)


def decoder(kind: Type[T]) -> Callable[[Any], T]:
    """A function that turns JSON into this type, or raises PayloadError. TypeError: the type is not supported."""
    decode = _decoder_of(kind, {})
    return lambda value: typing.cast(T, decode(value, "payload"))


def _wrong(path: str, expected: str, value: Any) -> PayloadError:
    return PayloadError(f"{path} is {_name_of(value)}; expected: {expected}")


def _name_of(value: Any) -> str:
    return "null" if value is None else f"of the type {type(value).__name__}"


def _decoder_of(kind: Any, known: Dict[Any, Decode]) -> Decode:
    if kind is Any or kind is object:
        return lambda value, path: value
    if kind in known:
        return lambda value, path: known[kind](value, path)  # a class that contains itself
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin in _UNION_KINDS:
        return _union([(_decoder_of(arg, known), arg) for arg in args])
    if origin is Literal:
        return _literal(args)
    if origin in (list, tuple, set, frozenset) or kind in (list, tuple):
        return _sequence(origin or kind, args, known)
    if origin is dict or kind is dict:
        return _mapping(_decoder_of(args[1], known) if args else lambda value, path: value)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return _dataclass(kind, known)
    if isinstance(kind, type):
        return _plain(kind)
    raise TypeError(f"{kind!r} is not a type that payloads can have")


def _union(options: List[Tuple[Decode, Any]]) -> Decode:
    expected = " or ".join("null" if kind is _NONE else getattr(kind, "__name__", str(kind)) for _, kind in options)

    def decode(value: Any, path: str) -> Any:
        errors: List[PayloadError] = []
        for option, kind in options:
            if type(value) is kind:
                return value
        for option, kind in options:
            try:
                return option(value, path)
            except PayloadError as error:
                errors.extend([error] if kind is not _NONE else [])
        # The only other type says best what is wrong.
        raise errors[0] if len(errors) == 1 else _wrong(path, expected, value)

    return decode


def _literal(allowed: Tuple[Any, ...]) -> Decode:
    def decode(value: Any, path: str) -> Any:
        if any(value == one and type(value) is type(one) for one in allowed):
            return value
        raise PayloadError(f"{path} is {value!r}; expected: {' or '.join(map(repr, allowed))}")

    return decode


def _sequence(kind: Any, args: Tuple[Any, ...], known: Dict[Any, Decode]) -> Decode:
    if kind is tuple and args and args[-1] is not Ellipsis:
        return _fixed([_decoder_of(arg, known) for arg in args])
    item = _decoder_of(args[0], known) if args else _decoder_of(Any, known)

    def decode(value: Any, path: str) -> Any:
        if not isinstance(value, list):
            raise _wrong(path, "a list", value)
        return kind(item(one, f"{path}[{index}]") for index, one in enumerate(value))

    return decode


def _fixed(items: List[Decode]) -> Decode:
    def decode(value: Any, path: str) -> Any:
        if not isinstance(value, list) or len(value) != len(items):
            raise _wrong(path, f"a list of {len(items)}", value)
        return tuple(item(one, f"{path}[{index}]") for index, (item, one) in enumerate(zip(items, value)))

    return decode


def _mapping(item: Decode) -> Decode:
    def decode(value: Any, path: str) -> Any:
        if not isinstance(value, dict):
            raise _wrong(path, "an object", value)
        return {name: item(one, f"{path}.{name}") for name, one in value.items()}

    return decode


def _dataclass(kind: Any, known: Dict[Any, Decode]) -> Decode:
    known[kind] = lambda value, path: value  # while its members are read
    hints = typing.get_type_hints(kind)
    fields = [(field, _decoder_of(hints[field.name], known)) for field in dataclasses.fields(kind) if field.init]

    def decode(value: Any, path: str) -> Any:
        if not isinstance(value, dict):
            raise _wrong(path, f"an object ({kind.__name__})", value)
        members: Dict[str, Any] = {}
        for field, item in fields:
            if field.name in value:
                members[field.name] = item(value[field.name], f"{path}.{field.name}")
            elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
                raise PayloadError(f"{path}.{field.name} is missing")
        try:
            return kind(**members)
        except (TypeError, ValueError) as error:  # its __post_init__
            raise PayloadError(f"{path}: {error}") from error

    known[kind] = decode
    return decode


def _plain(kind: type) -> Decode:
    convert: Any = {float: float, Decimal: lambda value: Decimal(str(value)), uuid.UUID: uuid.UUID, date: date.fromisoformat,
                    datetime: lambda text: datetime.fromisoformat(text.replace("Z", "+00:00"))}.get(kind)
    given: Any = {float: (int, float), Decimal: (int, float, str, Decimal)}.get(kind, (str,))
    if issubclass(kind, enum.Enum):
        convert, given = kind, (str, int, float)

    def decode(value: Any, path: str) -> Any:
        if type(value) is kind or (convert is None and isinstance(value, kind) and not isinstance(value, bool)):
            return value
        if convert is None or not isinstance(value, given) or isinstance(value, bool):
            raise _wrong(path, kind.__name__, value)
        try:
            return convert(value)
        except (ValueError, ArithmeticError) as error:
            raise PayloadError(f"{path}: {error}") from error

    return decode
