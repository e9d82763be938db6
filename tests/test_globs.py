"""Path patterns: a table, real git as the judge, and an index that may not change an answer."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from bkgen.globs import Paths, Patterns, faults, syntax
from bkgen.globs.faults import _are_plainly_sound, _each_fault


class Case(NamedTuple):
    says: str
    patterns: tuple[str, ...]
    path: str
    decides: str | None
    is_link: bool = False


def yes(says: str, pattern: str, path: str) -> Case:
    return Case(says, (pattern,), path, pattern)


def no(says: str, pattern: str, path: str) -> Case:
    return Case(says, (pattern,), path, None)


LIKE_GIT = [
    yes("a name without a slash matches at the root", "setup.py", "setup.py"),
    yes("a name without a slash matches at any depth", "setup.py", "a/b/setup.py"),
    yes("a name matches what lies below a directory of that name", "build", "a/build/x/y.o"),
    yes("a leading slash anchors to the root", "/setup.py", "setup.py"),
    no("a leading slash does not match deeper", "/setup.py", "a/setup.py"),
    yes("a slash in the middle anchors to the root", "src/a.py", "src/a.py"),
    no("a slash in the middle does not match deeper", "src/a.py", "old/src/a.py"),
    no("a path is no substring", "src/a.py", "old/src/a.py.bak"),
    no("a path is no prefix of a name", "src/a.py", "src/a.py.bak"),
    no("a directory is no prefix of a name", "app/", "application/x"),
    yes("a trailing slash matches below the directory", "app/", "app/x"),
    yes("a trailing slash alone anchors nothing", "app/", "old/app/x"),
    no("a trailing slash matches no file of that name", "app/", "app"),
    no("a version is no prefix of another", "tests/v1", "tests/v10/x.py"),
    yes("a directory without a trailing slash matches below it", "tests/v1", "tests/v1/x.py"),
    no("a name is no regular expression", "setup.py", "setup.pyx/a"),
    no("a dot is a dot", "setup.py", "setupXpy"),
    no("a plus is a plus", "a+", "aa"),
    yes("a dollar and parentheses are themselves", "a$(b)", "a$(b)"),
    yes("two stars at the start match at the root", "**/conftest.py", "conftest.py"),
    yes("two stars at the start match at any depth", "**/conftest.py", "a/b/conftest.py"),
    yes("two stars in the middle match no directory", "docs/**/x.md", "docs/x.md"),
    yes("two stars in the middle match several directories", "docs/**/x.md", "docs/a/b/x.md"),
    no("two stars in the middle stay below their directory", "docs/**/x.md", "x/docs/x.md"),
    yes("two stars at the end match everything below", "docs/**", "docs/a/b.md"),
    no("two stars at the end do not match the directory's own name", "docs/**", "docs"),
    no("two stars at the end anchor to the root", "docs/**", "src/docs/gen.py"),
    yes("two stars at both ends match at any depth", "**/docs/**", "src/docs/gen.py"),
    yes("two stars alone match everything", "**", "a/b"),
    no("two stars and a slash match nothing at the root", "**/", "a"),
    yes("two stars and a slash match below a directory", "**/", "a/b"),
    no("two stars and a slash at the end want a directory below", "a/**/", "a/b"),
    yes("two stars and a slash at the end match two levels down", "a/**/", "a/b/c"),
    yes("three stars are two", "a/***/b", "a/x/y/b"),
    yes("two stars inside a name are one", "a**b", "axxb"),
    no("two stars inside a name cross no slash", "x/a**b", "x/a/b"),
    yes("a star crosses no slash but its match may be a directory", "docs/*", "docs/a/b.md"),
    no("a star in an anchored pattern crosses no slash", "docs/*.md", "docs/a/b.md"),
    yes("a star matches the empty string", "a*", "a"),
    yes("a star before a suffix matches at any depth", "*.md", "docs/a/b.md"),
    yes("a star before a suffix matches the bare suffix", "*.md", "a/.md"),
    yes("a star before a suffix matches below a directory of that name", "*.md", "notes.md/a.txt"),
    no("a star before a suffix is closed at the end", "*.md", "a.mdx"),
    yes("a star after a head matches a name that begins so", "LICENSE*", "third_party/LICENSE.txt"),
    no("a star after a head wants the begin of the name", "LICENSE*", "MY-LICENSE"),
    no("a star and a slash want a directory", "*/", "a"),
    no("a head, a star and a slash want a directory", "doc*/", "docs"),
    yes("a head, a star and a slash match below a directory", "doc*/", "a/docs/x"),
    no("a star, a suffix and a slash want a directory", "*.d/", "conf.d"),
    yes("a star, a suffix and a slash match below a directory", "*.d/", "etc/conf.d/x"),
    no("an empty component before two stars matches nothing", "//**/x", "a/x"),
    yes("a question mark is one character", "a?c", "abc"),
    no("a question mark is no slash", "x/a?c", "x/a/c"),
    no("a question mark is not nothing", "a?c", "ac"),
    yes("a bracket matches one of its characters", "docs/[ab]*.rst", "docs/b1.rst"),
    no("a bracket matches no other character", "docs/[ab]*.rst", "docs/c.rst"),
    yes("a bracket takes a range", "v[0-9]", "v7"),
    yes("an exclamation mark negates a bracket", "[!a].c", "b.c"),
    no("a negated bracket refuses its characters", "[!a].c", "a.c"),
    yes("a caret negates a bracket, too", "[^a].c", "b.c"),
    no("a negated bracket matches no slash", "x/a[!b]c", "x/a/c"),
    yes("a bracket may begin with a closing bracket", "[]a]x", "]x"),
    yes("a bracket may end with a minus", "[a-]x", "-x"),
    yes("a bracket knows escapes", r"[\]]x", "]x"),
    yes("a bracket knows the class alpha", "[[:alpha:]]1", "b1"),
    no("the class alpha has no digit", "[[:alpha:]]1", "11"),
    no("the class space has no vertical tab", "a[[:space:]]b", "a\vb"),
    no("a class does not close its bracket", "[[:alpha:]", "a"),
    no("an unknown class matches nothing", "[[:vowel:]]", "a"),
    no("an open bracket matches nothing", "a[b", "a[b"),
    yes("the first character of a backward range still counts", "[z-a]q", "zq"),
    no("a backward range has no other character", "[z-a]q", "mq"),
    no("capital letters are other letters", "README.md", "readme.md"),
    no("capital letters are other letters in a bracket", "[a-z]x", "Ax"),
    yes("an escaped exclamation mark is one", r"\!important", "!important"),
    yes("an escaped hash is one", r"\#notes", "a/#notes"),
    no("a hash begins a comment", "#notes", "#notes"),
    yes("an escaped star is a star", r"a\*", "a*"),
    no("an escaped star matches nothing else", r"a\*", "ab"),
    yes("an escaped slash is a slash", r"a\/b", "a/b"),
    no("a backslash at the end matches nothing", "a\\", "a\\"),
    yes("an escaped blank at the end is kept", "a\\ ", "a "),
    yes("a blank at the end is dropped", "a ", "a"),
    yes("a blank at the start is kept", " a", " a"),
    no("an empty pattern matches nothing", "", "a"),
    no("a slash alone matches nothing", "/", "a"),
    no("two dots match nothing", "../a", "a"),
    no("two dots in the middle match nothing", "a/../b", "b"),
    no("an empty component matches nothing", "a//b", "a/b"),
    no("braces are themselves", "*.{c,h}", "a.c"),
    yes("letters beyond ASCII are themselves", "größe/**", "größe/ü.py"),
    yes("bytes that are no UTF-8 are themselves", "a\udcff*", "x/a\udcff\udcfe"),
    yes("a name may contain a newline", "a*b", "x/a\nb"),
    no("a newline at the end of a name counts", "a", "a\n"),
    no("a newline at the end of a name counts for a regular expression", "[a]", "a\n"),
    yes("a directory may contain a newline", "**/x/[y].py", "a\nb/x/y.py"),
]

OWN_RULES = [
    Case("the last match decides for", ("*.py", "!src/**", "src/a.py"), "src/a.py", "src/a.py"),
    Case("the last match decides against", ("*.py", "!src/**"), "src/a.py", None),
    Case("a negative that does not match takes nothing", ("*.py", "!src/**"), "lib/a.py", "*.py"),
    Case("a negative alone matches nothing", ("!src/**",), "lib/a.py", None),
    Case(
        "an anchored negative does not add other files", ("mobile/**", "!mobile/**/*.md"), "web/x.tsx", None
    ),
    Case("an empty list matches nothing", (), "a", None),
    Case(
        "what is below a matched directory can be taken away",
        ("lmcache/**", "!lmcache/docs/**"),
        "lmcache/docs/x",
        None,
    ),
    Case(
        "what is below a directory taken away can be brought back",
        ("lmcache/**", "!lmcache/docs/**", "lmcache/docs/keep.py"),
        "lmcache/docs/keep.py",
        "lmcache/docs/keep.py",
    ),
    Case("a leading dot and slash names the root", ("./frontend/**",), "frontend/x.ts", "./frontend/**"),
    Case("a leading dot and slash anchors a name", ("./setup.py",), "a/setup.py", None),
    Case("a leading dot and slash may follow the exclamation mark", ("**", "!./a"), "a", None),
    Case("a question mark is one character of any script", ("?.py",), "ü.py", "?.py"),
    Case("two stars after a letter are one", ("a**/b",), "a/x/b", None),
    Case("a pattern may contain a newline", ("a\n",), "x/a\n", "a\n"),
    Case("a pattern with a newline matches no name without", ("a\n",), "a", None),
    Case("a private character stands for itself", ("\U000f0000[x]",), "\U000f0000x", "\U000f0000[x]"),
    Case("a private character stands for nothing else", ("\U000f0001[x]",), "ax", None),
    Case(
        "a directory's pattern matches a submodule", ("vendor/lib/**",), "vendor/lib", "vendor/lib/**", True
    ),
    Case("a trailing slash matches a submodule", ("vendor/lib/",), "vendor/lib", "vendor/lib/", True),
    Case("a name and a slash match a submodule anywhere", ("lib/",), "vendor/lib", "lib/", True),
    Case("a wildcard directory matches a submodule", ("v*r/l[i]b/**",), "vendor/lib", "v*r/l[i]b/**", True),
    Case("a name matches a submodule", ("vendor/lib",), "vendor/lib", "vendor/lib", True),
    Case(
        "a negative for a directory takes a submodule away",
        ("vendor/**", "!vendor/lib/"),
        "vendor/lib",
        None,
        True,
    ),
    Case(
        "a star below a directory does not match a submodule there",
        ("vendor/lib/*",),
        "vendor/lib",
        None,
        True,
    ),
    Case("two stars and a star do not match the submodule above", ("vendor/**/*",), "vendor", None, True),
    Case("a file of the directory's name stays a file", ("vendor/lib/**",), "vendor/lib", None),
]


@pytest.mark.parametrize("case", [*LIKE_GIT, *OWN_RULES], ids=lambda case: case.says)
def test_a_list_decides(case: Case) -> None:
    patterns = Patterns(case.patterns)
    assert patterns.match(case.path, is_link=case.is_link) == case.decides
    expected = [(case.path, case.decides)] if case.decides is not None else []
    assert Paths([(case.path, case.is_link)]).matching(patterns) == expected


class Git:
    """Real git, asked about many lists at once: each is the .gitignore of a directory of its own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.command = ["git", "-c", f"core.excludesFile={os.devnull}", "-C", str(root)]
        self.environment = os.environ | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
        subprocess.run(["git", "init", "-q", root], check=True, env=self.environment)

    def decisions(self, lists: Sequence[Sequence[str]], paths: Sequence[str]) -> list[dict[str, str | None]]:
        """For each list, for each path: the pattern that makes git ignore it."""
        for number, patterns in enumerate(lists):
            folder = self.root / f"d{number}"
            folder.mkdir(exist_ok=True)
            text = "".join(f"{pattern}\n" for pattern in patterns)
            (folder / ".gitignore").write_bytes(os.fsencode(text))
        asked = [f"d{number}/{path}" for number in range(len(lists)) for path in paths]
        done = subprocess.run(
            [*self.command, "check-ignore", "--no-index", "--verbose", "--non-matching", "-z", "--stdin"],
            input=b"".join(os.fsencode(path) + b"\0" for path in asked),
            stdout=subprocess.PIPE,
            env=self.environment,
        )
        assert done.returncode in (0, 1)
        fields = [os.fsdecode(field) for field in done.stdout.split(b"\0")][:-1]
        assert fields[3::4] == asked
        patterns_said = [pattern if pattern and pattern[0] != "!" else None for pattern in fields[2::4]]
        width = len(paths)
        return [
            dict(zip(paths, patterns_said[number * width : (number + 1) * width], strict=True))
            for number in range(len(lists))
        ]


