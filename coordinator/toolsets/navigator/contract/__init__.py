"""What goes in and out: one struct for the arguments and the results of each tool."""
