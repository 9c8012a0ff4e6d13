"""The command `orc`, and `python -m orchestrator`."""

import gc
import os
import signal


def main() -> None:
    """Load `orc` and run it. A Ctrl-C before it is loaded ends it without a word."""
    signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    gc.set_threshold(50_000)  # what is loaded stays: looking through it takes a tenth of a command
    from orchestrator.cli.main import main as run

    signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


if __name__ == "__main__":
    main()
