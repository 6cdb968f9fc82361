"""The backend `transformers`: a base model and adapters out of folders, drawn from in this process, many at a time."""
