"""`python -m tests.languages`: puts new texts into the catalogues, drops those that are gone, and compiles."""

from __future__ import annotations

import sys

from tests.languages import catalogues

missing = catalogues.update_all()
for language, count in missing.items():
    print(f"{catalogues.source_of(language)}: {count} without a translation")
sys.exit(1 if any(missing.values()) else 0)
