"""``python -m coordinator`` is ``fleet``."""

from coordinator.cli import main

main()
