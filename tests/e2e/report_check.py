"""Checks reports: each number of a page is that of --json, names are escaped, a file that cannot be written is refused
before the run, and the command on the page repeats the run. A headless Chromium then opens the pages in three widths,
light and dark. report_test.sh runs this file.

SPDX-License-Identifier: Apache-2.0
"""

import html.parser
import json
import os
import random
import signal
import subprocess
import sys

from browser import Browser, missing

TUG = os.environ["TUG_BINARY"]
EVIL, FILE = "<script>alert(1)</script>", "a&b <i>'x'.csv"
TRAIN = ["train", "--data", "train.csv", "--format", "csv", "--label", "y", "--deterministic", "--model", "fm", "--threads", "2"]


def tug(*words, code=0):
    run = subprocess.run([TUG, *words], capture_output=True, text=True)
    if run.returncode != code:
        sys.exit(f"tug {words}\nended with {run.returncode}: {run.stdout}{run.stderr}")
    return run.stdout if code == 0 else run.stderr


def result(*words):
    return json.loads(tug(*words, "--json").splitlines()[-1])


def expect(fact, what):
    if not fact:
        sys.exit(f"report: {what}")


def write_data():
    draw = random.Random(5)
    for name, rows in (("train.csv", 4000), (FILE, 1500)):
        with open(name, "w", encoding="utf-8") as file:
            file.write(f"y,user,{EVIL},n\n")
            for _ in range(rows):
                user, ad = draw.randrange(60), draw.randrange(12 if name == "train.csv" else 14)
                clicked = draw.random() < 0.1 + 0.5 * (user % 3 == ad % 3)
                file.write(f"{int(clicked)},u{user},a{ad},{draw.randrange(9)}\n")


