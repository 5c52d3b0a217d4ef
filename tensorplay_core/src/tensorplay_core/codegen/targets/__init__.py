"""The targets: each module owns one family of generated files, and can be run alone."""
