"""Model to plan: what every target needs to know, decided once. Target-neutral; emitters only spell it."""
