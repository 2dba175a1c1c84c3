"""Runs and measures tug and its peers, for bench/peers, growth, deep and cluster.

A trainer has a function run(job), which returns its training command and its test command or None. sh runs a command in
an empty folder with links to the data, so that files which peers leave there (binary copies of the data, caches) do not
help the next run.

SPDX-License-Identifier: Apache-2.0
"""

import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import namedtuple
from itertools import groupby

HERE = os.path.dirname(os.path.abspath(__file__))

# A training. model: lr, fm or ffm; ext: the files' extension, libsvm or ffm.
Job = namedtuple("Job", "model ext epochs threads")

# A trainer. name: its name in tables; models: the models it has; run: the function that returns a job's commands.
Trainer = namedtuple("Trainer", "name models run")

DIM = {"lr": 0, "fm": 8, "ffm": 4}
EXT = {"lr": "libsvm", "fm": "libsvm", "ffm": "ffm"}


def tug(binary):
    def run(job):
        form = {"libsvm": "libsvm", "ffm": "libffm"}[job.ext]
        dim = f" --dim {DIM[job.model]}" if DIM[job.model] else ""
        return (f"{binary} train --data train.{job.ext} --test test.{job.ext} --format {form}"
                f" --model {job.model}{dim} --epochs {job.epochs} --threads {job.threads}"
                " --out model --json", None)
    return Trainer("tug", ("lr", "fm", "ffm"), run)


def xlearn(folder):
    """Returns the trainer xLearn. It fails without the variable USER. --no-bin: it leaves no binary copy of the
    training data."""
    def run(job):
        model = {"lr": "-s 0", "fm": "-s 1 -k 8", "ffm": "-s 2 -k 4"}[job.model]
        return (f"{folder}/xlearn_train train.{job.ext} {model} -p adagrad -e {job.epochs}"
                f" -nthread {job.threads} --dis-es --no-bin -m m -l log",
                f"{folder}/xlearn_predict test.{job.ext} m -o out --sigmoid"
                f" -nthread {job.threads} -l log")
    return Trainer("xLearn", ("lr", "fm", "ffm"), run)


def libffm(folder):
    def run(job):
        return (f"{folder}/ffm-train -k 4 -t {job.epochs} -s {job.threads} train.ffm m",
                f"{folder}/ffm-predict test.ffm m out")
    return Trainer("libffm", ("ffm",), run)


def alphafm(folder):
    """Returns the trainer alphaFM, which reads its data from a pipe, once for each pass. fm_predict gets -core 1, since
    -core 2 mixes up the lines."""
    def run(job):
        dim = DIM[job.model]
        return (f"cat {'train.libsvm ' * job.epochs}| {folder}/fm_train -core {job.threads}"
                f" -dim 1,1,{dim} -m m",
                f"{folder}/fm_predict -core 1 -dim {dim} -m m -out out < test.libsvm")
    return Trainer("alphaFM", ("lr", "fm"), run)


def vw(binary):
    """Returns the trainer Vowpal Wabbit, which reads its own text format, and always has a parser thread besides the
    learner."""
    def run(job):
        passes = f" --passes {job.epochs} -c -k --cache_file c --holdout_off"
        return (f"{binary} -d train.vw --loss_function logistic -b 24"
                f"{passes if job.epochs > 1 else ''} -f m --quiet",
                f"{binary} -d test.vw -t -i m -p out --link logistic --quiet")
    return Trainer("VW", ("lr",), run)


def add_output(parser):
    """Adds the options --tug, --json and --markdown; save() and show() use the last two."""
    parser.add_argument("--json", metavar="FILE", help="a file for all figures")
    parser.add_argument("--markdown", metavar="FILE",
                        help="a page that gets the tables, between its markers")
    parser.add_argument("--tug", default=os.path.join(HERE, "../build/tug"), metavar="FILE",
                        help="the command tug (default: build/tug)")


