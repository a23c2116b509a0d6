"""The demo: a layer of the real sizes through the generated loader, every byte against closed formulas."""
