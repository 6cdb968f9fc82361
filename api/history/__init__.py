"""What has happened: replayed, graded again, withdrawn, erased, signed, and asked what-if."""
