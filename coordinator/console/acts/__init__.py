"""What people do in the console: buttons and forms, and what they set off."""
