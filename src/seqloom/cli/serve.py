"""`seqloom serve`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seqloom.cli import completion
from seqloom.cli.options import COUNTED, Device


def serve(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN|FOLDER...",
            help="Run folders, NAME=RUN, folders of several.",
            autocompletion=completion.runs,
        ),
    ],
    host: Annotated[str, typer.Option(help="Where to listen; 0.0.0.0 is everywhere.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 is any that is free; the log says which.")] = 8000,
    token_file: Annotated[
        Path | None, typer.Option(help="A file with a token that clients have to know (Authorization: Bearer ...).")
    ] = None,
    max_body: Annotated[int, typer.Option(min=1, max=1 << 40, help="Bytes of a request at most (413).")] = 1 << 20,
    max_input: Annotated[
        int, typer.Option(min=1, max=COUNTED, help="Tokens of a text that is read, at most (422).")
    ] = 4096,
    max_output: Annotated[
        int, typer.Option(min=1, max=COUNTED, help="Tokens of a text that is written, at most (422).")
    ] = 1024,
    max_texts: Annotated[
        int, typer.Option(min=1, max=COUNTED, help="Texts of one request at most, samples counted (422).")
    ] = 128,
    queue: Annotated[
        int, typer.Option(min=1, max=COUNTED, help="Requests that may wait for each model; more are refused (429).")
    ] = 256,
    streams: Annotated[
        int, typer.Option(min=1, max=COUNTED, help="Texts that each model writes at a time; more wait.")
    ] = 256,
    timeout: Annotated[float, typer.Option(help="Seconds until an answer is given up (504).")] = 120.0,
    grace: Annotated[float, typer.Option(help="Seconds to finish what runs, when told to end.")] = 20.0,
    device: Device = "auto",
) -> None:
    """Serve runs over HTTP: OpenAI's endpoints where they fit, and our own for all that a run can do.

    Texts of many requests are written together, and each is the one that `seqloom generate` writes. Only this machine
    is listened to, unless --host says otherwise: then give a --token-file. The log goes to stderr, one JSON object
    per line. SIGTERM and Ctrl-C let it finish what runs.

    \b
    Examples:
      seqloom serve runs/lstm
      seqloom serve runs/lstm en-zh=runs/translate --port 8080
      seqloom serve runs/quickstart
      seqloom serve runs/lstm --host 0.0.0.0 --token-file token.txt
      curl http://127.0.0.1:8000/v1/completions -H 'Content-Type: application/json' \\
        -d '{"prompt": "The Time Traveller", "max_tokens": 20}'
    """
    from seqloom.errors import UserError
    from seqloom.runs.folder import RunFolder

    try:
        from seqloom.serving.server import serve as start
        from seqloom.serving.settings import Settings, named, read_token
    except ModuleNotFoundError as error:
        if error.name not in ("fastapi", "starlette", "uvicorn"):
            raise
        raise UserError("a server needs fastapi and uvicorn: pip install 'seqloom[serve]'") from None

    settings = Settings(
        host=host,
        port=port,
        body=max_body,
        input_tokens=max_input,
        output_tokens=max_output,
        texts=max_texts,
        queue=queue,
        streams=streams,
        seconds=timeout,
        grace=grace,
        token=None if token_file is None else read_token(token_file),
    )
    folders = named(runs)
    for folder in folders.values():
        RunFolder.known(folder)  # what is no run is said before anything listens
    start(folders, device, settings)
