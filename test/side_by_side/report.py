# SPDX-License-Identifier: BSD-3-Clause
"""Makes a table, and a file of JSON, of rows (test/side_by_side/rows) and records
(scenarios.sh): "SCENARIO with|without FIGURE VALUE". The last one counts; of what a job
said, the first. Fails only where a record is missing.

usage: report.py JSON UCX-VERSION ROWS RECORDS
"""

import json
import sys

TRACE = (("right", "more", "{}: messages that arrived right"),
         ("registrations", "less", "registrations with the NIC"),
         ("exports", "less", "exports"), ("driver_calls", "less", "calls of the driver"),
         ("copied", "less", "bytes staged"))
SIDES = {"without": "UCX alone", "with": "with the plug-in"}


def read_rows(name):
    """Each row, with the heading above it."""
    heading = None
    for line in open(name, encoding="utf-8"):
        scenario, figure, *rest = line.split(maxsplit=2) + [""]
        if line.startswith("= "):
            heading = line[2:].rstrip()
        elif figure == "trace:":
            for each, better, text in TRACE:
                yield heading, scenario, each, better, text.format(rest[0].rstrip())
                heading = None
        elif line[0].islower():
            yield (heading, scenario, figure, *rest[0].rstrip().split(maxsplit=1))
            heading = None


def read_records(name):
    last, said = {}, {}
    for line in open(name, encoding="utf-8"):
        scenario, side, figure, value = line.rstrip("\n").split(maxsplit=3)
        if figure == "said":
            said.setdefault((scenario, side), value.translate({34: None, 92: None}))
        else:
            last[scenario, side, figure] = int(value)
    return last, said


def shown(last, scenario, side, figure):
    value = last.get((scenario, side, figure))
    if value is None:
        return "none"
    if figure == "right":
        return (f"{value} of {last[scenario, side, 'messages']}"
                + " *" * (last[scenario, side, "status"] != 0))
    if figure.startswith(("copied", "pinned")) and value >= 2 ** 20:
        return f"{value / 2 ** 20:.1f} MiB"
    return str(value)


def judge(figure, better, values, right):
    """A job may end before it can say; and what was not done costs nothing."""
    if None in values.values() or (figure != "right" and right["with"] != right["without"]):
        return "-"
    if values["with"] == values["without"]:
        return "same"
    return "better" if (values["with"] < values["without"]) == (better == "less") else "worse"


def main(target, ucx, rows_name, records_name):
    rows, ended, missing = [], [], []
    last, said = read_records(records_name)
    scenarios = {}
    print(f"  {'':58} {'UCX alone':>14} {'with plug-in':>14}")
    for heading, scenario, figure, better, text in read_rows(rows_name):
        if heading:
            print(f"\n{heading}")
        scenarios[scenario] = True
        if any((scenario, side, "status") not in last for side in SIDES):
            missing.append(f"{scenario}.{figure}")
            continue
        values, right, of = ({side: last.get((scenario, side, each)) for side in SIDES}
                             for each in (figure, "right", "messages"))
        verdict = judge(figure, better, values, right)
        print(f"  {text:58} {shown(last, scenario, 'without', figure):>14} "
              f"{shown(last, scenario, 'with', figure):>14}  {verdict}")
        rows.append({"scenario": scenario, "figure": figure, "text": text, "better": better,
                     **values, "verdict": verdict})
        if figure == "right":
            rows[-1]["of"] = max(each or 0 for each in of.values())
    print("\n* ended before its end, or with an error:")
    for scenario in scenarios:
        for side, name in SIDES.items():
            if last.get((scenario, side, "status")):
                line = f"status {last[scenario, side, 'status']}, {said.get((scenario, side), '')}"
                print(f"  {scenario}, {name}: {line}")
                ended.append({"scenario": scenario, "side": side, "said": line})
    print("\nSimulated: the GPU, and the NIC by soft-RoCE, which moves data with the CPU.")
    with open(target, "w", encoding="utf-8") as file:
        lines = [",\n  ".join(map(json.dumps, each)) for each in (rows, ended)]
        file.write(f'{{"ucx": "{ucx}",\n "rows": [\n  {lines[0]}],\n "ended": [\n  {lines[1]}],\n'
                   ' "simulated": ["GPU", "NIC"]}\n')
    if missing:
        sys.exit("no record of: " + " ".join(missing))


main(*sys.argv[1:])
