"""Typing errors: a name that is nobody's, and one letter away from one that somebody declared."""

from __future__ import annotations

import re
from functools import lru_cache

_SHORT = 4


@lru_cache(maxsize=256)
def slip_of(name: str, known: tuple[str, ...]) -> str | None:
    """The known name that `name` is a typing error of; None for a known one, and for one of its own.

    One letter too many, too few, wrong or in the wrong place is an error. Names that differ in a number, in a
    letter behind one (`l40`, `l40s`) or in one letter of a short word (`pool-a`, `pool-b`, `cpu`, `gpu`) are
    different names. Of two with a domain in front, either the domains or what follows them must be equal.
    """
    if name in known:
        return None
    domain, _, last = name.rpartition("/")
    for one in sorted(known):
        other_domain, _, other_last = one.rpartition("/")
        if (domain == other_domain and _is_slip(last, other_last)) or (
            last == other_last and domain and other_domain and _is_slip(domain, other_domain)
        ):
            return one
    return None


def _is_slip(written: str, meant: str) -> bool:
    if _without_numbers(written) == _without_numbers(meant):
        return False
    if written.casefold().replace("_", "-") == meant.casefold().replace("_", "-"):
        return True
    start = _common(written, meant)
    ends = _common(written[start:][::-1], meant[start:][::-1])
    here, there = written[start : len(written) - ends], meant[start : len(meant) - ends]
    if len(here) + len(there) == 1:
        return (here + there).isalpha() and start + ends > 1 and not written[start - 1 : start].isdigit()
    if len(here) == len(there) == 1:
        return (here + there).isalpha() and len(_word_at(written, start)) > _SHORT
    return len(here) == 2 and here == there[::-1]


def _without_numbers(name: str) -> str:
    return re.sub(r"[-_.]?#$", "", re.sub(r"[0-9]+", "#", name))


def _common(one: str, other: str) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((index for index, (a, b) in pairs if a != b), min(len(one), len(other)))


def _word_at(name: str, place: int) -> str:
    return next((word[0] for word in re.finditer(r"[^\W_]+", name) if word.start() <= place < word.end()), "")
