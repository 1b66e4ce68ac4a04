"""``python -m runner``."""

import sys

if __name__ == "__main__":
    try:
        from runner.cli import main

        sys.exit(main())
    except KeyboardInterrupt:  # while Python was still importing
        sys.exit(130)
