"""What the fast loop lets into memory, measured: no outcome lost, nothing promoted that does nothing."""
