"""`python -m tests.golden.record 0.1` writes the golden histories of a release, once. What is there stays as it is."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

FOLDER = Path(__file__).parent


def main(release: str) -> int:
    """Run the stories on a database of their own and write the histories that are missing."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    import django

    django.setup()
    from django.test.runner import DiscoverRunner

    from durable import testing
    from tests.golden.stories import BEGIN, STORIES

    folder = FOLDER / release
    folder.mkdir(exist_ok=True)
    runner = DiscoverRunner(verbosity=0, interactive=False)
    databases = runner.setup_databases()
    try:
        for name, story in STORIES.items():
            path = folder / f"{name}.json"
            if path.exists():
                continue
            with testing.freeze(BEGIN):
                history = testing.export_history(story())
            path.write_text(json.dumps(history, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    finally:
        runner.teardown_databases(databases)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
