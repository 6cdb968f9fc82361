"""Wardens of agents: what they leave behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from agents.executors.outside import warden

LEAVE_AND_REMOVE = """
import os, sys
from pathlib import Path
from agents.executors.outside.warden import remove_home

if os.getuid() == 0:  # root is denied nothing
    os.chown(".", 65534, 65534)
    os.setuid(65534)
deepest = Path("home/cache/module")
deepest.mkdir(parents=True)
(deepest / "code.go").write_text("package code")
others = Path("others/kept")
others.mkdir(parents=True)
(deepest / "link").symlink_to(others.absolute())
for folder, mode in ((deepest, 0o000), (deepest.parent, 0o500), (others, 0o500)):
    folder.chmod(mode)
remove_home(Path("home"))
Path("other home").symlink_to(others.parent)
remove_home(Path("other home"))
print(os.path.exists("home"), oct(others.stat().st_mode & 0o777))
"""


def test_a_home_is_removed_though_an_agent_took_the_right_to_write_there(tmp_path: Path) -> None:
    root = Path(warden.__file__).parents[3]
    code = f"import sys; sys.path.insert(0, {str(root)!r})\n{LEAVE_AND_REMOVE}"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "0o500"]
