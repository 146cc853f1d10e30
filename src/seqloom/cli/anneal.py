"""`seqloom anneal`"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seqloom.cli.options import COUNTED, HELD, Json, Seed, load_able, print_json
from seqloom.progress import say

if TYPE_CHECKING:
    from seqloom.models.energy.search import Found
    from seqloom.runs.capabilities import Anneals

LISTED = 10  # nodes of a side, or states, that plain output names


def anneal(
    source: Annotated[
        str,
        typer.Argument(
            metavar="GRAPH|RUN",
            help="Edges, one a line: node, tab, node, tab, weight; or petersen, random:NODES:EDGES; or a run.",
        ),
    ],
    chains: Annotated[int, typer.Option(min=1, max=HELD, help="How many searches, each from a random state.")] = 64,
    sweeps: Annotated[int, typer.Option(min=1, max=COUNTED, help="How often every unit is updated.")] = 500,
    hottest: Annotated[
        float | None, typer.Option(help="The first temperature; by default a high one for these weights.")
    ] = None,
    coldest: Annotated[
        float | None, typer.Option(help="The last temperature; by default a hundredth of the first.")
    ] = None,
    seed: Seed = 0,
    out: Annotated[Path | None, typer.Option(help="A picture of what was found: .png, .svg or .pdf.")] = None,
    json: Json = False,
) -> None:
    """Search for a state of low energy by simulated annealing: of a graph the largest cut, of a Boltzmann machine the
    most probable images.

    A cut parts the nodes of a graph in two; it weighs what the edges between both sides weigh together. The energy of
    a state is minus the weight of its cut.

    \b
    Examples:
      seqloom anneal graph.tsv --out cut.png
      seqloom anneal random:100:300 --sweeps 2000 --json
      seqloom anneal runs/boltzmann --out likely.png
    """
    import math

    from seqloom.errors import UserError

    for name, temperature in (("--hottest", hottest), ("--coldest", coldest)):
        if temperature is not None and not (temperature > 0 and math.isfinite(temperature)):
            raise UserError(f"{name} {temperature:g}: a temperature is a number above 0")
    options: dict[str, Any] = {
        "chains": chains,
        "sweeps": sweeps,
        "hottest": hottest,
        "coldest": coldest,
        "seed": seed,
    }
    if Path(source).is_dir():
        _of_run(source, options, out, json)
    else:
        _of_graph(source, options, out, json)


def _of_graph(source: str, options: dict[str, Any], out: Path | None, json: bool) -> None:
    from seqloom.data.graphs import open_graph
    from seqloom.models.energy.search import anneal, max_cut

    graph = open_graph(source)
    found = anneal(max_cut(graph), **options)
    best = found.best
    sides = [[name for name, side in zip(graph.names, best.tolist(), strict=True) if side == one] for one in (0, 1)]
    if out is not None:
        from seqloom.reports.plots import cut_figure
        from seqloom.reports.style import save

        save(cut_figure(graph, best, -found.trace), out)
        say(f"picture: {out}")
    cut, crossing = graph.cut(best), int(graph.crossing(best).sum())
    if json:
        record = {
            "graph": source,
            "nodes": len(graph.names),
            "edges": len(graph.weights),
            "weight": graph.total,
            "cut": cut,
            "edges_cut": crossing,
            **_about(found),
            "sides": sides,
        }
        print_json(record)
        return
    typer.echo(f"cut    {cut:,.10g} of {graph.total:,.10g}: {crossing:,} of {len(graph.weights):,} edges")
    _say_chains(found)
    for number, side in enumerate(sides, start=1):
        more = f" ... and {len(side) - LISTED:,} more" if len(side) > LISTED else ""
        typer.echo(f"side {number} {' '.join(side[:LISTED])}{more}")


def _of_run(source: str, options: dict[str, Any], out: Path | None, json: bool) -> None:
    import numpy as np

    from seqloom.runs.capabilities import Anneals

    run: Anneals = load_able(source, Anneals, "cpu")
    found = run.lowest(**options)
    states, first, counts = np.unique(found.states, axis=0, return_index=True, return_counts=True)
    order = np.argsort(found.energies[first], kind="stable")
    energies, counts = found.energies[first][order], counts[order]
    if out is not None:
        _save_states(run, states[order], out)
        say(f"picture: {out}")
    if json:
        listed = [
            {"energy": energy, "chains": count, "units": state}
            for energy, count, state in zip(energies.tolist(), counts.tolist(), states[order].tolist(), strict=True)
        ]
        print_json({"run": source, **_about(found), "states": listed})
        return
    _say_chains(found)
    for energy, count in zip(energies[:LISTED].tolist(), counts[:LISTED].tolist(), strict=True):
        typer.echo(f"energy {energy:.4f}, found by {count:,} of {len(found.energies):,} chains")
    if len(energies) > LISTED:
        typer.echo(f"... and {len(energies) - LISTED:,} more states")


def _save_states(run: Anneals, states: Any, out: Path) -> None:
    import torch

    from seqloom.reports.pictures import save_sheet

    save_sheet(run.as_images(torch.from_numpy(states)), out)


def _about(found: Found) -> dict[str, Any]:
    return {
        "energy": found.energy,
        "chains": len(found.energies),
        "chains_at_best": _at_best(found),
        "sweeps": len(found.temperatures),
        "hottest": float(found.temperatures[0]),
        "coldest": float(found.temperatures[-1]),
    }


def _say_chains(found: Found) -> None:
    said = f"found by {_at_best(found):,} of {len(found.energies):,} chains, {len(found.temperatures):,} sweeps each"
    typer.echo(f"energy {found.energy:,.10g}: {said}")


def _at_best(found: Found) -> int:
    """How many chains came as low as the best."""
    import numpy as np

    return int(np.isclose(found.energies, found.energy, rtol=1e-9, atol=1e-9).sum())
