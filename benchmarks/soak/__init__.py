"""A service, two workers and a load for half an hour, with faults, watched for growth."""
