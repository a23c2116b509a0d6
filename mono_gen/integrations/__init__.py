"""Drop-in modules for serving engines, on top of generated loaders. Imported by name, never by the package itself."""
