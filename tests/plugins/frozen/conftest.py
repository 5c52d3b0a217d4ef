"""The sources of frozen plugins are no tests of ours, and their modules are imported as plugins alone."""

collect_ignore_glob = ["*/src/*"]