def add_peers(parser):
    for name, kind, what in (("xlearn", "DIR", "xlearn_train and xlearn_predict"),
                             ("libffm", "DIR", "ffm-train and ffm-predict"),
                             ("alphafm", "DIR", "fm_train and fm_predict"),
                             ("vw", "FILE", "vw")):
        parser.add_argument(f"--{name}", default=os.environ.get(f"PEER_{name.upper()}"),
                            metavar=kind, help=f"where {what} is (or set PEER_{name.upper()})")


def peers_of(options):
    """Returns the installed peers, and prints which are missing."""
    found = []
    for make, path, program in ((xlearn, options.xlearn, "xlearn_train"),
                                (libffm, options.libffm, "ffm-train"),
                                (alphafm, options.alphafm, "fm_train"),
                                (vw, options.vw, "")):
        full = path and os.path.join(os.path.abspath(path), program).rstrip("/")
        if full and os.access(full, os.X_OK):
            found.append(make(os.path.abspath(path)))
        else:
            print(f"{make.__name__} is left out: "
                  + (f"there is no {full}" if path else f"no --{make.__name__}"),
                  file=sys.stderr)
    return found


def path_of_tug(options):
    path = os.path.abspath(options.tug)
    if not os.access(path, os.X_OK):
        sys.exit(f"there is no {path}: run make, or name the command with --tug FILE")
    return path


def tug_of(options):
    return tug(path_of_tug(options))


def make_vw_text(folder):
    """Writes VW's text of the libsvm files into their folder; values of 1 are left out."""
    for part in ("train", "test"):
        to = f"{folder}/{part}.vw"
        if os.path.exists(to):
            continue
        with open(f"{folder}/{part}.libsvm") as source, open(to + ".new", "w") as out:
            for line in source:
                label, _, features = line.strip().partition(" ")
                features = re.sub(r":1(?= |$)", "", features)
                out.write(f"{1 if float(label) > 0 else -1} | {features}\n")
        os.rename(to + ".new", to)


# ---------------------------------------------------------------- measuring


def busy_by_core():
    """Returns for each core the seconds that it has worked since the machine started."""
    cores = {}
    with open("/proc/stat") as f:
        for line in f:
            if re.match(r"cpu\d", line):
                name, *ticks = line.split()
                ticks = [int(t) for t in ticks]
                cores[int(name[3:])] = sum(ticks[:8]) - ticks[3] - ticks[4]
    tick = os.sysconf("SC_CLK_TCK")
    return {core: busy / tick for core, busy in cores.items()}


def idlest_cores(n):
    before = busy_by_core()
    time.sleep(0.2)
    after = busy_by_core()
    usable = os.sched_getaffinity(0)
    return set(sorted(usable, key=lambda core: after[core] - before[core])[:n])


class Outcome(dict):
    """The figures of a run. wall, cpu: seconds; peak_bytes: the most resident memory; other: the cores that other
    processes used."""


def run_command(command, folder, cores):
    """Runs a command on this many cores, so that a trainer's additional threads get no core of their own. Returns its
    Outcome and output."""
    keep = idlest_cores(cores)
    output = tempfile.TemporaryFile("w+")
    busy, begin = sum(busy_by_core().values()), time.monotonic()
    process = subprocess.Popen(["sh", "-c", command], cwd=folder, stdout=output,
                               stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                               env=dict(os.environ, USER="bench", LC_ALL="C"),
                               preexec_fn=lambda: os.sched_setaffinity(0, keep))
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.monotonic() - begin
    cpu = usage.ru_utime + usage.ru_stime
    other = max(sum(busy_by_core().values()) - busy - cpu, 0) / wall
    output.seek(0)
    text = output.read()
    if process.returncode != 0:
        sys.exit(f"{command}\nended with {process.returncode}:\n{text[-2000:]}")
    return Outcome(wall=wall, cpu=cpu, peak_bytes=usage.ru_maxrss * 1024, other=other), text


def auc(labels, scores):
    """Returns the exact area under the ROC curve; ties count one half. Won pairs are counted twice, so that all counts
    are integers."""
    wins = below = 0
    positives = sum(y > 0 for y in labels)
    for _, group in groupby(sorted(zip(scores, labels)), key=lambda pair: pair[0]):
        found = [y > 0 for _, y in group]
        wins += sum(found) * (2 * below + len(found) - sum(found))
        below += len(found) - sum(found)
    return wins / (2 * positives * (len(labels) - positives))


