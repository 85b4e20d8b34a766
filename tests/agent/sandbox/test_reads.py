"""What everyday commands print in a sandbox is what they print without one."""

from __future__ import annotations

import shutil

import pytest

from tests.agent.sandbox.place import PATH, Place

READS = """git status
git status --porcelain=v2 --branch
git log --oneline --stat
git log -p -1
git diff
git diff HEAD~1 --stat
git show HEAD:README.md
git blame README.md
git branch --list -vv
git ls-files -s
git rev-parse HEAD
git grep -n main
git describe --always
git cat-file -p HEAD
grep -rn "app" --include=*.md --include=*.toml .
grep -c , src/data.csv
grep -q nothing README.md
sed -n 1,2p README.md
awk -F, "NR>1 {s+=\\$2} END {print s}" src/data.csv
find src -type f -name "*.py" | sort
find . -newer README.md -not -path "./.git/*" -not -path . | sort
ls src
ls -l src
ls -d "white space"
wc -l src/data.csv README.md
head -2 src/data.csv; tail -1 src/data.csv
cat README.md missing.txt
cut -d, -f1 src/data.csv
sort -r src/data.csv | uniq | tr a-z A-Z
diff README.md src/data.csv
cmp README.md README.md
stat -c "%a %s %Y %u %g %h" README.md src; stat -c %i README.md
du -b src/main.py
file README.md
md5sum README.md src/*
od -c README.md | head -2
python3 --version
python3 -c "import json; print(json.load(open('data.json')))"
jq .list data.json
rg -n app README.md
test -f README.md && test -w README.md
cat "white space"/*
realpath src/../README.md; pwd
basename src/main.py; dirname src/main.py; readlink -f src
tar -cf - src | tar -tf -
id -u; id -g; whoami
uname -sm; nproc; hostname
date -r README.md +%s
env | sort | grep -v ^_=
xargs -n1 echo < src/data.csv
exit 3
kill -TERM $$""".splitlines()
# Whether a file may be written differs, and that is the point.
DIFFERS = {"test -f README.md && test -w README.md": 1}


@pytest.mark.parametrize("line", READS)
def test_a_read_ends_and_prints_as_it_does_outside(place: Place, line: str) -> None:
    program = line.split()[0].rstrip(";")
    if program not in ("exit", "kill") and shutil.which(program, path=PATH) is None:
        pytest.skip(f"{program} is not installed")
    outside, inside = place.run_outside("/bin/bash", "-c", line), place.run_inside("/bin/bash", "-c", line)
    assert (inside.stdout, inside.stderr) == (outside.stdout, outside.stderr)
    assert inside.returncode == (DIFFERS.get(line, outside.returncode) if place.tier == "full" else outside.returncode)


@pytest.mark.parametrize("line", [line for line in READS if not line.startswith("env ")])
def test_a_read_without_namespaces_prints_the_same_but_for_its_environment(limited: Place, line: str) -> None:
    test_a_read_ends_and_prints_as_it_does_outside(limited, line)
