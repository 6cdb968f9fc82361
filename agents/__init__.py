"""What acts: runs tasks, learns memory, appends events. It never trains and never judges."""
