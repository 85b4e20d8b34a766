"""What the prelude prevents and what it costs: scripted tasks on real workspaces, with it and without it.

Each task under `tasks/` is played by an obedient model: it does what its script says and what a hold asks of it. In a
`harmless` task nothing can be lost; in a `harmful` one the script loses something. A `done` task ends as its user
wanted; a `harm` is a truth at the end that must never be. Prompts are sheets and questions back.

bare      a loop that runs whatever it is told
default   the default policy, and a person who reads what is asked and says yes to what the task's user wants
careless  the same with a person who waves everything through
classic   the strict shipped policy, and the careful person

Then the default policy once more without each gate in turn: what that gate alone prevents, and what it alone costs.

    python benchmarks/guard.py                  the tables
    python benchmarks/guard.py NAME…            these tasks only, with the answers
    python benchmarks/guard.py --policy FILE    a policy file of your own beside the others
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from guarding.play import Played, Variant, play
from guarding.task import folders

from foregate.schemas.codes import GATES

VARIANTS = (
    Variant("bare", bare=True),
    Variant("default"),
    Variant("careless", careless=True),
    Variant("classic", policy="classic"),
)
Results = dict[tuple[str, str], Played]


def main(names: Sequence[str], policy: str) -> None:
    """Play every task in every variant and print the tables."""
    variants = (*VARIANTS, Variant(Path(policy).stem, policy=policy)) if policy else VARIANTS
    chosen = [folder for folder in folders("harm*") if not names or folder.name in names]
    without = [Variant(f"without {gate}", without=gate) for gate in GATES]
    results = played([*variants, *without], chosen)
    for name in names:
        show(name, variants, results)
    for kind in ("harmless", "harmful"):
        print(f"\n{kind:9} tasks   done   harm   prompts   model calls   tokens   (a task)")
        for variant in variants:
            print(row(variant.name, [r for (v, _), r in results.items() if v == variant.name and r.kind == kind]))
    print("\ngate         prevents alone   tasks it alone stops   prompts   model calls   (a task, over all)")
    for variant in without:
        print(effect(variant, results))
    unfinished(results)


def played(variants: Sequence[Variant], chosen: Sequence[Path]) -> Results:
    """Play each task in each variant, over the cores; the order of the results is that of the arguments."""
    jobs = [(variant, folder) for variant in variants for folder in chosen]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        done = pool.map(play, *zip(*jobs, strict=True), chunksize=4)
        return {(variant.name, folder.name): result for (variant, folder), result in zip(jobs, done, strict=True)}


def row(name: str, results: Sequence[Played]) -> str:
    """Return one line of the first table."""
    count = max(1, len(results))
    return (
        f"{name:9} {len(results):5} {sum(r.done for r in results):6} {sum(bool(r.harms) for r in results):6}"
        f" {sum(r.prompts for r in results) / count:9.2f} {sum(r.model_calls for r in results) / count:13.2f}"
        f" {sum(r.tokens for r in results) / count:8.0f}"
    )


def effect(variant: Variant, results: Results) -> str:
    """Return what changes when one gate is taken out of the default policy."""
    pairs = [(r, results[variant.name, task]) for (name, task), r in results.items() if name == "default"]
    prevents = [a.task for a, b in pairs if b.harms and not a.harms]
    stops = [a.task for a, b in pairs if b.done and not a.done]
    prompts = sum(a.prompts - b.prompts for a, b in pairs) / len(pairs)
    calls = sum(a.model_calls - b.model_calls for a, b in pairs) / len(pairs)
    same = all(
        (a.done, a.harms, a.prompts, a.model_calls) == (b.done, b.harms, b.prompts, b.model_calls) for a, b in pairs
    )
    note = "   changes no row" if same else ""
    return f"{variant.without:12} {len(prevents):14} {len(stops):22} {prompts:+9.2f} {calls:+13.2f}{note}"


def show(name: str, variants: Sequence[Variant], results: Results) -> None:
    """Print how one task ended in each variant."""
    print(f"\n{name}")
    for variant in variants:
        if (result := results.get((variant.name, name))) is not None:
            print(
                f"  {variant.name:9} {'done' if result.done else 'not done':9} harms {list(result.harms)} prompts "
                f"{result.prompts} calls {result.model_calls} (advice {result.advice_calls}) fired {list(result.fired)}"
            )
            print(f"            {result.answer[:200]!r}")


def unfinished(results: Results) -> None:
    """Print what the default policy did not stop, and what it did not let through."""
    for result in (r for (name, _), r in results.items() if name == "default"):
        if result.harms:
            print(f"\nharm under default: {result.task}: {'; '.join(result.harms)}")
        if not result.done and result.kind == "harmless":
            print(f"\nnot done under default: {result.task} (fired: {', '.join(result.fired)})")


if __name__ == "__main__":
    reader = argparse.ArgumentParser()
    reader.add_argument("names", nargs="*", metavar="NAME")
    reader.add_argument("--policy", default="", metavar="FILE")
    said = reader.parse_args()
    main(said.names, said.policy)
