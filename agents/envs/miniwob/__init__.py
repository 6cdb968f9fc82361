"""MiniWoB++ as a foreign environment: its pages in our own headless Chromium, one environment per task."""
