"""Tables of docs/e2b.md from results in JUnit's form: table.py PAGE SDK=results.xml[:files] ….

Counted are the tests that ask the daemon: those that the plugin has marked, or those of `files`, a list. For each part
of a suite: tests that pass, that do not apply (reasons.json says which, and why), and that fail. The tables are printed,
and replace those between the marks of the page. Exits with 1 if a test fails that should not."""

import json
import pathlib
import re
import sys
import textwrap
import xml.etree.ElementTree as xml

REASONS = json.loads((pathlib.Path(__file__).parent / "reasons.json").read_text())
BEGIN, END = "<!-- tests: written by scripts/test-e2b.sh -->\n", "<!-- end of tests -->"


def cases(path, files):
    """Names and outcomes of the tests that ask the daemon; None for the others."""
    for case in xml.parse(path).getroot().iter("testcase"):
        file = case.get("file") or case.get("classname", "")
        name = f"{file} {case.get('name', '')}"
        name = name.replace("tests.", "").replace(".", "/") if "::" not in name else name
        live = any(each.get("name") == "live" for each in case.iter("property")) if files is None else file in files
        if not live:
            yield name, None
        elif case.find("skipped") is not None:
            yield name, "skipped"
        else:
            failed = case.find("failure") is not None or case.find("error") is not None
            yield name, "failed" if failed else "passed"


def part_of(name):
    for pattern, part in REASONS["parts"].items():
        if re.search(pattern, name):
            return part
    return "others"


def reason_of(name):
    return next((why for pattern, why in REASONS["reasons"].items() if re.search(pattern, name)), None)


class Suite:
    def __init__(self, sdk, path, files):
        self.sdk, self.rows, self.reasons, self.failures, self.without = sdk, {}, {}, [], 0
        for name, outcome in cases(path, files):
            if outcome is None:
                self.without += 1
                continue
            row = self.rows.setdefault(part_of(name), {"passed": 0, "skipped": 0, "excused": 0, "failed": 0})
            why = reason_of(name) if outcome == "failed" else None
            if outcome == "skipped":
                why = "skipped by the suite itself"
            if why is not None:
                self.reasons[why] = self.reasons.get(why, 0) + 1
            if outcome == "failed" and why is not None:
                outcome = "excused"
            if outcome == "failed":
                self.failures.append(name)
            row[outcome] += 1

    def count(self, part, *outcomes):
        rows = self.rows.values() if part == "all" else [self.rows.get(part, {})]
        return sum(row.get(outcome, 0) for row in rows for outcome in outcomes)


def wrap(text):
    return textwrap.fill(" ".join(text.split()), 120, subsequent_indent="  " if text.startswith("- ") else "")


def tables(suites):
    heads = " | ".join(f"{suite.sdk}: pass | do not apply | fail" for suite in suites)
    lines = [f"| tests that ask the daemon | {heads} |", "|---" * (1 + 3 * len(suites)) + "|"]
    for part in [*sorted({part for suite in suites for part in suite.rows}), "all"]:
        cells = [
            f"{suite.count(part, 'passed')} | {suite.count(part, 'excused', 'skipped')} | {suite.count(part, 'failed')}"
            for suite in suites
        ]
        lines.append(f"| {part} | {' | '.join(cells)} |")
    lines += ["", f"| why not | {' | '.join(suite.sdk for suite in suites)} |", "|---" * (1 + len(suites)) + "|"]
    reasons = {why for suite in suites for why in suite.reasons}
    for why in sorted(reasons, key=lambda why: (-sum(suite.reasons.get(why, 0) for suite in suites), why)):
        lines.append(f"| {why} | {' | '.join(str(suite.reasons.get(why, 0)) for suite in suites)} |")
    failing = [wrap(f"- {suite.sdk}: `{name}`") for suite in suites for name in suite.failures]
    if failing:
        lines += ["", "Tests that fail:", "", *failing]
    others = ", ".join(f"{suite.without} of {suite.sdk}" for suite in suites)
    lines += ["", wrap(f"Tests that ask no daemon are not counted: {others}.")]
    return "\n".join(lines) + "\n"


def main(page, about, *arguments):
    suites = []
    for argument in arguments:
        sdk, paths = argument.split("=", 1)
        path, _, files = paths.partition(":")
        suites.append(Suite(sdk, path, set(pathlib.Path(files).read_text().split()) if files else None))
    text = f"{wrap(pathlib.Path(about).read_text())}\n\n{tables(suites)}"
    print(text)
    before, rest = pathlib.Path(page).read_text().split(BEGIN)
    pathlib.Path(page).write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.split(END, 1)[1]}")
    return 1 if any(suite.failures for suite in suites) else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
