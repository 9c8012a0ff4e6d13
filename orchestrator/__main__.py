"""`python -m orchestrator` is `orc`."""

from orchestrator.cli.main import main

if __name__ == "__main__":
    main()
