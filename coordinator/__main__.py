"""``python -m coordinator`` is ``fleet``."""

import sys


def main() -> None:
    """Entry point of the ``fleet`` script. An interrupt ends it quietly, also while it imports the rest."""
    try:
        from coordinator.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
