"""What a spec says of single bytes and elements, for people: where they lie, and pictures of layouts."""