@pytest.fixture(scope="module")
def git(tmp_path_factory: pytest.TempPathFactory) -> Git:
    return Git(tmp_path_factory.mktemp("git"))


def test_git_agrees_with_the_table(git: Git) -> None:
    said = git.decisions([case.patterns for case in LIKE_GIT], sorted({case.path for case in LIKE_GIT}))
    wrong = [
        (case.says, answers[case.path])
        for case, answers in zip(LIKE_GIT, said, strict=True)
        if (answers[case.path] is None) != (case.decides is None)
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("patterns", "path", "git_ignores", "we_match"),
    [
        pytest.param(
            ["docs/", "!docs/keep.md"], "docs/keep.md", True, False, id="taken away below a matched directory"
        ),
        pytest.param(["./a"], "a", False, True, id="a leading dot and slash"),
        pytest.param(["?"], "ü", False, True, id="a question mark and a character of two bytes"),
        pytest.param(["[ü]"], "ü", False, True, id="a bracket and a character of two bytes"),
        pytest.param(["a**/b"], "a/x/b", True, False, id="two stars after a letter"),
        pytest.param(
            ["vendor/lib/"], "vendor/lib", False, True, id="a submodule and the pattern of a directory"
        ),
    ],
)
def test_we_differ_from_git_on_purpose(
    git: Git, patterns: list[str], path: str, git_ignores: bool, we_match: bool
) -> None:
    [said] = git.decisions([patterns], [path])
    assert (said[path] is not None) == git_ignores
    assert (Patterns(patterns).match(path, is_link=path == "vendor/lib") is not None) == we_match


