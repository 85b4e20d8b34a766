"""Small projects in several languages, and what is done in each: tests, lint, format, build, install, use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from confining.projects import NODE, PYTHON, C

BACKEND = '''"""A build backend that needs nothing but Python."""

import zipfile

NAME = "stock-0.1.0"


def build_wheel(folder, config_settings=None, metadata_directory=None):
    files = {
        "stock/__init__.py": open("stock/__init__.py").read(),
        f"{NAME}.dist-info/METADATA": "Metadata-Version: 2.1\\nName: stock\\nVersion: 0.1.0\\n",
        f"{NAME}.dist-info/WHEEL": "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
    }
    files[f"{NAME}.dist-info/RECORD"] = "".join(f"{name},,\\n" for name in [*files, f"{NAME}.dist-info/RECORD"])
    with zipfile.ZipFile(f"{folder}/{NAME}-py3-none-any.whl", "w") as wheel:
        for name, text in files.items():
            wheel.writestr(zipfile.ZipInfo(name), text)
    return f"{NAME}-py3-none-any.whl"
'''
SYSTEM = '\n[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
GO = {
    ".gitignore": "/app\n",
    "go.mod": "module example.org/app\n\ngo 1.18\n",
    "main.go": (
        'package main\n\nimport "fmt"\n\nfunc sum(a, b int) int { return a+b }\n\n'
        "func main() { fmt.Println(sum(1, 2)) }\n"
    ),
    "main_test.go": (
        'package main\n\nimport "testing"\n\nfunc TestSum(t *testing.T) {\n\tif sum(1, 2) != 3 {\n'
        '\t\tt.Fatal("wrong")\n\t}\n}\n'
    ),
    "use/use.go": (
        'package main\n\nimport (\n\t"fmt"\n\n\t"example.org/benchdep"\n)\n\n'
        "func main() {\n\tfmt.Println(benchdep.Number())\n}\n"
    ),
}
RUST = {
    ".gitignore": "target/\n",
    "Cargo.toml": '[package]\nname = "app"\nversion = "0.1.0"\nedition = "2021"\n\n[dependencies]\n',
    "src/main.rs": (
        'fn sum(a:u32,b:u32)->u32{ a+b }\nfn main() { println!("{}", sum(1, 2)); }\n'
        "#[cfg(test)]\nmod tests {\n    #[test]\n    fn adds() { assert_eq!(super::sum(1, 2), 3); }\n}\n"
    ),
    ".cargo/config.toml": (
        '[source.crates-io]\nreplace-with = "bench"\n\n[source.bench]\n'
        'registry = "sparse+http://127.0.0.1:{port}/index/"\n'
    ),
}
PIP = ".venv/bin/python -m pip install -i http://127.0.0.1:{port}/simple/"
GO_ENVIRONMENT = "GOPROXY=http://127.0.0.1:{port}/go GONOSUMDB=* GOSUMDB=off GOFLAGS=-mod=mod"


@dataclass(frozen=True, slots=True)
class Step:
    """A line in a project; `{port}` stands for that of the registry.

    `installs` says that it needs the registry, `code` how it ends.
    """

    name: str
    line: str
    installs: bool = False
    code: int = 0


@dataclass(frozen=True, slots=True)
class Project:
    """The programs without which it is skipped, its files, and the steps in order."""

    needs: tuple[str, ...]
    files: Mapping[str, str]
    steps: tuple[Step, ...]


PROJECTS: Mapping[str, Project] = {
    "python": Project(
        ("python3",),
        {**PYTHON, "backend.py": BACKEND, "pyproject.toml": PYTHON["pyproject.toml"] + SYSTEM},
        (
            Step("test", "python3 -m pytest -q -p no:cacheprovider"),
            Step("lint", "ruff check --no-cache .", code=1),
            Step("format", "ruff format --no-cache ."),
            Step("build", "python3 -m pip wheel -q --no-deps --no-index --no-cache-dir -w dist ."),
            Step("install", f"python3 -m venv .venv && {PIP} benchdep", installs=True),
            Step("use", ".venv/bin/python -c 'import benchdep; print(benchdep.number())'"),
        ),
    ),
    "node": Project(
        ("node", "npm"),
        NODE,
        (
            Step("test", "npm test"),
            Step("lint", "npm run lint"),
            Step("build", "npm run build"),
            Step("install", "npm install --registry http://127.0.0.1:{port}/ benchdep", installs=True),
            Step("use", "node -e \"console.log(require('benchdep').number())\""),
        ),
    ),
    "go": Project(
        ("go",),
        GO,
        (
            Step("test", "go test ."),
            Step("lint", "go vet ."),
            Step("format", "gofmt -l -w ."),
            Step("build", "go build -o app . && ./app"),
            Step("install", GO_ENVIRONMENT + " go get example.org/benchdep@v1.0.0", installs=True),
            Step("use", "GOPROXY=off go run ./use"),
        ),
    ),
    "rust": Project(
        ("cargo",),
        RUST,
        (
            Step("test", "cargo test --offline"),
            Step("lint", "cargo clippy --offline"),
            Step("format", "cargo fmt"),
            Step("build", "cargo build --offline && target/debug/app"),
            Step("install", "cargo add benchdep && cargo fetch", installs=True),
            Step("use", "echo 'pub use benchdep::number;' > src/lib.rs && cargo build --offline"),
        ),
    ),
    "c": Project(
        ("make", "gcc"),
        C,
        (
            Step("test", "make test"),
            Step("lint", "gcc -fsyntax-only -Wall -Wextra *.c"),
            Step("build", "make && ./app"),
            Step("clean", "make clean"),
        ),
    ),
}
