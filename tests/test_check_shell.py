"""The shell parser behind check: what is a command, and what is only text."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bkgen.check.inline_python import inline_faults, started_files
from bkgen.check.script_rules import STRICT, statuses, strictness
from bkgen.check.script_waits import waits
from bkgen.check.shell import Compound, Simple, commands, parse
from bkgen.check.testlike import always_passes, is_test, unwrapped

ROOT = Path(__file__).resolve().parent.parent


def programs(text: str) -> list[str]:
    """Every command of a script, its words joined by blanks."""
    script = parse(text)
    assert script.complete
    return [" ".join(simple.texts) for simple, _ in commands(script.body) if simple.texts]


COMMANDS = {
    "words are split at blanks": ("a  b\tc", ["a b c"]),
    "a semicolon and a newline end a command": ("a; b\nc", ["a", "b", "c"]),
    "a comment is none": ("a # b | tee c\n# d\ne", ["a", "e"]),
    "a hash inside a word is no comment": ("echo a#b ${#x}", ["echo a#b ${#x}"]),
    "single quotes hide everything": ("echo 'a | tee b; c'", ["echo a | tee b; c"]),
    "double quotes hide operators": ('echo "a | tee b; c"', ["echo a | tee b; c"]),
    "a backslash hides one character": ("echo a\\|b \\# c", ["echo a|b # c"]),
    "a line goes on after a backslash": ("a \\\n  b", ["a b"]),
    "a heredoc is text": ("cat <<EOF\npytest | tee x\nEOF\nb", ["cat", "b"]),
    "a quoted heredoc is text": ("cat <<'E F'\n$(a) `\nE F\nb", ["cat", "b"]),
    "an indented heredoc ends behind tabs": (
        "if a; then\n\tcat <<-EOF\n\tx | y\n\tEOF\nfi\nb",
        ["a", "cat", "b"],
    ),
    "two heredocs follow one line": ("a <<X; b <<Y\n1\nX\n2\nY\nc", ["a", "b", "c"]),
    "a here-string is text": ('read -r a <<<"$b | c"', ["read -r a"]),
    "assignments stand in front": ("A=1 B='2 3' cmd x", ["cmd x"]),
    "an assignment alone is no command": ("A=1\nB=$(c)", ["c"]),
    "an array is an assignment": ("A=(b | c)\nd", ["d"]),
    "a substitution runs a command": ('echo "$(a b)" `c`', ["echo $(a b) ``", "a b"]),
    "substitutions nest": ('x=$(a "$(b $(c))")', ["a $(b $(c))", "b $(c)", "c"]),
    "a parenthesis inside a substitution's case": ("x=$(case y in (a) b ;; c) d ;; esac)", ["b", "d"]),
    "arithmetic is no command": (
        "((a | b)); echo $((1 | 2)) $(( (3) << 4 ))",
        ["echo $((1 | 2)) $(( (3) << 4 ))"],
    ),
    "a test in brackets is no pipe": ("[[ $a =~ ^(b|c)$ && -f d ]] || e", ["e"]),
    "a pipe joins commands": ("a | b |& c", ["a", "b", "c"]),
    "redirections are not words": ("a >b 2>&1 <c &>>d e", ["a e"]),
    "a redirection alone is fine": (">a\nb", ["b"]),
    "process substitution runs a command": ("diff <(a) >(b c)", ["diff <(a) >(b c)", "a", "b c"]),
    "if, elif and else": ("if a; then b; elif c; then d; else e; fi", ["a", "b", "c", "d", "e"]),
    "loops": ("while a; do b; done; until c; do d; done", ["a", "b", "c", "d"]),
    "for over words and over numbers": (
        "for i in $(a) b; do c; done; for ((i=0; i<3; i++)); do d; done",
        ["a", "c", "d"],
    ),
    "for over arguments": ("for i\ndo a; done", ["a"]),
    "case with patterns": ('case $x in\na | "b") c ;;&\n*) d ;;\nesac', ["c", "d"]),
    "a reserved word as an argument is a word": ("echo if then done", ["echo if then done"]),
    "a group and a subshell": ("{ a; b; }; (c; d)", ["a", "b", "c", "d"]),
    "a function": ("f() { a; }\nfunction g { b; }\nh() (\n c\n)", ["a", "b", "c"]),
    "negation and time": ("! a; time b", ["a", "b"]),
    "patterns with a parenthesis": ("rm !(a|b)*.txt", ["rm !(a|b)*.txt"]),
    "dollar quotes": ("a $'b\\'|c' $\"d\"", ["a b\\'|c d"]),
    "a default with quotes inside": ("a ${x:-'}'} \"${y:-it's}\"", ["a ${x:-'}'} ${y:-it's}"]),
    "carriage returns": ("a b\r\nc\r\n", ["a b", "c"]),
}


@pytest.mark.parametrize(("text", "wanted"), COMMANDS.values(), ids=COMMANDS)
def test_commands_are_told_from_text(text: str, wanted: list[str]) -> None:
    assert programs(text) == wanted


@pytest.mark.parametrize(
    "text",
    ["'", '"', "$(", "${", "`", "if a", "case x in", "{ a", ")", "a | ", "<<X\nno end", "fi )) ;; && |"],
)
def test_what_is_not_closed_is_noticed(text: str) -> None:
    assert not parse(text).complete


@settings(max_examples=150, deadline=None)
@given(st.text(alphabet="ab \n\t;|&<>(){}[]'\"$`\\#!*=-0123ifdoneesactheforx", max_size=60))
def test_no_text_breaks_the_parser(text: str) -> None:
    script = parse(text)
    for simple, _ in commands(script.body):
        line, column = script.place(simple.offset)
        assert 1 <= line <= text.count("\n") + 1
        assert column >= 1


PIECES = [
    "pytest", "set +e", "set -e", "rc=$?", "exit $?", "exit 0", "$rc", "pid=$!", "wait", "trap", "'rm x; exit $?'", "EXIT",
    "((n++))", "if", "then", "else", "elif", "fi", "!", "case", "in", "0|1)", "*)", ";;", "esac", "for", "i", "$(seq 3)", "{1..4}",
    "((i=0;i<9;i++))", "do", "done", "while", "sleep 9", "timeout 99", "continue", "export x=$(a)", "< <(pytest)", "python -c",
    "'import pytest; pytest.main()'", "python <<X", "X", "f() {", "{", "}", "(", ")", "&", "&&", "||", "|", ";", "\n", "\n",
]  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=30))
def test_no_script_breaks_a_rule_and_every_fault_has_a_place(pieces: list[str]) -> None:
    script = parse(" ".join(pieces))
    found = [fault.offset for strict in (STRICT, None) for fault in statuses(script, strict, "exit $rc")]
    found += [wait.offset for wait in waits(script)]
    assert all(0 <= offset <= len(script.text) for offset in found)


def test_deep_nesting_ends_in_an_incomplete_tree_and_no_crash() -> None:
    for text in ("(" * 5000, "${" * 5000, "$(" * 5000, "{ " * 5000, "if " * 5000, '"$(' * 3000):
        assert not parse(text).complete


def test_every_script_of_this_repository_is_understood_as_bash_understands_it() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", "--", "*.sh", "dev", ".ci/run"],
        cwd=ROOT, capture_output=True, check=True,
    )  # fmt: skip
    scripts = [ROOT / name for name in listed.stdout.decode().split("\0") if name and (ROOT / name).is_file()]
    assert len(scripts) > 20
    for script in scripts:
        assert parse(script.read_text(encoding="utf-8")).complete, script


def test_places_count_from_one() -> None:
    script = parse("a\n  b | c\n")
    assert [script.place(simple.offset) for simple, _ in commands(script.body)] == [(1, 1), (2, 3), (2, 7)]


def test_what_is_around_a_command_is_known() -> None:
    text = "a; b && c; if d; then e; fi; f() { g; h || i; }; (j); k | l"
    around = {
        simple.texts[0]: (inside.function, inside.conditional, inside.child)
        for simple, inside in commands(parse(text).body)
    }
    assert around == {
        "a": ("", False, False), "b": ("", False, False), "c": ("", True, False), "d": ("", True, False),
        "e": ("", True, False), "g": ("f", False, False), "h": ("f", False, False), "i": ("f", True, False),
        "j": ("", False, True), "k": ("", False, True), "l": ("", False, True),
    }  # fmt: skip


STRICTNESS = {
    "in one": ("set -euo pipefail", STRICT),
    "with errtrace": ("set -Eeuo pipefail", STRICT),
    "in words": ("set -o errexit -o nounset -o pipefail", STRICT),
    "on three lines": ("set -e\nset -u\nset -o pipefail", STRICT),
    "by the first line": ("#!/bin/bash -eu\nset -o pipefail", STRICT),
    "by shopt": ("set -eu\nshopt -s -o pipefail", STRICT),
    "by setup-env.sh": ("source harness/setup-env.sh", STRICT),
    "by setup-env.sh of some folder": ('. "$here/../../harness/setup-env.sh"', STRICT),
    "by a file that is sourced": ("source lib/strict.sh", STRICT),
    "after a cd": ('cd "$(dirname "$0")"\nset -euo pipefail', STRICT),
    "without pipefail": ("set -eu", {"errexit", "nounset"}),
    "in a function, which may never be called": ("f() { set -euo pipefail; }", set()),
    "in a child": ("(set -euo pipefail)", set()),
    "in a comment": ("# set -euo pipefail", set()),
    "in a string": ("echo 'set -euo pipefail'", set()),
    "positional parameters": ("set -- -e", set()),
    "turned off": ("set +e", set()),
    "nowhere": ("pytest", set()),
}


@pytest.mark.parametrize(("text", "wanted"), STRICTNESS.values(), ids=STRICTNESS)
def test_strict_options_are_found(text: str, wanted: set[str]) -> None:
    files = {"lib/strict.sh": "set -euo pipefail\n"}
    assert strictness(parse(text), files.get) == wanted


def test_files_that_source_each_other_end() -> None:
    assert strictness(parse("source a.sh"), lambda _: "source a.sh\nset -e") == {"errexit"}


TESTS = [
    "pytest", "pytest tests -x", "python -m pytest", "python3.11 -m pytest -q", "timeout 600 pytest",
    "timeout -k 5 --signal TERM 10m pytest", "env -u B A=1 pytest", "exec pytest", "nice -n 5 pytest",
    "uv run pytest", "uv run --with x python -m pytest", "poetry run pytest", "coverage run -m pytest",
    "python -m coverage run -m pytest", "stdbuf -oL pytest", "./run.sh", "k3_tests/unit/run.sh",
    "bash scripts/run-p2p.sh", "python tests/test_api.py", "python -u test_api.py", "scripts/run_tests.sh",
    "go test ./...", "make check", "npm test", "tox -e py311", "bats tests", "lm_eval --tasks gsm8k",
    "python -m unittest discover", "/usr/bin/pytest",
]  # fmt: skip
NO_TESTS = [
    "pip install pytest", "echo pytest", "pytest --version", "pytest --collect-only", "grep -c pytest log",
    "rm -f run.sh", "cat run.sh", "python -c 'import pytest'", "python setup.py install", "kill %1",
    "nvidia-smi", "python -m pip install pytest", "make clean", "", "env", "timeout 5", "command -v pytest",
    "bash -c pytest", "./setup.sh", "docker run image",
]  # fmt: skip


@pytest.mark.parametrize("text", TESTS)
def test_a_test_is_recognised(text: str) -> None:
    assert is_test(text.split())


@pytest.mark.parametrize("text", NO_TESTS)
def test_something_else_is_no_test(text: str) -> None:
    assert not is_test(text.split())


def test_wrappers_are_taken_off() -> None:
    words = [
        "env",
        "-u",
        "A",
        "B=1",
        "timeout",
        "-k",
        "5",
        "60",
        "nice",
        "-n",
        "3",
        "uv",
        "run",
        "pytest",
        "-x",
    ]
    assert unwrapped(words) == ["pytest", "-x"]


PASSES = {
    "true": True, ":": True, "/bin/true": True, "echo failed": True, "exit 0": True, "return 0": True,
    "{ echo failed; }": True, "(cat log; true)": True, "exit 1": False, "exit": False, 'exit "$status"': False,
    "status=$?": False, "{ echo failed; exit 1; }": False, "die 'no'": False, "false": False,
}  # fmt: skip


@pytest.mark.parametrize(("text", "wanted"), PASSES.items(), ids=PASSES)
def test_what_always_passes_is_known(text: str, wanted: bool) -> None:
    assert always_passes(parse(text).body[0].pipelines[0].nodes[0]) is wanted


LOST = {
    "a test in a pipe to tee": ("pytest | tee log", ["script-pipe-hides-status"]),
    "a group in a pipe to tee": ("{ pytest; } 2>&1 | tee log", ["script-pipe-hides-status"]),
    "anything in a pipe to tee": ("python bench.py | tee log", ["script-pipe-hides-status"]),
    "a test in any pipe": ("pytest 2>&1 | grep -v Warning", ["script-pipe-hides-status"]),
    "a test in a pipe in a substitution": ("out=$(pytest | tail -n 1)", ["script-pipe-hides-status"]),
    "an echo cannot fail": ("echo begin | tee log", []),
    "a pipe in a string is none": ("bash -c 'a | tee b' >c; echo 'pytest | tee d'", []),
    "a pipe that is no test's": ("ps aux | grep vllm", []),
    "somebody who looks at PIPESTATUS": ('pytest | tee log\nexit "${PIPESTATUS[0]}"', []),
    "a test or true": ("pytest || true", ["script-status-ignored"]),
    "a test or a colon": ("pytest || :", ["script-status-ignored"]),
    "a test or an echo": ("timeout 60 pytest || echo failed", ["script-status-ignored"]),
    "a test or exit 0": ("./run_tests.sh || exit 0", ["script-status-ignored"]),
    "a group with a test or true": ("{ cd a && pytest; } || true", ["script-status-ignored"]),
    "a test and something, or true": ("pytest && upload || true", ["script-status-ignored"]),
    "a test or a group that says so": ("pytest || { echo failed; }", ["script-status-ignored"]),
    "a test or a group that fails": ("pytest || { echo failed; exit 1; }", []),
    "a test or its status": ('pytest || status=$?\nexit "$status"', []),
    "something else or true": ("grep -c x log || true; kill $p || :", []),
    "or true in a comment": ("pytest # || true", []),
    "a trap that exits 0": ("trap 'rm -f x; exit 0' EXIT", ["script-trap-exit-zero"]),
    "a trap in double quotes": ('trap "exit 0" TERM INT', ["script-trap-exit-zero"]),
    "a trap behind --": ("trap -- 'exit 0' EXIT", ["script-trap-exit-zero"]),
    "a function for a trap": ("end() { rm x; exit 0; }\ntrap end EXIT", ["script-trap-exit-zero"]),
    "a function called by a trap": ("end() { exit 0; }\ntrap 'echo; end' EXIT", ["script-trap-exit-zero"]),
    "one function for two traps": ("end() { exit 0; }\ntrap end EXIT\ntrap end TERM", ["script-trap-exit-zero"]),
    "a trap that keeps the status": ("trap 's=$?; rm x; exit $s' EXIT", []),
    "a trap that exits 0 now and then": ("trap '[ -z \"$x\" ] && exit 0' EXIT", []),
    "a trap taken back": ("trap - EXIT", []),
    "a trap that cleans up first": ("trap 'rm -rf x; exit $?' EXIT", ["script-trap-late-status"]),
    "a trap that keeps the status too late": ("trap 'rm x; s=$?; exit $s' EXIT", ["script-trap-late-status"]),
    "a trap that declares first": (
        'end() { local s; s=$?; rm x; exit "$s"; }\ntrap end EXIT', ["script-trap-late-status"]),
    "a trap on ERR that speaks first": ("trap 'echo failed; exit $?' ERR", ["script-trap-late-status"]),
    "a trap that leaves at once": ("trap 'exit $?' EXIT; trap 'rm x; exit' TERM; trap 'rm x; exit 1' INT", []),
    "a trap's function that keeps the status": ('end() { local s=$?; rm x; exit "$s"; }\ntrap end EXIT', []),
    "a trap that leaves now and then": ("trap 'rm x || exit $?; [ -z $x ] || exit $?' EXIT", []),
    "a trap that hands the status on": ("end() { rm x; exit $1; }\ntrap 'end $?' EXIT", []),
    "a name that is set before only": (
        'rc=0\necho "$rc"\npytest || rc=$?\nexit 0', ["script-status-unread"]),
    "a name that a trap reads": ("trap 'exit $rc' EXIT\npytest || rc=$?", []),
    "a name that a function reads": ("f() { exit $rc; }\npytest || rc=$?\nf", []),
    "a name that the loop reads": ("for t in a; do\n [ \"$rc\" = 0 ] || exit\n pytest $t || rc=$?\ndone", []),
    "a name that arithmetic reads": ("pytest || rc=$?\n((rc == 0)) || exit 1", []),
    "a name that a sourced file may read": ("pytest || rc=$?\n. ./end.sh", []),
    "the status of something else": ("grep -q x log || found=$?", []),
    "a local name": ("f() { local rc=0; pytest || rc=$?; }\nf", ["script-status-unread"]),
    "failure and success behind a case": (
        "pytest || rc=$?\ncase $rc in 0 | 1) ;; *) exit $rc ;; esac", ["script-failure-grouped"]),
    "every status leaves well": (
        "pytest || rc=$?\ncase ${rc} in 0) echo y; exit 0 ;; *) exit 0 ;; esac", ["script-failure-grouped"]),
    "failure and success in a function": (
        "f() { local rc=0; pytest || rc=$?; case $rc in [01]) return 0 ;; esac; return $rc; }",
        ["script-failure-grouped"]),
    "a case on the status itself": (
        "set +e\npytest\ncase $? in 0|1) exit 0 ;; *) exit 1 ;; esac", ["script-failure-grouped"]),
    "a case that only says something": (
        "pytest || rc=$?\ncase $rc in 0|1) echo ended ;; *) echo odd ;; esac\nexit $rc", []),
    "no tests and success": ("pytest || rc=$?\ncase $rc in 0|5|77) exit 0 ;; *) exit $rc ;; esac", []),
    "a case on grep's status": ("grep x log || rc=$?\ncase $rc in 0|1) exit 0 ;; *) exit $rc ;; esac", []),
    "a test that must fail": ("pytest || rc=$?\ncase $rc in 1) exit 0 ;; *) exit 1 ;; esac", []),
    "a case and another attempt": ("pytest || rc=$?\ncase $rc in 0|1) ;; *) exit 1 ;; esac\npytest --lf", []),
    "a status that is printed": ("if pytest; then echo y; else echo n; fi", ["script-failure-printed"]),
    "a status that an if swallows": ("if pytest; then ./upload; fi", ["script-failure-printed"]),
    "a status that a negated if swallows": ("if ! pytest; then cat log; fi", ["script-failure-printed"]),
    "an if that leaves": ("if pytest; then exit 0; else echo n; fi; exit 1", []),
    "an if that keeps": ("if ! pytest; then failed=1; fi\nexit $failed", []),
    "an if that keeps the success": ("ok=0; if pytest; then ok=1; else echo n; fi; exit $((1 - ok))", []),
    "an if that calls something": ("if pytest; then echo y; else ./report; fi; if pytest; then f; else die; fi", []),
    "an if that calls what leaves": ("die() { exit 1; }\nif pytest; then echo y; else die; fi", []),
    "an if that notes a file": ("if pytest; then :; else echo n >bad; fi\n[ ! -s bad ]", []),
    "an if that tries again": ("for i in 1 2; do if pytest; then break; else sleep 1; fi; done", []),
    "an if on no test": ("if ./check-gpu.sh; then echo y; else echo n; fi", []),
    "an if with two tests": ("if pytest && a; then echo y; fi", []),
    "errexit off and on": ("set +e\npytest\nset -e", ["script-status-passed-over"]),
    "errexit off in words": ("set +o errexit\npytest\necho x", ["script-status-passed-over"]),
    "errexit off around a loop": ("set +e\nfor t in a b; do pytest $t; done", ["script-status-passed-over"]),
    "errexit off in a subshell": ("(set +e; pytest; echo x)\npytest\nmake", ["script-status-passed-over"]),
    "errexit off at the end": ("set +e\nrm x\npytest", []),
    "errexit off and asked in an if": ("set +e\npytest\nif [ $? -ne 0 ]; then exit 1; fi", []),
    "errexit off and PIPESTATUS": ("set +e\npytest | tee x\nrc=${PIPESTATUS[0]}\nset -e\nexit $rc", []),
    "errexit on again": ("set +e\nrm x\nset -e\npytest\necho x", []),
    "errexit off and the log read": ("set +e\npytest >x.log\nread-log x.log", []),
    "errexit off and no test": ("set +e\nkill $p\n./run-server.sh\necho x", []),
    "a test in the background": ("pytest a & pytest b & wait", ["script-background-unasked"] * 2),
    "a test in the background of a loop": (
        "for t in a b; do pytest $t & done\nwait", ["script-background-unasked"]),
    "a number that nobody uses": ("pytest & p=$!\nwait", ["script-background-unasked"]),
    "a number that is waited for": ('pytest & p=$!\nwait "$p"', []),
    "the next that ends": ("pytest & make & wait -n", []),
    "numbers in an array": ('pytest & pids+=($!)\nf "${pids[@]}"', []),
    "a group that keeps its status": ("(pytest; echo $? >s) &\nwait; exit $(cat s)", []),
    "a server in the background": ("./run-server.sh & sleep 5; wait", []),
    "a loop that goes on": ("for t in a b; do pytest $t || continue; done", ["script-status-ignored"]),
    "a loop that says so": ("for t in a; do pytest $t || { echo n; continue; }; done", ["script-status-ignored"]),
    "a loop that keeps it": ("for t in a; do pytest $t || { bad+=($t); continue; }; done", []),
    "a loop that tries again": ("for i in 1 2; do pytest || continue; exit 0; done; exit 1", []),
    "a test or a group that keeps it": ("pytest || { failed=1; echo n; }", []),
    "a test or a line in a file": ('pytest || echo n >>bad\n[ ! -s bad ]', []),
    "local and a command": ("f() { local x=$(cmd); }", ["script-status-masked"]),
    "readonly and a command": ('readonly x="a-$(cmd)"', ["script-status-masked"]),
    "export and what cannot fail": ('export P="$(pwd)/x" Q="$(cmd || echo 0)" R=$((1 + 1))', []),
    "local and an array": ('f() { local x=(a "$(cmd)"); }', []),
    "an assignment and a command": ("x=$(cmd); export x", []),
    "a test in a process substitution": ("tee x < <(pytest)", ["script-process-unasked"]),
    "a process substitution that is waited for": ("tee x < <(pytest)\nwait $!", []),
    "a process substitution of a list": ("mapfile -t x < <(pytest --co -q); diff <(a) <(b)", []),
    "a counter": ("n=0\nfor i in a; do ((n++)); done; let n++", ["script-counter-ends"] * 2),
    "a counter behind a condition": ("n=0\n[ -f x ] && (( n++ ))", ["script-counter-ends"]),
    "a counter that is not alone": ("n=0\n((n++)) || true; ((++n)); ((n += 1)); while ((n++ < 5)); do :; done", []),
    "a counter above zero": ("n=1\n((n++))", []),
    "a counter in the head of a loop": ("for ((i = 0; i < 3; i++)); do a; done", []),
    "a name in a group": ("pytest || { rc=$?; echo failed; }\nexit 0", ["script-status-unread"]),
    "a name in a group that leaves": ("pytest || { rc=$?; exit 1; }", []),
    "a name in an else": ("if pytest; then rc=0; else rc=$?; fi\nexit $status", ["script-status-unread"]),
    "a name in an else that is read": ("if pytest; then rc=0; else rc=$?; fi\nexit $rc", []),
    "a name in an else and a case": (
        'if pytest; then rc=0; else rc=$?; fi\ncase "${rc:-0}" in 0|1) exit 0 ;; *) exit 1 ;; esac',
        ["script-failure-grouped"]),
    "a function that is a test": ("t() { cd a; pytest; }\nt || rc=$?\nexit 0", ["script-status-unread"]),
    "a function that is a test, in the background": ("t() { pytest; }\nt &\nwait", ["script-background-unasked"]),
    "a function that is a test, without errexit": (
        "t() (pytest)\nset +e\nt\necho x", ["script-status-passed-over"]),
    "a function that keeps the failure": ("t() { pytest || bad=1; }\nt || rc=$?\nexit $bad", []),
    "a negation that is kept": ("if ! pytest; then rc=$?; fi\nexit $rc", ["script-status-negated"]),
    "a negation that is not asked": ("if ! pytest; then echo no; exit 1; fi", []),
    "a negation of something else": ("if ! mkdir x; then exit $?; fi", []),
    "exit 0 without a trap": ("end() { exit 0; }\ntrap 'rm x' EXIT", []),
}  # fmt: skip


@pytest.mark.parametrize(("text", "wanted"), LOST.values(), ids=LOST)
def test_lost_statuses_are_found(text: str, wanted: list[str]) -> None:
    assert [fault.code for fault in statuses(parse(text), frozenset({"errexit"}))] == wanted


def test_pipefail_keeps_a_pipe_honest() -> None:
    assert not list(statuses(parse("pytest | tee log"), STRICT))


def test_a_file_that_is_only_sourced_does_not_decide_on_pipefail() -> None:
    assert not list(statuses(parse("f() { pytest | tee log; }"), None))
    assert list(statuses(parse("f() { pytest || true; }"), None))


WAITS = {
    "wait_until_ready": ('wait_until_ready "$p" http://x 600 log', [600]),
    "with a default": ('wait_until_ready "$p" u "${READY:-900}" log', [900]),
    "timeout in seconds": ("timeout 600 a", [600]),
    "timeout in minutes": ("timeout 10m a", [600]),
    "timeout with options": ("timeout -k 5 --signal=KILL --preserve-status 2h a", [7200]),
    "a variable is not known": ('timeout "$T" a; wait_until_ready 1 u "$S" l', []),
    "in a string": ("echo 'timeout 600 a'", []),
    "sleep": ("sleep 30; sleep 0.5; sleep 2m; sleep infinity", [30, 0.5, 120]),
    "in the background": ("timeout 600 a & { sleep 5; b; } &", []),
    "a loop over seq": ("for i in $(seq 240); do a && break; sleep 10; done", [2400]),
    "a loop over seq from here to there": ("for i in $(seq 3 12) x; do sleep 2; done", [22]),
    "a loop over seq in steps": ("for i in $(seq 0 5 20); do sleep 1; done", [5]),
    "a loop over seq with a default": ('for i in $(seq "${TRIES:-60}"); do sleep 10; done', [600]),
    "a loop over braces": ("for i in {1..240}; do sleep 10; done", [2400]),
    "a loop that counts": ("for ((i = 0; i < 30; i++)); do sleep 10; done", [300]),
    "a loop that counts to the last": ("for ((i=1;i<=30;i+=1)); do sleep 10; done", [300]),
    "a loop over words": ('for t in a "b c" d; do timeout 600 pytest "$t" || bad=1; sleep 5; done', [1815]),
    "a loop in a loop": ("for i in 1 2; do for j in 1 2 3; do sleep 1; done; done", [6]),
    "a loop over what nobody knows": (
        'for t in "$@" *.py; do sleep 7; done; for t; do sleep 8; done',
        [7, 8],
    ),
    "a loop with a condition": ("for i in $(seq 9); do if a; then sleep 7; fi; done", [7]),
    "a loop until something": ("until a; do sleep 5; done; while b; do sleep 6; done", [5, 6]),
}


@pytest.mark.parametrize(("text", "wanted"), WAITS.values(), ids=WAITS)
def test_written_waits_are_read(text: str, wanted: list[int]) -> None:
    assert [wait.seconds for wait in waits(parse(text))] == wanted


INLINE = {
    "after -c": ("python -W ignore -c 'import pytest; pytest.main()'", [(1, 21)]),
    "behind what starts it": ("timeout 60 uv run python3.12 -c 'import pytest\npytest.main()'", [(1, 33)]),
    "in a heredoc": ("python <<X\nimport pytest\nif 1:\n  pytest.main()\nX", [(4, 3)]),
    "in an indented heredoc": (
        "if a; then\n\tpython - x <<-X\n\timport pytest\n\tpytest.main()\n\tX\nfi",
        [(4, 2)],
    ),
    "in a heredoc with tabs of its own": ("python <<X\nimport pytest\nif 1:\n\tpytest.main()\nX", [(4, 2)]),
    "kept and left with": ("python -c 'import sys, pytest; sys.exit(pytest.main())'", []),
    "no Python, for the shell fills it in": ('python -c "import pytest; pytest.main($ARGS"', []),
    "a file's standard input": ("python a.py <<X\nimport pytest\npytest.main()\nX", []),
    "a module's standard input": ("python -m a <<X\nimport pytest\npytest.main()\nX", []),
    "another program's": ("cat <<X\nimport pytest\npytest.main()\nX\nruby -c 'pytest.main()'; python", []),
}


@pytest.mark.parametrize(("text", "wanted"), INLINE.values(), ids=INLINE)
def test_python_in_a_script_is_looked_at(text: str, wanted: list[tuple[int, int]]) -> None:
    script = parse(text)
    assert [script.place(fault.offset) for fault in inline_faults(script)] == wanted


def test_python_files_that_a_script_starts_are_found_from_the_root_or_beside_it() -> None:
    text = 'python a.py; python -u "$(dirname "$0")/b.py" x; exec python3 ../../c/d.py; python ../../../e.py; cat f.py'
    assert list(started_files("k3_tests/unit/run.sh", parse(text))) == [
        ("a.py", "k3_tests/unit/a.py"), ("b.py", "k3_tests/unit/b.py"), ("c/d.py",), (),
    ]  # fmt: skip


def test_only_a_wait_that_always_comes_by_is_certain() -> None:
    text = (
        "timeout 1 a\nif b; then timeout 2 a; fi\nf() { timeout 3 a; }\n(timeout 4 a)\n"
        "for i in 1 2; do sleep 5; done\na || sleep 6\n{ sleep 7; }\nuntil a; do sleep 8; done"
    )
    assert [(wait.seconds, wait.certain) for wait in waits(parse(text))] == [
        (1, True), (2, False), (3, False), (4, False), (10, True), (6, False), (7, True), (8, False),
    ]  # fmt: skip


def test_the_parts_of_a_compound_are_told_apart() -> None:
    text = "if a; then b; elif c; then d; else e; fi; case $x in 0 | 1) f ;; *) g ;; esac; for i in 1 2; do h; done"
    parts = [
        (
            branch.kind,
            [word.text for word in branch.words],
            [" ".join(one.texts) for one, _ in commands(branch.body)],
        )
        for and_or in parse(text).body
        for node in and_or.nodes
        if isinstance(node, Compound)
        for branch in node.branches
    ]
    assert parts == [
        ("test", [], ["a"]), ("then", [], ["b"]), ("test", [], ["c"]), ("then", [], ["d"]), ("else", [], ["e"]),
        ("in", [], []), ("case", ["0", "1"], ["f"]), ("case", ["*"], ["g"]),
        ("in", ["1", "2"], []), ("do", [], ["h"]),
    ]  # fmt: skip


def test_what_ends_a_list_is_kept() -> None:
    a, b, c = parse("a & ! b; c < <(d)").body
    assert (a.background, b.background, b.pipelines[0].negated) == (True, False, True)
    node = c.nodes[0]
    assert isinstance(node, Simple)
    assert [one.process for one in node.inner] == [True]


def test_heredocs_and_written_files_are_kept() -> None:
    script = parse("a <<-X 2>&1 >f &>>g\n\tb\n\tX\nc")
    node = script.body[0].nodes[0]
    assert isinstance(node, Simple)
    assert node.targets == ("f", "g")
    (document,) = (script.documents[offset] for offset in node.documents)
    assert (document.text, script.place(document.offset)) == ("\tb\n", (2, 1))


def test_a_function_is_a_compound_with_its_name() -> None:
    node = parse("f() { a; }").body[0].pipelines[0].nodes[0]
    assert isinstance(node, Compound)
    assert (node.kind, node.name) == ("function", "f")
