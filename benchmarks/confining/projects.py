"""The projects the lines run in: a Python one with a history, one for Node, one in C. All of it is made here."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

GIT = """git init -q -b main . && git config user.name Ada && git config user.email ada@example.org && git add -A &&
git commit -qm 'Begin' """
DATES = {"GIT_AUTHOR_DATE": "2026-01-02T03:04:05Z", "GIT_COMMITTER_DATE": "2026-01-02T03:04:05Z"}

PYTHON = {
    ".gitignore": "__pycache__/\n.pytest_cache/\n.ruff_cache/\n.mypy_cache/\nbuild/\ndist/\n.env\n*.log\n",
    "pyproject.toml": (
        '[project]\nname = "stock"\nversion = "0.1.0"\n\n[tool.ruff]\nline-length = 100\n\n'
        '[tool.pytest.ini_options]\npythonpath = ["."]\n'
    ),
    "README.md": "# Stock\n\nCounts what lies in a store.\n\n## Use\n\n    python -m stock\n",
    "CHANGELOG.md": "# Changes\n\n## 0.1.0\n\n- counts\n",
    "stock/__init__.py": '"""Counts what lies in a store."""\n\n__version__ = "0.1.0"\n',
    "stock/__main__.py": "from stock.count import total\n\nprint(total([1, 2, 3]))\n",
    "stock/count.py": (
        '"""Counting."""\n\n\ndef total(numbers: list[int]) -> int:\n    """Return the sum."""\n'
        "    return sum(numbers)\n\n\ndef mean(numbers: list[int]) -> float:\n"
        "    return total(numbers) / len(numbers)\n"
    ),
    "stock/report.py": "import json\n\n\ndef report(items):  # TODO types\n    return json.dumps(items, indent=1)\n",
    "tests/test_count.py": (
        "from stock.count import mean, total\n\n\ndef test_total():\n    assert total([1, 2]) == 3\n\n\n"
        "def test_mean():\n    assert mean([2, 4]) == 3\n"
    ),
    "tests/test_report.py": "from stock.report import report\n\n\ndef test_report():\n    assert '1' in report([1])\n",
    "data/items.csv": "name,count\nbolt,12\nnut,7\nwasher,30\n",
    "data/items.json": '{"items": [{"name": "bolt", "count": 12}, {"name": "nut", "count": 7}]}\n',
    "scripts/hello.sh": "#!/bin/sh\necho hello from a script\n",
    "scripts/old.py": "print('old')\n",
    "docs/guide.md": "# Guide\n\nSee stock/count.py.\n",
    "Makefile": "test:\n\tpython -m pytest -q\nlint:\n\truff check .\nclean:\n\trm -rf build dist\n",
}
PYTHON_HISTORY = (
    GIT
    + """&& sed -i s/0.1.0/0.2.0/ pyproject.toml && git commit -qam 'Raise the version' && git tag v0.2.0 &&
git checkout -qb feature && printf '\\n\\ndef most(numbers):\\n    return max(numbers)\\n' >> stock/count.py &&
git commit -qam 'Add most' && git checkout -q main && echo '- says more' >> CHANGELOG.md &&
git commit -qam 'Say more in the changes' && echo 'A line not committed yet.' >> README.md && echo draft > notes.txt &&
mkdir -p build && echo artefact > build/out.bin && echo run > app.log && chmod +x scripts/hello.sh"""
)
NODE = {
    ".gitignore": "node_modules/\ndist/\n",
    "package.json": (
        '{"name": "shop", "version": "1.0.0", "private": true, "type": "commonjs", "scripts": {"test": "node --test",'
        ' "build": "node build.js", "start": "node index.js", "lint": "node --check index.js"}}\n'
    ),
    "index.js": "const { price } = require('./price');\nconsole.log(price(3));\n",
    "price.js": "function price(n) {\n  return n * 2;\n}\nmodule.exports = { price };\n",
    "price.test.js": (
        "const test = require('node:test');\nconst assert = require('node:assert');\n"
        "const { price } = require('./price');\ntest('doubles', () => { assert.equal(price(2), 4); });\n"
    ),
    "build.js": (
        "const fs = require('fs');\nfs.mkdirSync('dist', { recursive: true });\n"
        "fs.writeFileSync('dist/shop.js', fs.readFileSync('price.js'));\nconsole.log('built');\n"
    ),
    "README.md": "# Shop\n",
}
C = {
    ".gitignore": "*.o\n/app\n/check\n",
    "Makefile": (
        "CC = gcc\nCFLAGS = -O0 -Wall\napp: main.o sum.o\n\t$(CC) -o $@ $^\n%.o: %.c sum.h\n\t$(CC) $(CFLAGS) -c $<\n"
        "check: check.o sum.o\n\t$(CC) -o $@ $^\n.PHONY: test clean\ntest: check\n\t./check\n"
        "clean:\n\trm -f *.o app check\n"
    ),
    "main.c": '#include <stdio.h>\n#include "sum.h"\nint main(void) { printf("%d\\n", sum(1, 2)); return 0; }\n',
    "sum.c": '#include "sum.h"\nint sum(int a, int b) { return a + b; }\n',
    "sum.h": "int sum(int a, int b);\n",
    "check.c": '#include "sum.h"\nint main(void) { return sum(1, 2) == 3 ? 0 : 1; }\n',
    "README.md": "# Sum\n",
}
PROJECTS: Mapping[str, tuple[Mapping[str, str], str]] = {
    "python": (PYTHON, PYTHON_HISTORY),
    "node": (NODE, GIT),
    "c": (C, GIT),
}


def make_project(name: str, folder: Path, secret: str, environment: Mapping[str, str]) -> None:
    """Make a project in a new folder, with `secret` in its `.env`."""
    files, history = PROJECTS[name]
    for path, text in {**files, ".env": f"TOKEN={secret}\n"}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    run_script(history, folder, environment)


def run_script(script: str, folder: Path, environment: Mapping[str, str]) -> None:
    """Run a script that prepares a project; raise CalledProcessError where it fails."""
    setting = {**environment, **DATES, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["/bin/sh", "-ec", script], cwd=folder, env=setting, check=True, timeout=60, capture_output=True)
