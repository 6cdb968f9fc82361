"""Agents not ours, for the shop of the tutorial: one that buys the cheapest jacket, and others that misbehave."""

from __future__ import annotations

from pathlib import Path
from typing import Final

CODE: Final = '''
import json, os, re, signal, subprocess, sys, time, urllib.error, urllib.request


def fetch(url, data=None, **headers):
    return urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=10).read().decode()


def buy(task):
    """Buys the cheapest jacket, the first of the catalogue."""
    task.step("navigate", url="/catalogue")
    jacket = re.search(r'href="([^"]+/jacket-[0-9]+)"', fetch(task.url + "catalogue"))[1]
    fetch(task.url.partition("/i/")[0] + jacket, b"")
    task.step("submit", label="Buy")


def raises(task):
    buy(task)
    raise RuntimeError("the agent is broken")


def hangs(task):
    buy(task)
    time.sleep(600)


def late(task):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(max(0.0, task.deadline - time.time()) + 0.5)
    buy(task)


def forks(task):
    for _ in range(200):
        if os.fork() == 0:
            os.setsid()
            time.sleep(600)
    time.sleep(600)


def escapes(task):
    """Leaves a process of a session of its own behind that buys when the agent has ended."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(0.3)
            buy(task)
        os._exit(0)


def floods(task):
    buy(task)
    while True:
        print("x" * 10_000)


def hoards(task):
    buy(task)
    held = []
    for _ in range(40):
        held.append(bytearray(os.urandom(1 << 20)) * 25)
        time.sleep(0.05)
    time.sleep(600)


def grades_itself(task):
    site, _, instance = task.url.partition("/i/")
    said = []
    for call in ("oracle?task_id=shop.buy", "reset", "close", "mutations", "state"):
        for token in ("", "admin", os.environ.get("FLYWHEEL_ENV_SHOP_TOKEN", "none")):
            headers = {"X-Env-Admin": token, "X-Env-Instance": instance.strip("/")}
            try:
                fetch(site + "/__env__/" + call, b'{"seed": 1}', **headers)
                said.append(call)
            except urllib.error.HTTPError as problem:
                said += [] if problem.code == 401 else [problem.code]
    print("the grader answered", said)


def lies(task):
    task.step("navigate", url="/catalogue", outcome="ok", status=200, text="the catalogue")
    task.step("submit", label="Buy", outcome="ok", text="Bought.", passed=True, score=1)
    with open(task.steps_file, "a") as steps:
        steps.write('{"end": "exited", "code": 0}\\nnot json\\n[1]\\n{"name": 7}\\n' + "y" * 100_000 + "\\n")
    print(json.dumps({"end": "exited", "passed": True, "reward": 1}))


def nothing(task):
    pass


def reports_much(task):
    for number in range(1000):
        task.step("look", argument=str(number))
    time.sleep(600)


def steps_by_pipe(task):
    task.step("look")
    os.remove(task.steps_file)
    os.mkfifo(task.steps_file)
    time.sleep(600)


def steps_without_end(task):
    task.step("look")
    os.remove(task.steps_file)
    os.symlink("/dev/zero", task.steps_file)
    time.sleep(600)


def tells_its_world(task):
    print(json.dumps(dict(os.environ)))
    is_fenced = open("/proc/1/comm").read().strip() == "bwrap"
    for pid in filter(str.isdigit, os.listdir("/proc") if is_fenced else ()):
        try:
            print(open(f"/proc/{pid}/environ", "rb").read().decode("utf-8", "replace")[:500])
        except OSError:
            pass


def looks_at_others(task):
    print(os.listdir(os.path.dirname(os.environ["HOME"])))


def kills_all_it_sees(task):
    """Kills the process above it; behind a fence, every process that it sees."""
    is_fenced = open("/proc/1/comm").read().strip() == "bwrap"
    for pid in range(1, 60) if is_fenced else (os.getppid(),):
        if pid != os.getpid():
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
    time.sleep(600)
'''


def write_agents(folder: Path) -> Path:
    """Write the module `strangers` into a folder. Returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "strangers.py").write_text(CODE, "utf-8")
    return folder
