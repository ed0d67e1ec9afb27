"""What is checked before a store is used: that it is the fleet's, kept its data, and permits what scripts do."""
