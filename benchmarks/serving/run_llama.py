"""Serves a model by llama.cpp, from whichever of its packages is there: `xllamacpp` or `llama_cpp`.

python run_llama.py MODEL PORT CONTEXT
"""

from __future__ import annotations

import sys
import time
from importlib import import_module
from importlib.util import find_spec
from typing import Any

MOST = 48
"""Tokens of an answer."""


def main(model: str, port: int, context: int) -> None:
    """Serve until the process is ended."""
    if find_spec("xllamacpp") is None:
        uvicorn, app, settings = (
            import_module(name) for name in ("uvicorn", "llama_cpp.server.app", "llama_cpp.server.settings")
        )
        of_model = settings.ModelSettings(model=model, n_ctx=context, n_gpu_layers=0, n_threads=1, verbose=False)
        made = app.create_app(server_settings=settings.ServerSettings(port=port), model_settings=[of_model])
        uvicorn.run(made, host="127.0.0.1", port=port, log_level="warning")
        return
    native: Any = import_module("xllamacpp")
    asked = native.CommonParams()
    asked.model.path, asked.port, asked.n_ctx, asked.n_predict, asked.n_parallel = model, port, context, MOST, 1
    asked.warmup, asked.use_jinja, asked.offline, asked.sampling.seed, asked.cpuparams.n_threads = (
        False,
        True,
        True,
        3,
        1,
    )
    server = native.Server(asked)
    print(server.listening_address, flush=True)
    while True:
        time.sleep(3600)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