PIECES = [
    *("a", "b", "ab", "A", ".py", ".", "..", "-", " ", "!", "#", "]", "[", "{a,b}", "a\\", "\\"),
    *("*", "**", "***", "?", "/", "/", "/**", "**/", "/**/", "*.py", "test_*"),
    *("[ab]", "[!a]", "[^ab]", "[a-c]", "[c-a]", "[]a]", "[a-]", "[[:alpha:]]", "[![:digit:]]", "[[:x:]]"),
    *(r"[\]b]", "[a/b]", "[!]", "[[:a]", "[a-[:alpha:]]", "[--b]", r"\*", r"\[", r"\a", r"\/", "\\ "),
]
NAMES = [
    "a",
    "b",
    "ab",
    "ba",
    "A",
    "c",
    "a.py",
    ".py",
    "a b",
    " ",
    "-",
    "!",
    "#a",
    "]",
    "[",
    "*",
    "a\\",
    "{a,b}",
    "1",
]
pattern_texts = st.lists(st.sampled_from(PIECES), min_size=1, max_size=6).map("".join)
plain_paths = st.lists(st.sampled_from(NAMES), min_size=1, max_size=4).map("/".join)
odd_paths = st.lists(
    st.sampled_from([*NAMES, "a\n", "\n", "a\nb", "\udcff", "ü", "test_a", "\U000f0000"]),
    min_size=1,
    max_size=4,
)
files = st.lists(st.tuples(odd_paths.map("/".join), st.booleans()), max_size=12)
pattern_lists = st.lists(
    st.tuples(st.sampled_from(["", "", "!"]), pattern_texts | odd_paths.map("/".join)).map("".join),
    max_size=6,
)


