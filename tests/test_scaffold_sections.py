"""Generated parts between markers: taken anew, and not a byte of the author's lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bkgen.errors import UserError
from bkgen.scaffold.sections import merged, parts

NAMES = ("about", "needs", "status")
FRESH = "# Title\n\n" + "\n".join(
    f"<!-- bkgen:begin {name} -->\nnew {name}\n<!-- bkgen:end {name} -->\n" for name in NAMES
)


def part(name: str, *lines: str) -> str:
    return "\n".join([f"<!-- bkgen:begin {name} -->", *lines, f"<!-- bkgen:end {name} -->", ""])


OLD = "mine 1\n" + part("about", "old") + "mine 2\n" + part("needs", "old", "old") + part("status") + "mine 3"


def test_generated_parts_are_new_and_the_rest_is_kept() -> None:
    assert merged(OLD, FRESH, "page.md") == (
        "mine 1\n" + part("about", "new about") + "mine 2\n" + part("needs", "new needs")
        + part("status", "new status") + "mine 3"
    )  # fmt: skip


def test_a_page_that_is_up_to_date_stays_byte_for_byte() -> None:
    assert merged(FRESH, FRESH, "page.md") == FRESH


def test_parts_may_stand_in_another_order() -> None:
    text = part("status", "x") + "between\n" + part("needs", "x") + part("about", "x")
    assert merged(text, FRESH, "page.md") == (
        part("status", "new status") + "between\n" + part("needs", "new needs") + part("about", "new about")
    )


@pytest.mark.parametrize(
    ("text", "order"),
    [
        pytest.param(part("about") + "a\n" + part("status") + "b\n", "about needs a status b", id="behind the one before it"),
        pytest.param("a\n" + part("needs") + "b\n" + part("status"), "a about needs b status", id="before the one after it"),
        pytest.param("a\n\n\n", "a about needs status", id="all of them at the end of a page without any"),
        pytest.param("a", "a about needs status", id="at the end, where the last line has no end"),
        pytest.param("", "about needs status", id="in an empty page"),
    ],
)  # fmt: skip
def test_a_part_that_is_missing_comes_back(text: str, order: str) -> None:
    made = merged(text, FRESH, "page.md")
    seen = [piece.name or "".join(piece.lines).strip() for piece in parts(made, "page.md")]
    assert " ".join(name for name in seen if name) == order
    assert merged(made, FRESH, "page.md") == made
    assert made.endswith("\n")


def test_a_page_with_cr_lf_keeps_it() -> None:
    text = OLD.replace("\n", "\r\n").replace("mine 2\r\n", "mine 2\n")
    made = merged(text, FRESH, "page.md")
    assert "<!-- bkgen:begin about -->\r\nnew about\r\n<!-- bkgen:end about -->\r\nmine 2\n" in made
    assert made.endswith("\r\nmine 3")


_author = st.text(st.characters(exclude_characters="<"), max_size=30)


@given(st.lists(_author, min_size=4, max_size=4), st.permutations(NAMES))
def test_whatever_the_author_writes_between_the_parts_is_kept(own: list[str], names: list[str]) -> None:
    text = own[0] + "\n" + "".join(
        part(name, "old") + between + "\n" for name, between in zip(names, own[1:], strict=True)
    )  # fmt: skip
    made = merged(text, FRESH, "page.md")
    end = "\r\n" if "\r\n" in text else "\n"
    expected = own[0] + "\n" + "".join(
        # The newline behind a part's end marker is the generated part's.
        part(name, f"new {name}").replace("\n", end) + between + "\n"
        for name, between in zip(names, own[1:], strict=True)
    )  # fmt: skip
    assert made == expected
    assert merged(made, FRESH, "page.md") == made


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param("x\n<!-- bkgen:begin about -->\nx\n", ["p.md:2:1: the part 'about' has no end"], id="no end"),
        pytest.param("<!-- bkgen:end about -->\n", ["p.md:1:1: no part 'about' is open here"], id="no beginning"),
        pytest.param(part("about") + part("about"), ["p.md:3:1: the part 'about' is here twice"], id="one part twice"),
        pytest.param(
            "<!-- bkgen:begin about -->\n<!-- bkgen:end abuot -->\n",
            ["p.md:2:1: the part that is open here is 'about', not 'abuot'"],
            id="an end with another name",
        ),
        pytest.param(
            "<!-- bkgen:begin about -->\n" + part("needs"),
            ["p.md:2:1: 'needs' begins inside the part 'about'"],
            id="a part within a part",
        ),
        pytest.param(part("abuot"), ["p.md:1:1: bkgen writes no part 'abuot'"], id="a part that nobody knows"),
        pytest.param(
            "<!--bkgen:begin about-->\n", ["p.md:1:1: this marker is not written as bkgen writes it"], id="a near miss"
        ),
        pytest.param(
            part("abuot") + "<!-- bkgen:end needs -->\n",
            ["p.md:1:1: bkgen writes no part 'abuot'", "p.md:3:1: no part 'needs' is open here"],
            id="several faults at once",
        ),
    ],
)  # fmt: skip
def test_a_broken_marker_is_an_error_at_its_place(text: str, says: list[str]) -> None:
    with pytest.raises(UserError) as caught:
        merged(text, FRESH, "p.md")
    found = [f"{one.position}: {one.message}" for one in caught.value.diagnostics]
    assert found == says
    assert all(one.hint for one in caught.value.diagnostics)
