"""Who a visitor is: sign-in by ticket, token or the authorization server, and sessions."""
