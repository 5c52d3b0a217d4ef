"""The formula language of the contract: tokens, syntax tree, parser and analysis. None is ever evaluated as text."""
