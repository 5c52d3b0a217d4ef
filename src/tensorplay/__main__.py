"""``python -m tensorplay``: the command line without the script.

Useful where the scripts of an environment are not on the path; it is the same program as ``tensorplay``.
"""

from __future__ import annotations

from tensorplay_core.cli import main

if __name__ == "__main__":
    main(prog_name="tensorplay")
