"""The programs are for processes of their own."""

collect_ignore_glob = ["programs/*"]
