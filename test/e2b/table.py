"""Writes the table of docs/e2b.md from results in JUnit's form: table.py SDK=results.xml…

For each part of a suite: tests that pass, that do not apply (reasons.json says which, and why), and that fail. Exits
with 1 if a test fails that should not."""

import json
import pathlib
import re
import sys
import xml.etree.ElementTree as xml

REASONS = json.loads((pathlib.Path(__file__).parent / "reasons.json").read_text())


def cases(path):
    for case in xml.parse(path).getroot().iter("testcase"):
        name = f"{case.get('file') or case.get('classname', '')} {case.get('name', '')}"
        name = name.replace("tests.", "").replace(".", "/") if "::" not in name else name
        if case.find("skipped") is not None:
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


def main(arguments):
    failures = []
    for argument in arguments:
        sdk, path = argument.split("=", 1)
        rows, reasons = {}, {}
        for name, outcome in cases(path):
            row = rows.setdefault(part_of(name), {"passed": 0, "skipped": 0, "excused": 0, "failed": 0})
            why = reason_of(name) if outcome == "failed" else None
            if why is not None:
                reasons[why] = reasons.get(why, 0) + 1
                outcome = "excused"
            row[outcome] += 1
            if outcome == "failed":
                failures.append(f"{sdk}: {name}")
        print(f"\n{sdk}:\n\n| part | pass | do not apply | fail |\n|---|---|---|---|")
        for part, row in sorted(rows.items()):
            print(f"| {part} | {row['passed']} | {row['excused'] + row['skipped']} | {row['failed']} |")
        total = {key: sum(row[key] for row in rows.values()) for key in ("passed", "excused", "skipped", "failed")}
        print(f"| all | {total['passed']} | {total['excused'] + total['skipped']} | {total['failed']} |")
        print("\n| do not apply | tests |\n|---|---|")
        for why, count in sorted(reasons.items(), key=lambda each: -each[1]):
            print(f"| {why} | {count} |")
        if total["skipped"]:
            print(f"| skipped by the suite itself | {total['skipped']} |")
    for failure in failures:
        print(f"failed: {failure}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
