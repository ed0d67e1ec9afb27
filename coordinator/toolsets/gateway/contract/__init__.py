"""Arguments and results of the gateway's tools."""
