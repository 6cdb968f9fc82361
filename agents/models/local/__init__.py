"""The backend `transformers`: samples from a base model and its adapters in this process, in batches."""
