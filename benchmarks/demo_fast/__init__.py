"""What each way to learn brings, on both of our sites, on instances that nothing was learned from."""
