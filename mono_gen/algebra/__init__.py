"""The algebra of layouts: digits, splits, pads, store orders, and what can be proved of them. Integers only."""
