"""Keeps pytest from running the files of the facade that put a module of core in their own place.

Pytest looks for examples by executing each file, and hands the file's own, empty, module to ``tensorplay``; an import
statement takes what the file left in ``sys.modules``. The examples of those modules run where they are written.
"""

from __future__ import annotations

collect_ignore_glob = ["tensorplay/[a-z]*.py", "tensorplay/nn/*"]
