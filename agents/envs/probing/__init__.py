"""What an environment must show before anything is learned there or judged there."""
