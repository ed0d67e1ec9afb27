"""What the fleet is told of attempts: how they ended, and what they have used."""
