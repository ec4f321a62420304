"""`manage.py demo`: the shop, open for business; with `--once`, as a story that is told and checked."""

from __future__ import annotations

import signal
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from durable.errors import DurableError
from project.demo.business import open_shop
from project.demo.children import ChildEnded, PortTaken
from project.demo.story import tell
from project.demo.telling import StoryBroken


class Command(BaseCommand):
    """Thin: arguments, words, exit code."""

    help = "Open the demo shop: a site, a worker, and orders coming in. Ctrl-C closes it."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--once", action="store_true", help="tell the whole story once, unattended, and exit")
        parser.add_argument("--cluster", action="store_true", help="have the parcels packed by a django-q2 cluster")
        parser.add_argument("--port", type=int, help="the site's port (default: 8000, or the next free one)")

    def handle(self, *args: Any, **options: Any) -> None:
        """Exit 0 when the shop was closed or the story ended as told, 1 otherwise."""
        # A closed terminal or a supervisor's SIGTERM closes the shop like Ctrl-C does: no child is left behind.
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.default_int_handler)
        run = tell if options["once"] else open_shop
        try:
            run(port=options["port"], say=self._say, cluster=options["cluster"])
        except KeyboardInterrupt:
            self._say("The shop is closed.")
        except (PortTaken, ChildEnded, StoryBroken) as broken:
            raise CommandError(str(broken)) from broken
        except (DurableError, TimeoutError) as broken:
            raise CommandError(f"The story did not end as told: {type(broken).__name__}: {broken}") from broken

    def _say(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()