def _judged_alike_by_git(pattern: str) -> bool:
    r"""All but what is read differently on purpose, and `**\/`, a fault, where git wants a directory."""
    return not (pattern.startswith(("!", "./")) or re.search(r"[^/]\*{2,}/|\*\\/", pattern))


@settings(max_examples=40, deadline=None)
@given(
    patterns=st.lists(pattern_texts.filter(_judged_alike_by_git), min_size=1, max_size=25),
    paths=st.lists(plain_paths, min_size=1, max_size=25, unique=True),
)
def test_git_agrees_about_every_single_pattern(git: Git, patterns: list[str], paths: list[str]) -> None:
    for pattern, said in zip(patterns, git.decisions([[text] for text in patterns], paths), strict=True):
        ours = Patterns([pattern])
        assert {path for path in paths if ours.match(path)} == {path for path in paths if said[path]}, pattern


@settings(max_examples=80, deadline=None)
@given(files=files, texts=pattern_lists)
def test_the_index_changes_no_answer(files: list[tuple[str, bool]], texts: list[str]) -> None:
    paths, patterns = Paths(files), Patterns(texts)
    expected = [
        (path, decides)
        for path, is_link in files
        if (decides := Patterns(texts).match(path, is_link=is_link)) is not None
    ]
    assert paths.first_match(patterns) == (expected[0] if expected else None)
    assert paths.matching(patterns) == expected
    assert paths.matching(patterns) == expected, "asked again"
    for text in texts:
        alone = Patterns([text.removeprefix("!")])
        matched = any(alone.match(path, is_link=is_link) is not None for path, is_link in files)
        if text.removeprefix("!") and text.removeprefix("!")[0] not in "!#":
            assert paths.matches_alone(text) == matched, text


