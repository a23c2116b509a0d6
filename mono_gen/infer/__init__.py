"""A layout from a torch function: it is run on data that say where they came from, and its order is read off."""
