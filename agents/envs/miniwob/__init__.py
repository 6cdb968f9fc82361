"""MiniWoB++ as a foreign environment: its pages in a headless Chromium of ours, one environment for each task."""
