"""Who is calling: verification of actors and what is trusted when it cannot be done."""
