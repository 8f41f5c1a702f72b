# SPDX-License-Identifier: Apache-2.0
"""
JSON without loss. The server keeps payloads byte for byte; Python rounds numbers with a fraction and refuses integers with
thousands of digits. ``RawJson`` sends a text as it is written, and ``members`` finds the text of a member in a reply.
"""
from __future__ import annotations

import base64
import dataclasses
import enum
import json
import re
import secrets
import uuid
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

Numbers = Optional[Callable[[str], Any]]
"""How numbers with a fraction are read; None: as float."""


class RawJson:
    """
    JSON that is sent as it is written, at any depth of a payload or result. As a payload of a claimed job: JSON that Python
    cannot read.
    """

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        json.loads(text, parse_int=str, parse_float=str, parse_constant=_refuse)
        self.text = text

    @classmethod
    def unchecked(cls, text: str) -> RawJson:
        raw = cls.__new__(cls)
        raw.text = text
        return raw

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RawJson) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"RawJson({self.text!r})"


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _plain(value: Any, raws: List[str], mark: str) -> Any:
    """What stands for a value that the encoder does not know. A raw text gets a mark that is replaced later."""
    if isinstance(value, RawJson):
        raws.append(value.text)
        return f"{mark}{len(raws) - 1}"
    if isinstance(value, Decimal):
        if not value.is_finite():
            raise ValueError(f"{value} is not a number of JSON")
        raws.append(str(value))
        return f"{mark}{len(raws) - 1}"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, datetime):
        return time_text(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, uuid.UUID):
        return str(value)
    hint = "; encode bytes as a text, for example with base64" if isinstance(value, (bytes, bytearray)) else ""
    raise TypeError(f"a value of type {type(value).__name__} is not JSON{hint}")


_plain_encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def dumps(value: Any) -> str:
    """The JSON text of a value; TypeError or ValueError if it has none."""
    text = _text_of(value)
    if not text.isascii():
        text.encode("utf-8")  # refused here, and not together with what others send
    return text


def _text_of(value: Any) -> str:
    try:
        return _plain_encoder.encode(value)
    except TypeError:
        pass
    raws: List[str] = []
    # No text of the payload can contain this, because it is new.
    mark = f"raw-{secrets.token_hex(16)}-"
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"),
                      default=lambda part: _plain(part, raws, mark))
    return re.sub(f'"{mark}(\\d+)"', lambda found: raws[int(found[1])], text) if raws else text


def time_text(value: Any) -> Any:
    """A datetime as RFC 3339; one without a time zone is local time. Other values stay as they are."""
    if not isinstance(value, datetime):
        return value
    text = value.astimezone(timezone.utc).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def loads(text: str, numbers: Numbers = None) -> Any:
    """A value with exact integers. What Python cannot read becomes RawJson, as deep as it can be told apart."""
    try:
        return json.loads(text, parse_float=numbers) if numbers else json.loads(text)
    except json.JSONDecodeError:
        raise
    except (ValueError, RecursionError):
        return _tolerant(text, numbers, 4)


def _tolerant(text: str, numbers: Numbers, depth: int) -> Any:
    try:
        return json.loads(text, parse_float=numbers) if numbers else json.loads(text)
    except json.JSONDecodeError:
        raise
    except (ValueError, RecursionError):
        text = text.strip()
        if depth == 0 or text[:1] not in ("{", "["):
            return RawJson.unchecked(text)
        if text[0] == "{":
            return {name: _tolerant(part, numbers, depth - 1) for name, part in members(text).items()}
        return [_tolerant(part, numbers, depth - 1) for part in elements(text)]


_TOKEN = re.compile(r'"(?:[^"\\]+|\\.)*"|[{}\[\],:]', re.DOTALL)


def _parts(text: str) -> Iterator[Tuple[int, int, int]]:
    """(begin, colon, end) of each member or element of an object or array; colon is -1 in an array. No checks."""
    depth, begin, colon = 0, 0, -1
    for token in _TOKEN.finditer(text):
        sign = token.group()[0]
        if sign in "{[":
            depth += 1
            if depth == 1:
                begin = token.end()
        elif depth == 1 and sign == ":" and colon < 0:
            colon = token.start()
        elif depth == 1 and sign in ",]}":
            if text[begin:token.start()].strip():
                yield begin, colon, token.start()
            begin, colon = token.end(), -1
            depth -= sign != ","
        elif sign in "}]":
            depth -= 1


def members(text: str) -> Dict[str, str]:
    """The texts of the members of an object, as they are in its text."""
    return {json.loads(text[begin:colon]): text[colon + 1:end].strip() for begin, colon, end in _parts(text) if colon >= 0}


def elements(text: str) -> List[str]:
    """The texts of the elements of an array."""
    return [text[begin:end].strip() for begin, _, end in _parts(text)]


def payload_of(raw: Dict[str, Any]) -> Any:
    """The payload of a job: JSON; or a text or bytes, which come under other names."""
    if "payload_text" in raw:
        return raw["payload_text"]
    if "payload_base64" in raw:
        return base64.b64decode(raw["payload_base64"])
    return raw.get("payload")
