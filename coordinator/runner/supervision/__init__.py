"""Commands below a supervisor, a process that ends all that they have started."""