def words(path, place):
    with open(path) as f:
        return [float(line.split()[place]) for line in f if line.strip()]


def auc_of(folder, ext):
    """Returns the AUC of a run: labels are the first words of the lines of the test file, scores the last words of
    those of `out`. Another process computes it, because the peak memory of later children begins with the size of this
    process."""
    code = (f"import trainers as t; labels = t.words('test.{ext}', 0); scores = t.words('out', -1);"
            " assert len(labels) == len(scores); print(t.auc(labels, scores))")
    run = subprocess.run([sys.executable, "-B", "-c", code], cwd=folder, check=True,
                         env=dict(os.environ, PYTHONPATH=HERE), capture_output=True, text=True)
    return float(run.stdout)


def reading_seconds(text):
    """Returns the time of reading that xLearn and libffm print; None for other trainers."""
    found = (re.search(r"reading problem: ([\d.]+)", text)
             or re.search(r"binary file \(([\d.]+) sec", text))
    return float(found.group(1)) if found else None


def run_job(trainer, job, data):
    """Trains and tests once, without files that earlier runs have left beside the data."""
    folder = tempfile.mkdtemp(prefix="bench-")
    try:
        for part in ("train", "test"):
            for ext in (job.ext, "vw"):
                if os.path.exists(f"{data}/{part}.{ext}"):
                    os.symlink(os.path.abspath(f"{data}/{part}.{ext}"), f"{folder}/{part}.{ext}")
        train, test = trainer.run(job)
        outcome, text = run_command(train, folder, job.threads)
        if test is None:
            report = json.loads(text.strip().split("\n")[-1])
            outcome.update(auc=report["auc"], read=report["seconds"]["read"],
                           train=report["seconds"]["train"], keys=report["keys"],
                           rate=report["examples_per_second"],
                           bytes_per_key=report["bytes_per_key"],
                           data_bytes=report["data_bytes"], test=report["seconds"]["test"],
                           whole=outcome["wall"])
        else:
            tested, _ = run_command(test, folder, job.threads)
            outcome.update(auc=auc_of(folder, job.ext), read=reading_seconds(text),
                           test=tested["wall"], whole=outcome["wall"] + tested["wall"])
        return outcome
    finally:
        shutil.rmtree(folder)


# ---------------------------------------------------------------- tables


def markdown_table(head, rows):
    lines = ["| " + " | ".join(head) + " |",
             "|" + "|".join(" --- " if i == 0 else " ---: " for i in range(len(head))) + "|"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def ratio(a, b):
    return a / b if a and b else None


def number(x, digits=2):
    return f"{x:.{digits}f}" if x is not None else "–"


def save(options, **figures):
    if options.json:
        with open(options.json, "w") as f:
            json.dump({"machine": machine(), **figures}, f, indent=1)


def show(options, name, text):
    """Prints the text, or puts it between the markers of `name` in the page --markdown."""
    if options.markdown:
        replace_part(options.markdown, name, text)
    else:
        print(text)


def replace_part(path, name, text):
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    page = f"{begin}\n{end}\n"
    if os.path.exists(path):
        with open(path) as f:
            page = f.read()
    if begin not in page or end not in page:
        sys.exit(f"{path} has no lines {begin} and {end}")
    head, tail = page.split(begin)[0], page.split(end, 1)[1]
    with open(path, "w") as f:
        f.write(f"{head}{begin}\n{text}\n{end}{tail}")


def machine():
    with open("/proc/cpuinfo") as f:
        found = re.search(r"model name\s*:\s*(.*)", f.read())
    return f"{found.group(1) if found else os.uname().machine}, {os.cpu_count()} cores"


def noise(others, limit, warning):
    """Returns the line about the machine, with a warning if it was not quiet. others: for each run, the cores that
    other processes used."""
    text = f"Machine: {machine()}."
    if others:
        text += (f" Other processes took {statistics.median(others):.2f} cores in the median run,"
                 f" {max(others):.2f} at most.")
        if statistics.median(others) > limit:
            text += f" **The machine was not quiet**: {warning}"
    return text