@settings(max_examples=80, deadline=None)
@given(text=pattern_texts | odd_paths.map("/".join), paths=files)
def test_the_short_cut_agrees_with_the_regular_expression(text: str, paths: list[tuple[str, bool]]) -> None:
    rule = syntax.Rule(text)
    assume(rule._plain() is not None and rule.rest != "\0")
    regex = syntax._compile(rule.floating, rule.rest)
    for path, is_link in paths:
        key = f"/{path}/" if is_link else f"/{path}"
        assert bool(rule.matches(key)) == bool(regex.match(key)), path


@settings(max_examples=80, deadline=None)
@given(
    text=st.lists(st.sampled_from(["**", "*", "a*", "*a*b", "?*a", "[ab]*b*", "a", "b"]), min_size=1).map(
        "/".join
    ),
    floating=st.booleans(),
    paths=st.lists(
        st.lists(st.sampled_from(["a", "b", "ab", "ba", "aab", "abab"]), min_size=1, max_size=8), max_size=12
    ),
)
def test_what_a_pattern_does_not_try_again_changes_no_answer(
    text: str, floating: bool, paths: list[list[str]]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(syntax, "_without_detours", lambda regex: regex)
        thorough = syntax._compile(floating, text)
    quick = syntax._compile(floating, text)
    for key in ("/" + "/".join(names) for names in paths):
        assert bool(quick.match(key)) == bool(thorough.match(key)), key


def test_files_keep_the_order_they_are_given_in() -> None:
    paths = Paths([("z/1.py", False), ("a/2.py", False), ("m/3.md", False), ("a/1.py", False)])
    assert paths.matching(Patterns(["a/**", "z/**", "*.md"])) == [
        ("z/1.py", "z/**"),
        ("a/2.py", "a/**"),
        ("m/3.md", "*.md"),
        ("a/1.py", "a/**"),
    ]
    assert paths.first_match(Patterns(["a/**", "*.md"])) == ("a/2.py", "a/**")


def test_a_pattern_alone_is_looked_up_whether_it_takes_away_or_not() -> None:
    paths = Paths([("docs/a.md", False), ("vendor/lib", True)])
    assert [
        text for text in ("!docs/**", "docs/", "!*.rst", "!vendor/lib/", "docs") if paths.matches_alone(text)
    ] == [
        "!docs/**",
        "docs/",
        "!vendor/lib/",
        "docs",
    ]


def test_lists_are_equal_when_their_texts_are() -> None:
    assert Patterns(["a", "!b"]) == Patterns(("a", "!b"))
    assert len({Patterns(["a"]), Patterns(["a"]), Patterns(["/a"])}) == 2
    assert Patterns(["b", "a"]) != Patterns(["a", "b"])


def _suite(number: int) -> Patterns:
    return Patterns(
        [
            f"src/pkg{number}/**",
            f"!src/pkg{number}/**/*.md",
            "*.cu",
            "/setup.py",
            f"tests/**/test_{number}x.py",
            "**/conftest.py",
            "docs/[ab]*.rst",
            f"tests/v{number}/",
            f"lib{number}*/[!a]/*.c",
            f"csrc/**/kernel_*_{number}.cuh",
        ]
    )


CHANGED = [
    *((f"src/package{number}/mod.py", False) for number in range(40)),
    *((f"tests/unit{number}/test_{number}.py", False) for number in range(40)),
    *((f"docs/a{number}.md", False) for number in range(20)),
    *((f"csrc/kernel_{number}.cu.txt", False) for number in range(20)),
]


def test_no_regular_expression_is_made_while_nothing_can_match(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def counting(floating: bool, rest: str) -> re.Pattern[str]:
        made.append(rest)
        return really(floating, rest)

    really = syntax._compile
    monkeypatch.setattr(syntax, "_compile", counting)
    paths = Paths(CHANGED)
    assert [paths.first_match(_suite(number)) for number in range(50)] == [None] * 50
    assert made == []

    matching = Paths([*CHANGED, ("docs/b.rst", False)])
    assert [matching.first_match(_suite(number)) for number in range(50)] == [
        ("docs/b.rst", "docs/[ab]*.rst")
    ] * 50
    assert set(made) == {
        "docs/[ab]*.rst",
        *(f"csrc/**/kernel_*_{n}.cuh" for n in range(50)),
        *(f"lib{n}*/[!a]/*.c" for n in range(50)),
    }
    assert made.count("docs/[ab]*.rst") == 1


def test_pathspec_is_imported_only_for_a_pattern_that_needs_it() -> None:
    script = """
import json, sys
from bkgen.globs import Paths, Patterns
paths = Paths([("src/a/test_x.py", False), ("README.md", False)])
common = Patterns(["src/**", "*.md", "tests/**/test_x.py", "LICENSE*", "/setup.py", "**/a", "!src/**/*.rst"])
said = [len(paths.matching(common)), "pathspec" in sys.modules]
said += [len(paths.matching(Patterns(["src/*/test_[x].py"]))), "pathspec" in sys.modules]
print(json.dumps(said))
"""
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert json.loads(done.stdout) == [2, False, 1, True]


@pytest.mark.parametrize(
    ("pattern", "message", "hint"),
    [
        pytest.param("", "is empty", "remove it", id="an empty pattern"),
        pytest.param("  ", "is empty", "remove it", id="blanks only"),
        pytest.param("#notes", "comment", r"'\#…'", id="a comment"),
        pytest.param("docs/ ", "ends with a blank", r"'\ '", id="a blank at the end"),
        pytest.param("docs/\t", "ends with a blank", "remove the blank", id="a tab at the end"),
        pytest.param("docs\\", "ends with a backslash", r"'\\'", id="a backslash at the end"),
        pytest.param("docs\\/", "ends with a backslash", r"'\\'", id="a backslash before the last slash"),
        pytest.param("C:\\src\\*", "one machine", "from the root", id="a Windows path"),
        pytest.param("C:/src/*", "one machine", "from the root", id="a Windows path with slashes"),
        pytest.param("\\\\server\\src", "one machine", "from the root", id="a Windows share"),
        pytest.param(
            r"src\pkg", "backslash before an ordinary", "put '/'", id="a backslash between directories"
        ),
        pytest.param(r"src\/pkg", "backslash before an ordinary", "put '/'", id="an escaped slash"),
        pytest.param(
            r".*\.py", "backslash before an ordinary", "a dot stands for itself", id="a regular expression"
        ),
        pytest.param("/", "names nothing", "'**'", id="a slash alone"),
        pytest.param("./", "names nothing", "'**'", id="a dot and a slash alone"),
        pytest.param("../src/**", "component '..'", "from the root", id="two dots at the start"),
        pytest.param("src/../x", "component '..'", "from the root", id="two dots in the middle"),
        pytest.param("src/./x", "component '.'", "leave it out", id="a dot in the middle"),
        pytest.param(".", "component '.'", "leave it out", id="a dot alone"),
        pytest.param("src//x", "empty component", "write one '/'", id="two slashes"),
        pytest.param("docs//", "empty component", "write one '/'", id="two slashes at the end"),
        pytest.param("a[bc", "never closed", r"'\['", id="an open bracket"),
        pytest.param("a[]", "never closed", r"'\['", id="an empty bracket"),
        pytest.param("a[/]b", "slash in '[/]'", "each directory", id="a slash in a bracket"),
        pytest.param("[z-a]", "runs backwards, 'z-a'", "'a-z'", id="a backward range"),
        pytest.param("[[:vowel:]]", "unknown class '[:vowel:]'", "alpha", id="an unknown class"),
        pytest.param("*.{c,h}", "braces", "each", id="alternatives in braces"),
        pytest.param("lib**/x.py", "'**' beside other", "write '*'", id="two stars glued to a name"),
    ],
)
def test_a_mistake_is_named_with_the_way_out(pattern: str, message: str, hint: str) -> None:
    for text, before in ((pattern, []), ("!" + pattern, ["**/*"])):
        if text.startswith("!#"):
            continue  # after `!` a hash is an ordinary character
        [fault] = faults([*before, text])
        assert fault.index == len(before)
        assert message in fault.message
        assert hint in fault.hint
        assert "\n" not in fault.message + fault.hint


@pytest.mark.parametrize(
    "patterns",
    [
        pytest.param([], id="an empty list"),
        pytest.param(
            ["lmcache/**", "tests/**", "requirements/**", "!tests/v1/platform/devices/**"], id="a usual list"
        ),
        pytest.param(
            ["*.md", "LICENSE*", ".gitignore", "/docs/**", "/.github/**", "!/docs/conf.py"],
            id="names with dots",
        ),
        pytest.param(
            ["./src/**", "././lib", "a/.github/x", "...", "a..b/c"], id="dots that are no components"
        ),
        pytest.param([r"\!a", r"\#a", "a\\ ", r"a\*", r"\{a,b\}", r"a\\"], id="escapes"),
        pytest.param(
            ["[a-z]", "[!a-]", "[]x]", "[[:alpha:]_]", r"[\]]", "{{cookiecutter}}/**"], id="brackets"
        ),
        pytest.param(["**", "!**/*.md", "a/**/b", "**/", "a**"], id="stars"),
        pytest.param(["größe/**", "a\nb", "\udcff"], id="names of any kind"),
        pytest.param(["a/", "a", "/a"], id="three that differ by a slash"),
    ],
)
def test_a_list_without_mistakes_has_no_fault(patterns: list[str]) -> None:
    assert faults(patterns) == ()


def test_a_list_of_negatives_is_one_fault_of_the_whole_list() -> None:
    [fault] = faults(["!a/**", "!b/**"])
    assert fault.index == 0
    assert "only '!' patterns" in fault.message
    assert "'**'" in fault.hint


def test_a_negative_in_front_takes_away_from_nothing() -> None:
    [fault] = faults(["!a/b/**", "a/**", "!a/c/**"])
    assert (fault.index, fault.message) == (
        0,
        "'!a/b/**' takes away from nothing: no pattern stands before it",
    )


def test_a_duplicate_is_found_under_another_spelling() -> None:
    assert [(fault.index, fault.message) for fault in faults(["/a", "b", "!b/c", "./a", "**/b"])] == [
        (3, "'./a' says the same as pattern 1 of the list"),
        (4, "'**/b' says the same as pattern 2 of the list"),
    ]


def test_every_mistake_of_a_list_is_reported_in_order() -> None:
    assert [fault.index for fault in faults(["a", "b//", "", "c/**", "[", "a"])] == [1, 2, 4, 5]


SIMPLE = [
    "a",
    "b.py",
    "/",
    "/",
    "/",
    "*",
    "**",
    ".",
    "..",
    "!",
    "[ab]",
    "[b-a]",
    "[0-9]",
    "[",
    " ",
    "{a,b}",
    "./",
    "a**/",
]


@settings(max_examples=100, deadline=None)
@given(texts=st.lists(st.lists(st.sampled_from(SIMPLE), max_size=5).map("".join), max_size=3))
def test_the_quick_look_clears_no_list_with_a_fault(texts: list[str]) -> None:
    if list(_each_fault(texts)):
        assert not _are_plainly_sound(texts)
    assert faults(texts) == tuple(_each_fault(texts))


def test_the_quick_look_clears_usual_lists() -> None:
    assert _are_plainly_sound(
        ["lmcache/**", "tests/v?/**/test_*.py", "/setup.py", "*.[ch]", "!docs/", "v[0-9].x"]
    )


def test_a_message_is_one_line_and_printable() -> None:
    [fault] = faults(["a\n\udcff\x1b//b"])
    assert fault.message == r"'a\n\udcff\x1b//b' has an empty component and matches nothing"
