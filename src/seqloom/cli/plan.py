"""`seqloom plan`"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from seqloom.cli.options import COUNTED, Json, Seed, print_json

if TYPE_CHECKING:
    from seqloom.models.decisions.grid import GridWorld
    from seqloom.models.decisions.process import DecisionProcess, Solution

Method = Literal["value-iteration", "policy-iteration", "q-learning", "random"]


def plan(
    world: Annotated[
        str,
        typer.Argument(
            metavar="MAP", help="Lines of . (free), # (wall), S (start), + and - (ends); or four-by-three, cliff."
        ),
    ],
    method: Annotated[
        Method, typer.Option(help="How to find the best moves; random evaluates moving anywhere.")
    ] = "value-iteration",
    discount: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="γ: what a reward is worth one move earlier.")
    ] = 1.0,
    step: Annotated[float, typer.Option(min=-1e6, max=1e6, help="The reward of a move.")] = -0.04,
    slip: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="How likely a move goes to one side of where it should.")
    ] = 0.2,
    good: Annotated[float, typer.Option(min=-1e6, max=1e6, help="The reward on +.")] = 1.0,
    bad: Annotated[float, typer.Option(min=-1e6, max=1e6, help="The reward on -.")] = -1.0,
    episodes: Annotated[int, typer.Option(min=1, max=COUNTED, help="q-learning: walks to learn from.")] = 20_000,
    seed: Seed = 0,
    out: Annotated[Path | None, typer.Option(help="A picture of values and moves: .png, .svg or .pdf.")] = None,
    json: Json = False,
) -> None:
    """The best way to walk through a grid world, a Markov decision process: what each field is worth, and where to go.

    A walk ends on + and on -, each with its reward. Value and policy iteration know all probabilities, q-learning
    finds out by walking.

    \b
    Examples:
      seqloom plan four-by-three --out values.svg
      seqloom plan cliff --slip 0 --step -1 --bad -100 --method q-learning
      seqloom plan map.txt --discount 0.9 --json
    """
    from seqloom.models.decisions.grid import open_grid

    grid = open_grid(world)
    process = grid.process(discount, step, slip, good, bad)
    solution = _solved(process, method, episodes, seed, grid.start)
    if out is not None:
        from seqloom.reports.decisions import grid_figure
        from seqloom.reports.style import save

        save(grid_figure(grid, solution, f"{grid.name}: values and moves by {method.replace('-', ' ')}"), out)
        typer.echo(f"picture: {out}", err=True)
    _show(grid, solution, method, json)


def _solved(process: DecisionProcess, method: Method, episodes: int, seed: int, start: int | None) -> Solution:
    match method:
        case "value-iteration":
            return process.value_iteration()
        case "policy-iteration":
            return process.policy_iteration()
        case "q-learning":
            from seqloom.models.decisions.q_learning import q_learning

            return q_learning(process, episodes, start=start, seed=seed)[0]
        case "random":
            from seqloom.models.decisions.process import Solution

            return Solution(process.uniform, process.evaluate(process.uniform), 1)


def _show(grid: GridWorld, solution: Solution, method: Method, json: bool) -> None:
    from seqloom.models.decisions.grid import ACTIONS, ARROWS, BAD, GOOD

    height, width = len(grid.rows), len(grid.rows[0])
    values: list[list[float | None]] = [[None] * width for _ in range(height)]
    moves: list[list[int | None]] = [[None] * width for _ in range(height)]
    for state, (row, column) in enumerate(grid.fields):
        values[row][column] = float(solution.values[state])
        if grid.rows[row][column] not in (GOOD, BAD):
            moves[row][column] = int(solution.policy[state].argmax())
    if json:
        named = [[None if move is None else ACTIONS[move] for move in line] for line in moves]
        print_json({"world": grid.name, "method": method, "rounds": solution.rounds, "values": values, "moves": named})
        return
    for line, chosen in zip(values, moves, strict=True):
        cells = [
            "       #" if value is None else f"{value:7.3f}{' ' if move is None else ARROWS[move]}"
            for value, move in zip(line, chosen, strict=True)
        ]
        typer.echo(" ".join(cells).rstrip())
