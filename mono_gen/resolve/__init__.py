"""Tree to model. Every mistake of a user that is not one of syntax is found here, all of them at once."""