class Page(html.parser.HTMLParser):
    """A page's numbers by their place in the result, its tags and attributes, and the result that it carries."""

    def __init__(self, path):
        super().__init__()
        self.numbers, self.tags, self.links, self.carried, self._inside = {}, set(), [], "", False
        with open(path, encoding="utf-8") as file:
            self.text = file.read()
        self.feed(self.text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.tags.add(tag)
        self.links += [value for name, value in attrs.items() if name in ("src", "href", "action", "srcset")]
        expect(not any(name.startswith("on") for name in attrs), f"{tag} has a script in an attribute")
        if tag == "data":
            self.numbers.setdefault(attrs["data-of"], []).append(json.loads(attrs["value"]))
        self._inside = attrs.get("id") == "result"

    def handle_data(self, data):
        self.carried += data if self._inside else ""

    def handle_endtag(self, tag):
        self._inside &= tag != "pre"


def at(document, place):
    for name in place.strip("/").split("/"):
        document = document[int(name)] if isinstance(document, list) else document[name]
    return document


def leaves(value, place):
    """Yields the places of all numbers of a value."""
    if isinstance(value, (dict, list)):
        for name, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(part, f"{place}/{name}")
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield place


def check_page(path, found, members):
    page = Page(path)
    expect(json.loads(page.carried) == found, f"{path} carries another result than --json")
    for place, values in page.numbers.items():
        expect(all(value == at(found, place) for value in values), f"{path}: {place} is {values}, not {at(found, place)}")
    for member in members:
        expect(member in found, f"--json lacks {member}")
        for place in leaves(found[member], f"/{member}"):
            expect(place in page.numbers or place.split("/")[-1] in ("logloss", "auc", "ne", "copc") and member == "importance",
                   f"{path} lacks {place}")
    expect("script" not in page.tags and "<i>" not in page.text, f"{path}: a name is not escaped")
    expect(all(link == "data:," for link in page.links), f"{path} has links: {page.links}")
    expect("svg" in page.tags and page.text.count("<svg") == page.text.count("<title>") - 1, f"{path}: a chart has no title")
    return page


def check_train():
    plain = result(*TRAIN, "--test", FILE, "--epochs", "3", "--out", "plain")
    words = [*TRAIN, "--test", FILE, "--epochs", "3"]
    found = result(*words, "--out", "model", "--report", "r.html")
    members = ["course", "data", "curves_of", "calibration", "roc", "precision_recall", "scores", "lift", "importance", "run"]
    expect(set(found) - set(plain) == set(members), f"--report adds {set(found) - set(plain)} to --json")
    for name in ("auc", "logloss", "history", "keys"):
        mine, other = ([{**p, "seconds": 0} for p in d[name]] if name == "history" else d[name] for d in (found, plain))
        expect(mine == other, f"--report changes the run: {name}")
    check_page("r.html", found, members[:-1] + ["history"])
    expect([d["positives"] for d in found["data"]] == [count_ones("train.csv"), count_ones(FILE)], "positives are wrong")
    expect(found["data"][1]["files"] == [FILE] and len(found["course"]) > 20, "files or points are missing")
    unknown = {one["column"]: one["unknown"] for one in found["importance"]}
    expect(unknown["user"] == 0 and 0.05 < unknown[EVIL] < 0.3, f"unknown shares are {unknown}")
    command = found["run"]["command"].replace("tug ", f"'{TUG}' ", 1).replace("--out model", "--out again")
    again = json.loads(subprocess.run(command, shell=True, capture_output=True, check=True).stdout.splitlines()[-1])
    expect(again["auc"] == found["auc"], f"the command on the page gives another result: {command}")
    return found


def check_interrupted():
    """A run that is interrupted writes a page about what it has done, alone and on a cluster."""
    for name, words, cluster in (("i.html", ["train"], []), ("ic.html", ["launch", "--servers", "1", "--workers", "1", "--"], ["train"])):
        words = [*words, *cluster, "--data", os.path.abspath("train.csv"), "--format", "csv", "--label", "y", "--epochs", "1000000",
                 "--report", os.path.abspath(name)]
        with subprocess.Popen([TUG, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as run:
            said = ""
            while "pass 2/" not in said:
                line = run.stdout.readline()
                expect(line, f"{words} ended: {said}")
                said += line
            run.send_signal(signal.SIGINT)
            said += run.stdout.read()
        expect(run.returncode == 130, f"an interrupted run ended with {run.returncode}: {said}")
        found = json.loads(Page(name).carried)
        check_page(name, found, ["course", "history"])
        expect(found["epochs"] >= 2 and any("interrupted" in one for one in found["run"]["warnings"]), f"{name}: {found['run']}")
        expect(found["interrupted"] is True and "which is kept" not in Page(name).text, f"{name} says that a pass is kept")


def check_nothing_left():
    """A resumed run without passes left does not replace the page of the run by one without curves."""
    words = [*TRAIN, "--valid", "0.1", "--epochs", "2", "--out", "over", "--report", "over.html"]
    tug(*words)
    before = Page("over.html").text
    expect("which is kept" in before and "those of validation included" in before, "the page of a run with --valid")
    tug(*words, "--resume")
    expect(Page("over.html").text == before, "a run without passes left has replaced the page")
    os.unlink("over.html")
    tug(*words, "--resume")
    expect(Page("over.html").numbers["/valid/epoch"], "a run without passes left writes a page that is not there")


def count_ones(path):
    with open(path, encoding="utf-8") as file:
        return sum(line.startswith("1,") for line in file)


def check_eval(trained):
    found = result("eval", "--from", "model", "--data", FILE, "--report", "e.html")
    check_page("e.html", found, ["data", "calibration", "roc", "precision_recall", "scores", "lift", "importance"])
    for name in ("auc", "roc", "calibration", "lift", "scores", "importance"):
        expect(found[name] == trained[name], f"eval and train disagree about {name}")
    found = result("eval", "--from", "model", "--data", FILE, "--by", "user", "--report", "e.html")
    check_page("e.html", found, ["by", "roc"])
    printed = tug("eval", "--from", "model", "--data", FILE, "--report", "e.html")
    expect("auc drop" not in printed, "--report prints tables")


def check_others():
    found = result(*TRAIN, "--valid", "0.2", "--epochs", "2", "--report", "v.html", "--out", "valid")
    check_page("v.html", found, ["roc", "calibration", "lift"])
    tug("report", "valid", "--out", "v_saved.html")
    saved, printed = ({k: v for k, v in Page(path).numbers.items() if k in ("/examples", "/valid/epoch", "/epochs")}
                      for path in ("v_saved.html", "v.html"))
    expect(saved == printed, f"the page of a directory has {saved}, that of its run {printed}")
    expect(f"in the directory <b>{os.getcwd()}</b>" in Page("v.html").text, "the page does not tell its directory")
    cv = result(*TRAIN, "--cv", "3", "--epochs", "2")
    with open("cv.json", "w", encoding="utf-8") as file:
        json.dump(cv, file)
    tug("report", "cv.json", "--out", "cv.html")
    expect({"/cv/best", "/cv/passes/1/auc_deviation"} <= set(Page("cv.html").numbers), "a page of --cv")
    expect(found["curves_of"] == "valid" and "importance" not in found, "curves of validation are wrong")
    with open("two.csv", "w", encoding="utf-8") as to, open("train.csv", encoding="utf-8") as lines:
        to.writelines(("y,<i>z" if i == 0 else f"{line[0]},{i % 2}") + line[1:] for i, line in enumerate(lines))
    found = result("train", "--data", "two.csv", "--format", "csv", "--label", "y,<i>z", "--model", "mlp", "--hidden", "4",
                   "--epochs", "1", "--test", "two.csv", "--valid", "0.2", "--report", "l.html")
    check_page("l.html", found, ["roc"])
    numbers = Page("l.html").numbers
    expect({"/labels/<i>z/auc", "/valid/labels/<i>z/logloss", "/labels/y/auc"} <= set(numbers), "metrics of labels are missing")
    found = result(*TRAIN, "--loss", "squared", "--test", FILE, "--epochs", "1", "--report", "s.html")
    expect("roc" not in found and "importance" in found, "a squared loss has no ROC")
    found = result(*TRAIN, "--epochs", "1", "--report", "n.html")
    expect("curves_of" not in found, "curves of nothing")
    expect("no metric" in Page("n.html").text, "a run without test data has a page")


def check_refusals():
    os.mkdir("folder")
    with open("notes.html", "w", encoding="utf-8") as file:
        file.write("<!DOCTYPE html>\n<p>mine\n")
    for path, words in (("absent/r.html", "absent"), ("train.csv", "this run reads"), ("folder", "is a directory"),
                        ("notes.html", "not a report"), ("-", "a name such as report.html"), ("model/save-000001/r.html", "save-000001")):
        said = tug(*TRAIN, "--epochs", "1", "--out", "never", "--report", path, code=2 if path != "absent/r.html" else 4)
        expect("--report" in said and words in said, f"--report {path}: {said}")
        expect(not os.path.exists("never"), f"--report {path} is refused after the run has begun")
    for other in ("--history", "--dump"):
        said = tug(*TRAIN, "--epochs", "1", "--out", "never", "--report", "new", other, "./new", code=2)
        expect("the same file" in said and not os.path.exists("never"), said)
    said = tug("eval", "--from", "model", "--data", FILE, "--report", FILE, code=2)
    expect("this run reads" in said, said)


def check_runs():
    trained = json.loads(Page("r.html").carried)
    words = [*TRAIN, "--test", "test.csv", "--epochs", "2", "--lr", "0.3"]
    os.link(FILE, "test.csv")
    with open("other.json", "w", encoding="utf-8") as file:
        file.write(tug(*words, "--out", "other", "--report", "o.html", "--json"))
    tug("report", "r.html", "--out", "same.html")
    said = tug("report", "o.html", "r.html", "--out", "./r.html", code=2)
    expect("is one of the runs to show" in said, said)
    expect(json.loads(Page("same.html").carried) == trained, "a page that was read again differs")
    tug("report", "r.html", "other.json", "--out", "both.html")
    page = Page("both.html")
    other = json.loads(tug(*words, "--json").splitlines()[-1])
    for name in ("auc", "logloss", "pr_auc", "keys"):
        expect(page.numbers[f"/0/{name}"] == [trained[name]] and page.numbers[f"/1/{name}"] == [other[name]], f"{name} of two runs")
    expect(page.text.count("<svg") == 6, "two runs have six charts")
    options = page.text.partition("Options that differ")[2].partition("</table>")[0]
    expect(all(f"<td>{name}</td>" in options for name in ("lr", "epochs", "test")) and "<td>model" not in options, options)
    tug("report", "model", "other", "--out", "saves.html")
    page = Page("saves.html")
    expect(page.numbers["/0/epochs"] == [3] and page.numbers["/1/epochs"] == [2] and page.text.count("<svg") == 2, "two saves")
    expect("given by" not in page.text and "<td>linear.lr</td>" in page.text, "options of two saves")
    for words, code, said in ((["train.csv", "--out", "x.html"], 3, "neither a report"), (["r.html", "--out", "train.csv"], 2, "not a report"),
                              (["absent", "--out", "x.html"], 3, "absent"), (["r.html"] * 7 + ["--out", "x.html"], 2, "room for 6")):
        error = tug("report", *words, code=code)
        expect(said in error and not os.path.exists("x.html"), error)


def check_cluster():
    tug("launch", "--cluster", f"report-{os.getpid()}", "--servers", "1", "--workers", "2", "--", "train", "--data", "train.csv",
        "--format", "csv", "--label", "y", "--test", FILE, "--epochs", "2", "--report", "c.html", "--quiet")
    page = Page("c.html")
    found = json.loads(page.carried)
    check_page("c.html", found, ["roc", "calibration", "history"])
    expect("importance" not in found and found["workers"] == 2, "a cluster's report")


def look(pages):
    """Opens the pages in a browser, and checks their shape; with TUG_SCREENSHOTS, keeps pictures in that folder."""
    if missing():
        print("skipped: chromium is not there: chromium, chromium-driver")
        return 77
    with Browser(os.getcwd()) as browser:
        for page in pages:
            for dark in (False, True):
                for width in (400, 1280, 1920):
                    found = browser.open("file://" + os.path.abspath(page), width, dark)
                    name = f"{page} at {width} px{', dark' if dark else ''}"
                    expect(found["wide"] <= width, f"{name} scrolls sideways: {found['wide']}")
                    expect(not found["said"], f"{name}: the console says {found['said']}")
                    expect(found["asked"] == [], f"{name} asks the network for {found['asked']}")
                    expect(found["dark"] == dark, f"{name} has the wrong colours")
                    expect(not found["overlap"], f"{name}: labels overlap: {found['overlap']}")
                    if folder := os.environ.get("TUG_SCREENSHOTS"):
                        browser.picture(f"{folder}/{page.partition('.')[0]}-{width}{'-dark' if dark else ''}.png")
    return 0


write_data()
check_eval(check_train())
check_runs()
check_others()
check_refusals()
check_cluster()
check_interrupted()
check_nothing_left()
sys.exit(look(["r.html", "e.html", "v.html", "n.html", "both.html"]))
