"""A plugin built against plugin API 1.0."""
