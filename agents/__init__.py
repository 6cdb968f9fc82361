"""The acting plane: runs tasks, learns memory, appends events. It never trains and never decides promotions."""
